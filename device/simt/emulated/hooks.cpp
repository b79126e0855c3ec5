// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The functions of the seam on the host: they call the simulation, the block runner, or act for a lone host thread.
///
/// The simulation comes first: while it runs, its actors are the only code on this thread, and `current_lane` is null
/// for them.

#include "device/simt/emulated/hooks.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "device/simt/emulated/block_runner.hpp"

namespace orchard::simt::emulated {

__thread lane* current_lane = nullptr;
__thread costs* current_costs = nullptr;
__thread simulation_hooks* current_simulation = nullptr;

namespace {

// Shorter hints only yield the processor: a sleep takes longer than this, whatever its argument.
constexpr std::uint32_t shortest_sleep_ns = 50'000;
constexpr std::uint32_t longest_sleep_ns = 1'000'000;

/// Executes a collective of the current lane, and returns its result for this lane. On a host thread that is no lane,
/// returns `alone`. May throw if the launch or the run ends.
/// @param operand  the lane's contribution: a predicate of a ballot as 0 or 1, otherwise the value
/// @param source   for a shuffle, the lane whose operand is the result
std::uint64_t meet(wait_kind kind, lane_mask mask, std::uint64_t operand, site where, std::uint64_t alone,
                   int source = 0) {
    if (current_simulation != nullptr) {
        return current_simulation->meet(kind, mask, operand, source, where);
    }
    lane* const l = current_lane;
    return l == nullptr ? alone : l->runner->meet(*l, {kind, mask, where}, operand, source);
}

}  // namespace

int lane_id() {
    if (current_simulation != nullptr) {
        return current_simulation->lane_id();
    }
    const lane* const l = current_lane;
    return l == nullptr ? 0 : l->id;
}

thread_position position() {
    if (current_simulation != nullptr) {
        return current_simulation->position();
    }
    const lane* const l = current_lane;
    return l == nullptr ? thread_position{0, 0, 1, 1} : l->runner->position_of(*l);
}

std::uint64_t clock_ns() {
    if (current_simulation != nullptr) {
        return current_simulation->clock_ns();
    }
    // Lanes and host threads compare times, so that they share one clock. It never goes back.
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count());
}

lane_mask converge(site where) {
    if (current_simulation != nullptr) {
        return current_simulation->converge(where);
    }
    lane* const l = current_lane;
    return l == nullptr ? 1 : l->runner->converge(*l, where);
}

void sync(lane_mask mask, site where) { meet(wait_kind::sync, mask, 0, where, 0); }

lane_mask ballot(lane_mask mask, bool predicate, site where) {
    // A lone thread is lane 0, so that its predicate is also its mask.
    const std::uint64_t bit = predicate ? 1 : 0;
    return static_cast<lane_mask>(meet(wait_kind::ballot, mask, bit, where, bit));
}

std::uint64_t shuffle(lane_mask mask, std::uint64_t value, int source, site where) {
    return meet(wait_kind::shuffle, mask, value, where, value, source);
}

lane_mask match(lane_mask mask, std::uint64_t value, site where) {
    return static_cast<lane_mask>(meet(wait_kind::match, mask, value, where, 1));
}

std::uint64_t reduce_add(lane_mask mask, std::uint64_t value, site where) {
    return meet(wait_kind::reduce_add, mask, value, where, value);
}

std::uint64_t reduce_or(lane_mask mask, std::uint64_t value, site where) {
    return meet(wait_kind::reduce_or, mask, value, where, value);
}

std::uint64_t reduce_max(lane_mask mask, std::uint64_t value, site where) {
    return meet(wait_kind::reduce_max, mask, value, where, value);
}

block_sum sum_in_block(std::uint64_t value, site where) {
    if (current_simulation != nullptr) {
        return current_simulation->sum_in_block(value, where);
    }
    lane* const l = current_lane;
    return l == nullptr ? block_sum{0, value} : l->runner->sum(*l, value, where);
}

// A lane's exception reaches `block_runner::lane_main`, which stops the launch with this text.
void stop_kernel(const char* why) { throw std::runtime_error(why); }

void pause(std::uint32_t nanoseconds, site where) {
    if (current_simulation != nullptr) {
        return current_simulation->pause(nanoseconds, where);
    }
    lane* const l = current_lane;
    if (l != nullptr) {
        l->runner->pause(*l, nanoseconds, where);
    } else if (nanoseconds < shortest_sleep_ns) {
        std::this_thread::yield();
    } else {
        std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(nanoseconds, longest_sleep_ns)));
    }
}

namespace {
// `std::atomic_ref` needs a word that is not `const`.
template <class T>
std::atomic_ref<T> ref(const T* word) {
    return std::atomic_ref<T>(const_cast<T&>(*word));
}
}  // namespace

void wait_while(const std::uint32_t* word, std::uint32_t old) { ref(word).wait(old, std::memory_order_acquire); }
void wait_while(const std::uint64_t* word, std::uint64_t old) { ref(word).wait(old, std::memory_order_acquire); }
void notify_all(const std::uint32_t* word) { ref(word).notify_all(); }
void notify_all(const std::uint64_t* word) { ref(word).notify_all(); }

}  // namespace orchard::simt::emulated
