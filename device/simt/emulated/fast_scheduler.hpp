// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Which lane runs next, for use (as against searching for faults): first come, first served.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <thread>

namespace orchard::simt::emulated {

/// Most threads of a block, as on CUDA.
inline constexpr std::uint32_t max_threads_per_block = 1024;

/// A queue of the lanes of one block that can run, by thread index. A lane that pauses goes to its end like all others;
/// it is only counted apart, so that a queue of nothing but pausing lanes is noticed. Nothing is allocated.
class fast_scheduler {
public:
    void reset() {
        first_ = last_ = paused_ = 0;
        round_left_ = 0;
    }
    void add(std::uint32_t thread) { queue_[last_++ % capacity] = thread; }
    void add_paused(std::uint32_t thread) {
        add(thread);
        ++paused_;
    }
    [[nodiscard]] bool empty() const { return first_ == last_; }

    /// True once a round, where nobody waits to run but lanes in `pause`: time to let other host threads run.
    bool begins_round_of_pauses() {
        if (paused_ != last_ - first_ || round_left_ != 0) {
            return false;
        }
        round_left_ = paused_;
        return true;
    }
    /// Precondition: not empty.
    std::uint32_t next() {
        round_left_ -= round_left_ != 0 ? 1 : 0;
        return queue_[first_++ % capacity];
    }
    /// `count` lanes that were added by `add_paused`, the one last taken among them, pause no longer.
    void unpaused(std::uint32_t count) { paused_ -= count; }

private:
    static constexpr std::uint32_t capacity = max_threads_per_block;  // a lane is in the queue at most once
    std::array<std::uint32_t, capacity> queue_{};
    std::uint32_t first_ = 0;  // both only grow, modulo 2^32
    std::uint32_t last_ = 0;
    std::uint32_t paused_ = 0;
    std::uint32_t round_left_ = 0;
};

/// Gives the processor away when all lanes of a block only wait, so that whom they wait for can run.
class idle_backoff {
public:
    /// To be called between two rounds of pauses.
    /// @param worked whether the last round did more than look: it wrote, or a lane ended
    /// @param hint_ns the shortest hint that the lanes gave, in nanoseconds
    void wait(bool worked, std::uint32_t hint_ns) {
        idle_rounds_ = worked ? 0 : std::min(idle_rounds_ + 1, max_rounds);
        if (idle_rounds_ <= yielding_rounds) {
            std::this_thread::yield();
        } else {
            // Sleeps grow with the time spent waiting, so that they add little to it.
            const std::uint32_t grown = shortest_sleep_ns * (1 + (idle_rounds_ - yielding_rounds) / 16);
            const std::uint32_t sleep = std::min(std::max(hint_ns, grown), longest_sleep_ns);
            std::this_thread::sleep_for(std::chrono::nanoseconds(sleep));
        }
    }
    void reset() { idle_rounds_ = 0; }

private:
    static constexpr std::uint32_t yielding_rounds = 256;  // some 100 us: longer than an answer takes
    static constexpr std::uint32_t shortest_sleep_ns = 20'000;
    static constexpr std::uint32_t longest_sleep_ns = 1'000'000;
    static constexpr std::uint32_t max_rounds = 2'000;  // where sleeps have reached their longest
    std::uint32_t idle_rounds_ = 0;
};

}  // namespace orchard::simt::emulated
