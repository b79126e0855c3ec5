// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The scheduler for normal use, as opposed to the search for faults: first come, first served.
///
///     queue_       ... | 5 | 6 | 0 | 1 | ...       thread indices of one block
///                        ^               ^
///                        first_          last_     `next` takes 5, `add` puts a lane behind 1
///
/// One host thread owns each object: there are no atomics.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <thread>

namespace orchard::simt::emulated {

/// The most threads of a block, as on CUDA.
inline constexpr std::uint32_t max_threads_per_block = 1024;

/// A queue of the lanes of one block that can run, by thread index. A lane that pauses goes to its end like all others;
/// it is also counted, so that a queue of only pausing lanes is noticed. Nothing is allocated.
class fast_scheduler {
public:
    /// Empties the queue, for the next block.
    void reset() {
        first_ = last_ = paused_ = 0;
        round_left_ = 0;
    }
    /// Adds a lane that became runnable. Precondition: it is not in the queue.
    void add(std::uint32_t thread) { queue_[last_++ % capacity] = thread; }
    /// Adds a lane that has called `pause`. Precondition: it is not in the queue.
    void add_paused(std::uint32_t thread) {
        add(thread);
        ++paused_;
    }
    [[nodiscard]] bool empty() const { return first_ == last_; }

    /// Returns true once a round if all lanes that can run are in `pause`: it is time to let other host threads run. A
    /// round is as many calls of `next` as lanes paused at its begin, so that each of them looks once at the word that
    /// it waits for.
    bool begins_round_of_pauses() {
        if (paused_ != last_ - first_ || round_left_ != 0) {
            return false;
        }
        round_left_ = paused_;
        return true;
    }
    /// Takes the lane that has waited longest out of the queue. Precondition: not empty.
    std::uint32_t next() {
        round_left_ -= round_left_ != 0 ? 1 : 0;
        return queue_[first_++ % capacity];
    }
    /// Notes that `count` lanes added by `add_paused`, among them the one taken last, no longer pause.
    void unpaused(std::uint32_t count) { paused_ -= count; }

private:
    static constexpr std::uint32_t capacity = max_threads_per_block;  // a lane is in the queue at most once
    std::array<std::uint32_t, capacity> queue_{};
    std::uint32_t first_ = 0;  // both only grow, modulo 2^32
    std::uint32_t last_ = 0;
    std::uint32_t paused_ = 0;      // lanes in the queue that are in `pause`
    std::uint32_t round_left_ = 0;  // calls of `next` until the round of pauses is over; 0: none is under way
};

/// Yields the processor if all lanes of a block only wait, so that the threads that they wait for can run.
///
///     round without work    1 ... 256    257      273      ...    1,040 and later
///     the thread            yields       20 us    40 us           sleeps 1 ms
///
/// A hint of the lanes lengthens a sleep, up to 1 ms, but turns no yield into a sleep.
class idle_backoff {
public:
    /// Call this between two rounds of pauses.
    /// @param worked   the last round wrote something, or a lane ended
    /// @param hint_ns  the shortest hint that the lanes gave, in nanoseconds
    void wait(bool worked, std::uint32_t hint_ns) {
        idle_rounds_ = worked ? 0 : std::min(idle_rounds_ + 1, max_rounds);
        if (idle_rounds_ <= yielding_rounds) {
            std::this_thread::yield();
        } else {
            // Sleeps grow with the time spent waiting, so that they add little to it: by `shortest_sleep_ns` every 16
            // rounds.
            const std::uint32_t grown = shortest_sleep_ns * (1 + (idle_rounds_ - yielding_rounds) / 16);
            const std::uint32_t sleep = std::min(std::max(hint_ns, grown), longest_sleep_ns);
            std::this_thread::sleep_for(std::chrono::nanoseconds(sleep));
        }
    }
    /// Begins again with yields, for the next block.
    void reset() { idle_rounds_ = 0; }

private:
    static constexpr std::uint32_t yielding_rounds = 256;  // about 100 us: longer than a response takes
    static constexpr std::uint32_t shortest_sleep_ns = 20'000;
    static constexpr std::uint32_t longest_sleep_ns = 1'000'000;
    static constexpr std::uint32_t max_rounds = 2'000;  // bounds the count; sleeps have their greatest length before
    std::uint32_t idle_rounds_ = 0;                     // rounds since the last one with work
};

}  // namespace orchard::simt::emulated
