// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What the seam calls when code runs on the host: by a lane of the emulated device, or by a host thread (the service,
/// a test), for which `current_lane` is null.

#include <cstdint>

#include "device/simt/config.cuh"

namespace orchard::simt::emulated {

/// What an access to shared memory is, for the cost counters.
enum class access : int { load, store, read_modify_write };

/// What one launch cost, summed over its lanes. Counted always: tests assert costs by count.
struct costs {
    std::uint64_t device_loads = 0;        ///< atomic loads of device memory
    std::uint64_t device_stores = 0;       ///< atomic stores to device memory
    std::uint64_t device_atomics = 0;      ///< read-modify-writes of device memory
    std::uint64_t host_words_read = 0;     ///< 64-bit (or smaller) words of host-visible memory read by lanes
    std::uint64_t host_words_written = 0;  ///< words of host-visible memory written by lanes
    std::uint64_t host_atomics = 0;        ///< read-modify-writes of host-visible memory; must stay 0
    std::uint64_t collectives = 0;         ///< collectives completed, once a group; `converge` is none
    std::uint64_t pauses = 0;              ///< calls of `pause`, by lane

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

/// What one access to a shared word is, for a simulation.
struct shared_access {
    const volatile void* word;
    std::uint8_t bytes;  ///< 4 or 8
    order ordered;
    scope within;
    bool is_plain;  ///< no atomic access: something else must order it
    site where;
};

/// What a read-modify-write does to its word.
enum class modification : std::uint8_t { add, subtract, bit_or, bit_and, exchange };

enum class wait_kind : std::uint8_t;

/// What takes the place of memory, clock and scheduler for the thread that sets `current_simulation`: the exploring
/// scheduler (`device/simt/explore`). Its functions are called by lanes and by host code alike. Values are those of the
/// word, zero-extended.
class simulation_hooks {
public:
    simulation_hooks() = default;
    simulation_hooks(const simulation_hooks&) = delete;
    simulation_hooks& operator=(const simulation_hooks&) = delete;

    virtual std::uint64_t load(const shared_access& a) = 0;
    virtual void store(const shared_access& a, std::uint64_t value) = 0;
    virtual std::uint64_t modify(const shared_access& a, modification what, std::uint64_t operand) = 0;
    virtual bool compare_exchange(const shared_access& a, order on_failure, std::uint64_t& expected,
                                  std::uint64_t desired) = 0;
    virtual void fence(scope within, site where) = 0;
    /// As `std::atomic::wait` and `notify_all`: returns once the word was seen to differ from `old`.
    virtual void wait_while(const shared_access& a, std::uint64_t old) = 0;
    virtual void notify(const volatile void* word) = 0;

    virtual int lane_id() = 0;
    virtual thread_position position() = 0;
    virtual std::uint64_t clock_ns() = 0;
    virtual lane_mask converge(site where) = 0;
    virtual std::uint64_t meet(wait_kind kind, lane_mask mask, std::uint64_t operand, int source, site where) = 0;
    virtual void pause(std::uint32_t nanoseconds, site where) = 0;

protected:
    ~simulation_hooks() = default;
};

/// The simulation that runs on this host thread now; null on all others.
extern constinit thread_local simulation_hooks* current_simulation;

/// The lane that runs on this host thread now; null on a thread that is no lane.
extern constinit thread_local lane* current_lane;

/// The counters of the block that `current_lane` belongs to; null when `current_lane` is.
extern constinit thread_local costs* current_costs;

int lane_id();
thread_position position();
std::uint64_t clock_ns();

lane_mask converge(site where);
void sync(lane_mask mask, site where);
lane_mask ballot(lane_mask mask, bool predicate, site where);
std::uint64_t shuffle(lane_mask mask, std::uint64_t value, int source, site where);
lane_mask match(lane_mask mask, std::uint64_t value, site where);
std::uint64_t reduce_add(lane_mask mask, std::uint64_t value, site where);
std::uint64_t reduce_or(lane_mask mask, std::uint64_t value, site where);
std::uint64_t reduce_max(lane_mask mask, std::uint64_t value, site where);

/// Called by a lane or by a host thread that waits. A lane lets the other lanes of its block go on.
void pause(std::uint32_t nanoseconds, site where);

class access_recorder;  // recorder.hpp

/// What records the launch that this host thread works on; null where nothing does.
extern constinit thread_local access_recorder* current_recorder;

/// Has an access of the current lane recorded, if it is one of what is to be. Precondition: there is a recorder.
void record(const volatile void* word, access kind);

/// Ends the launch with the error `why`.
[[noreturn]] void stop_kernel(const char* why);

/// Counts an access of a lane, and has it recorded; every shared access goes through here.
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
