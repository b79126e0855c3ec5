// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The functions that the seam calls when code runs on the host. The caller is a lane of the emulated device, or a host
/// thread (the service, a test), for which `current_lane` is null.
///
///     simt::ballot ----> emulated::ballot --> current_simulation?  simulation::meet      explore/
///                                             current_lane?        block_runner::meet    block_runner.hpp
///                                             neither              the thread's own bit
///     atomic::load ----> current_simulation?  simulation::load
///                        otherwise            on_access, then the compiler's __atomic functions
///
/// Thread-local pointers tell a call in which of these worlds its thread is. A host thread runs one lane or actor at a
/// time, so that they need no lock.

#include <cstdint>

#include "device/simt/config.cuh"
#include "device/simt/emulated/block_sum.hpp"

namespace orchard::simt::emulated {

/// The kind of an access to shared memory, for the cost counters.
enum class access : int { load, store, read_modify_write };

/// The costs of one launch, summed over its lanes. They are always counted, so that tests can assert costs.
struct costs {
    std::uint64_t device_loads = 0;        ///< atomic loads of device memory
    std::uint64_t device_stores = 0;       ///< atomic stores to device memory
    std::uint64_t device_atomics = 0;      ///< read-modify-writes of device memory
    std::uint64_t host_words_read = 0;     ///< 64-bit (or smaller) words of host-visible memory read by lanes
    std::uint64_t host_words_written = 0;  ///< words of host-visible memory written by lanes
    std::uint64_t host_atomics = 0;        ///< read-modify-writes of host-visible memory; must stay 0
    std::uint64_t collectives = 0;         ///< collectives completed, one for each group; `converge` does not count
    std::uint64_t pauses = 0;              ///< calls of `pause`, one for each lane

    /// Adds the costs of another worker of the launch.
    costs& operator+=(const costs& other) {
        device_loads += other.device_loads;
        device_stores += other.device_stores;
        device_atomics += other.device_atomics;
        host_words_read += other.host_words_read;
        host_words_written += other.host_words_written;
        host_atomics += other.host_atomics;
        collectives += other.collectives;
        pauses += other.pauses;
        return *this;
    }
};

struct lane;  // one emulated lane: a fiber; defined by the engine

/// One access to a shared word, for a simulation.
struct shared_access {
    const volatile void* word;
    std::uint8_t bytes;  ///< 4 or 8
    order ordered;
    scope within;
    bool is_plain;  ///< not an atomic access: something else must order it
    site where;
};

/// The operation of a read-modify-write. A compare-and-swap has a function of its own.
enum class modification : std::uint8_t { add, subtract, bit_or, bit_and, exchange };

enum class wait_kind : std::uint8_t;

/// The interface that replaces memory, clock and scheduler for a thread with `current_simulation` set: the exploring
/// scheduler (`device/simt/explore`). Lanes and host code call it alike. Values are zero-extended. Other actors may run
/// before a call takes effect. Any call may throw, when the run has ended.
class simulation_hooks {
public:
    simulation_hooks() = default;
    simulation_hooks(const simulation_hooks&) = delete;
    simulation_hooks& operator=(const simulation_hooks&) = delete;

    /// Memory, as the functions of `atomic` and `plain`. `modify` returns the value before it. `compare_exchange`
    /// stores the value found in `expected` if it fails, with the order `on_failure`.
    virtual std::uint64_t load(const shared_access& a) = 0;
    virtual void store(const shared_access& a, std::uint64_t value) = 0;
    virtual std::uint64_t modify(const shared_access& a, modification what, std::uint64_t operand) = 0;
    virtual bool compare_exchange(const shared_access& a, order on_failure, std::uint64_t& expected,
                                  std::uint64_t desired) = 0;
    virtual void fence(scope within, site where) = 0;
    /// As `std::atomic::wait` and `notify_all`: `wait_while` returns once the word was seen to differ from `old`.
    virtual void wait_while(const shared_access& a, std::uint64_t old) = 0;
    virtual void notify(const volatile void* word) = 0;

