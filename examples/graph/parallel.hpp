// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A loop over independent items on all cores of the host.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace orchard::examples {

/// Calls `body(i)` for each i below `count`, on as many threads as the machine has cores, and waits for them. Threads
/// take pieces in turn, so that unequal items (vertices of high degree) do not leave cores idle. `body` must not throw.
/// @param piece  items that a thread takes at once: enough that the shared counter is seldom touched; 1 for long items
template <class Body>
void parallel_for(std::uint64_t count, const Body& body, std::uint64_t piece = 1024) {
    const std::uint64_t cores = std::max(1u, std::thread::hardware_concurrency());
    const std::uint64_t threads = std::min(cores, (count + piece - 1) / piece);
    std::atomic<std::uint64_t> next{0};
    const auto work = [&] {
        // Relaxed: the counter only hands out numbers. The join makes all that `body` wrote visible to the caller.
        for (std::uint64_t first; (first = next.fetch_add(piece, std::memory_order_relaxed)) < count;) {
            for (std::uint64_t i = first; i < std::min(count, first + piece); ++i) {
                body(i);
            }
        }
    };
    std::vector<std::thread> others;
    for (std::uint64_t i = 1; i < threads; ++i) {
        others.emplace_back(work);
    }
    // The calling thread takes part.
    work();
    for (std::thread& t : others) {
        t.join();
    }
}

}  // namespace orchard::examples
