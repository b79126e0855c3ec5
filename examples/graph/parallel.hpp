// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace orchard::examples {

/// Calls `body(i)` for each i below `count`, on as many threads as the machine has cores, and waits for them. Threads
/// take pieces in turn, so that unequal items (vertices of high degree) do not leave cores idle. `body` must not throw.
template <class Body>
void parallel_for(std::uint64_t count, const Body& body) {
    constexpr std::uint64_t piece = 1024;
    const std::uint64_t cores = std::max(1u, std::thread::hardware_concurrency());
    const std::uint64_t threads = std::min(cores, (count + piece - 1) / piece);
    std::atomic<std::uint64_t> next{0};
    const auto work = [&] {
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
    work();
    for (std::thread& t : others) {
        t.join();
    }
}

}  // namespace orchard::examples
