// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The SIMT seam, part 1: what a lane knows and what the lanes of a warp do together.
///
/// Every collective takes the mask of the lanes that take part; every lane named in it must call the same collective
/// with the same mask. On CUDA these are the `*_sync` intrinsics; on the emulated device the lanes meet, and a lane
/// that is named but does not come is reported as an error of the launch.

#include <bit>
#include <cstdint>

#include "device/simt/config.cuh"
#if !ORCHARD_CUDA_PASS
#include "device/simt/emulated/hooks.hpp"
#endif

namespace orchard::simt {

/// Number of bits set.
ORCHARD_INLINE int popcount(std::uint32_t x) {
#if ORCHARD_CUDA_PASS
    return __popc(x);
#else
    return std::popcount(x);
#endif
}
ORCHARD_INLINE int popcount(std::uint64_t x) {
#if ORCHARD_CUDA_PASS
    return __popcll(x);
#else
    return std::popcount(x);
#endif
}

/// Index of the lowest bit set; `x` must not be 0.
ORCHARD_INLINE int lowest_bit(std::uint32_t x) {
#if ORCHARD_CUDA_PASS
    return __ffs(static_cast<int>(x)) - 1;
#else
    return std::countr_zero(x);
#endif
}
ORCHARD_INLINE int lowest_bit(std::uint64_t x) {
#if ORCHARD_CUDA_PASS
    return __ffsll(static_cast<long long>(x)) - 1;
#else
    return std::countr_zero(x);
#endif
}

/// Index of the highest bit set; `x` must not be 0.
ORCHARD_INLINE int highest_bit(std::uint32_t x) {
#if ORCHARD_CUDA_PASS
    return 31 - __clz(static_cast<int>(x));
#else
    return 31 - std::countl_zero(x);
#endif
}

/// This lane's index in its warp, 0 to 31.
ORCHARD_INLINE int lane_id() {
#if ORCHARD_CUDA_PASS
    unsigned id;
    asm("mov.u32 %0, %%laneid;" : "=r"(id));
    return static_cast<int>(id);
#else
    return emulated::lane_id();
#endif
}

/// Where this thread stands in its grid.
ORCHARD_INLINE thread_position position() {
#if ORCHARD_CUDA_PASS
    return {blockIdx.x, threadIdx.x, blockDim.x, gridDim.x};
#else
    return emulated::position();
#endif
}

/// Nanoseconds of a clock that never goes back, comparable between all threads of one device. Resolution up to 1 us.
ORCHARD_INLINE std::uint64_t clock_ns() {
#if ORCHARD_CUDA_PASS
    std::uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
#else
    return emulated::clock_ns();
#endif
}

/// A number that differs from call to call, and means nothing: to begin a random walk with. Cheap, unlike the clock.
ORCHARD_INLINE std::uint32_t noise() {
#if ORCHARD_CUDA_PASS
    std::uint32_t cycles;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(cycles));
    return cycles;
#else
    return static_cast<std::uint32_t>(emulated::clock_ns());
#endif
}

/// The lanes of this warp that are here together: any subset of the lanes that execute this call, the caller in it.
/// All lanes of the subset get the same mask.
///
/// On CUDA the caller's own bit is set once more, from a special register. That changes no value; but without it
/// ptxas (13.0, sm_90) knows the mask for that of the active threads, takes it for granted that they stay the only
/// ones, and then lets a later VOTE count lanes of another group that have come to the same place meanwhile (seen: a
/// count of lanes freed that was too high). With it the collectives are compiled as exclusive to their mask.
ORCHARD_INLINE lane_mask converge(site where = site::here()) {
#if ORCHARD_CUDA_PASS
    (void)where;
    lane_mask own;
    asm volatile("mov.u32 %0, %%lanemask_eq;" : "=r"(own));
    return __activemask() | own;
#else
    return emulated::converge(where);
#endif
}

/// Waits for all lanes of `mask`; orders their memory accesses before it with those after it.
ORCHARD_INLINE void sync(lane_mask mask, site where = site::here()) {
#if ORCHARD_CUDA_PASS
    (void)where;
    __syncwarp(mask);
#else
    emulated::sync(mask, where);
#endif
}