    /// As the functions of the same names in lane.cuh and block.cuh. `meet` is every collective with a mask; `source`
    /// is for a shuffle.
    virtual int lane_id() = 0;
    virtual thread_position position() = 0;
    virtual std::uint64_t clock_ns() = 0;
    virtual lane_mask converge(site where) = 0;
    virtual std::uint64_t meet(wait_kind kind, lane_mask mask, std::uint64_t operand, int source, site where) = 0;
    virtual block_sum sum_in_block(std::uint64_t value, site where) = 0;
    virtual void pause(std::uint32_t nanoseconds, site where) = 0;

protected:
    // No object is deleted through this class.
    ~simulation_hooks() = default;
};

// The thread-local variables are `__thread`, which C++17 has too: each access reads the variable directly, without the
// check whether this thread has initialized it.

/// The simulation that runs on this host thread; null on all other threads.
extern __thread simulation_hooks* current_simulation;

/// The lane that runs on this host thread; null if the thread runs no lane.
extern __thread lane* current_lane;

/// The counters of the block of `current_lane`; null if `current_lane` is null.
extern __thread costs* current_costs;

// The functions of lane.cuh on the host.

int lane_id();
thread_position position();
std::uint64_t clock_ns();

// Collectives. A thread that runs no lane gets its result at once: from `converge` and `match` its own bit, from
// `ballot` that bit if the predicate is true, from shuffles and reductions the value that it passed.

lane_mask converge(site where);
void sync(lane_mask mask, site where);
lane_mask ballot(lane_mask mask, bool predicate, site where);
std::uint64_t shuffle(lane_mask mask, std::uint64_t value, int source, site where);
lane_mask match(lane_mask mask, std::uint64_t value, site where);
std::uint64_t reduce_add(lane_mask mask, std::uint64_t value, site where);
std::uint64_t reduce_or(lane_mask mask, std::uint64_t value, site where);
std::uint64_t reduce_max(lane_mask mask, std::uint64_t value, site where);

/// Waits for a moment. A lane lets the other lanes of its block run meanwhile. Lanes and host threads call it. A host
/// thread yields the processor, or sleeps up to 1 ms if the hint is long enough.
void pause(std::uint32_t nanoseconds, site where);

/// Waits until the word is not `old`, and acquires; wakes all threads that wait so for the word. Host threads only.
void wait_while(const std::uint32_t* word, std::uint32_t old);
void wait_while(const std::uint64_t* word, std::uint64_t old);
void notify_all(const std::uint32_t* word);
void notify_all(const std::uint64_t* word);

class access_recorder;  // recorder.hpp

/// The recorder of the launch that this host thread works on; null if nothing is recorded.
extern __thread access_recorder* current_recorder;

/// Records an access of the current lane, if it lies in the recorded range. There must be a recorder.
void record(const volatile void* word, access kind);

/// Ends the launch with the error `why`, by an exception that leaves the kernel (std::runtime_error).
[[noreturn]] void stop_kernel(const char* why);

/// Counts and records an access of a lane. Every shared access calls it. For a host thread it does nothing. Cost: a
/// check of a thread-local variable, for a lane also an increment, without an atomic: each worker has counters of its
/// own.
inline void on_access(access kind, scope where, const volatile void* word) {
    costs* c = current_costs;
    if (c == nullptr) {
        return;
    }
    const bool host = where == scope::system;
    switch (kind) {
        case access::load: ++(host ? c->host_words_read : c->device_loads); break;
        case access::store: ++(host ? c->host_words_written : c->device_stores); break;
        case access::read_modify_write: ++(host ? c->host_atomics : c->device_atomics); break;
    }
    if (current_recorder != nullptr) {
        record(word, kind);
    }
}

}  // namespace orchard::simt::emulated