/// The lanes of `mask` whose predicate is true.
ORCHARD_INLINE lane_mask ballot(lane_mask mask, bool predicate, site where = site::here()) {
#if ORCHARD_CUDA_PASS
    (void)where;
    return __ballot_sync(mask, predicate);
#else
    return emulated::ballot(mask, predicate, where);
#endif
}

/// The value that lane `source` (which must be in `mask`) passed. `T`: an integer of 32 or 64 bits.
template <class T>
ORCHARD_INLINE T shuffle(lane_mask mask, T value, int source, site where = site::here()) {
#if ORCHARD_CUDA_PASS
    (void)where;
    return __shfl_sync(mask, value, source);
#else
    return static_cast<T>(emulated::shuffle(mask, static_cast<std::uint64_t>(value), source, where));
#endif
}

/// The lanes of `mask` that passed the same value as this lane.
template <class T>
ORCHARD_INLINE lane_mask match(lane_mask mask, T value, site where = site::here()) {
#if ORCHARD_CUDA_PASS
    (void)where;
    return __match_any_sync(mask, value);
#else
    return emulated::match(mask, static_cast<std::uint64_t>(value), where);
#endif
}

/// The sum over the lanes of `mask`, in every lane; modulo 2^32.
ORCHARD_INLINE std::uint32_t reduce_add(lane_mask mask, std::uint32_t value, site where = site::here()) {
#if ORCHARD_CUDA_PASS
    (void)where;
    return __reduce_add_sync(mask, value);
#else
    return static_cast<std::uint32_t>(emulated::reduce_add(mask, value, where));
#endif
}

/// The greatest value over the lanes of `mask`, in every lane.
ORCHARD_INLINE std::uint32_t reduce_max(lane_mask mask, std::uint32_t value, site where = site::here()) {
#if ORCHARD_CUDA_PASS
    (void)where;
    return __reduce_max_sync(mask, value);
#else
    return static_cast<std::uint32_t>(emulated::reduce_max(mask, value, where));
#endif
}

/// The OR over the lanes of `mask`, in every lane.
ORCHARD_INLINE std::uint32_t reduce_or(lane_mask mask, std::uint32_t value, site where = site::here()) {
#if ORCHARD_CUDA_PASS
    (void)where;
    return __reduce_or_sync(mask, value);
#else
    return static_cast<std::uint32_t>(emulated::reduce_or(mask, value, where));
#endif
}

/// To be called in every loop that waits: lets others run. `nanoseconds` is a hint of how long nothing will happen.
ORCHARD_INLINE void pause(std::uint32_t nanoseconds, site where = site::here()) {
#if ORCHARD_CUDA_PASS
    (void)where;
    __nanosleep(nanoseconds);
#else
    emulated::pause(nanoseconds, where);
#endif
}

/// Ends the kernel with an error: a trap on CUDA (its launch fails, and so does every later call in the process), an
/// error of the launch that says `why` on the emulated device.
ORCHARD_INLINE void stop_kernel(const char* why) {
#if ORCHARD_CUDA_PASS
    (void)why;
    __trap();
#else
    emulated::stop_kernel(why);
#endif
}

/// `act(mask)`. On CUDA compiled once more for a whole warp: with a mask that is not a constant each collective is
/// preceded by instructions that look whether all lanes have the same one, which cost more than the collective.
template <class Act>
ORCHARD_INLINE auto by_mask(lane_mask mask, Act act) {
#if ORCHARD_CUDA_PASS
    constexpr lane_mask whole_warp = ~lane_mask{0};
    if (mask == whole_warp) {
        return act(whole_warp);
    }
#endif
    return act(mask);
}

/// The lanes of `mask` below this one.
ORCHARD_INLINE lane_mask lanes_below(lane_mask mask) { return mask & ((lane_mask{1} << lane_id()) - 1); }

/// This lane's position among the lanes of `mask`, from 0.
ORCHARD_INLINE int rank_in(lane_mask mask) { return popcount(lanes_below(mask)); }

/// The lowest lane of `mask`: the one that acts for all.
ORCHARD_INLINE int leader_of(lane_mask mask) { return lowest_bit(mask); }

}  // namespace orchard::simt
