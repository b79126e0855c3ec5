// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The SIMT seam, part 1: properties of a lane, and the collectives of a warp.
///
/// Every collective takes the mask of the participating lanes; each lane in the mask must call the same collective with
/// the same mask. On CUDA, collectives are the `*_sync` intrinsics. On the emulated device, the lanes meet; if a lane
/// of the mask does not come, the launch fails with an error that says so. The emulated device identifies a call by its
/// source location (`site`), so that the lanes of a mask must call the collective at the same line.
///
/// For a mask of the lanes 0, 1 and 3 (1011 in binary), each of which passes a value:
///
///     lane    value    ballot(value == 5)    match(value)    reduce_add(value)    shuffle(value, 1)    rank_in
///       0       5            1001                1001               17                   7                0
///       1       7            1001                0010               17                   7                1
///       3       5            1001                1001               17                   7                2
///
/// Only `sync` orders memory accesses; no other collective does. A thread that runs no lane acts as a warp of one lane:
/// it is lane 0, `converge` returns 1, and collectives return at once.

#include <cstdint>

#include "device/simt/config.cuh"
#if !ORCHARD_CUDA_PASS
#include "device/simt/emulated/hooks.hpp"
#endif

namespace orchard::simt {

/// Returns the number of bits set.
ORCHARD_INLINE int popcount(std::uint32_t x) {
#if ORCHARD_CUDA_PASS
    return __popc(x);
#else
    return __builtin_popcount(x);
#endif
}
ORCHARD_INLINE int popcount(std::uint64_t x) {
#if ORCHARD_CUDA_PASS
    return __popcll(x);
#else
    return __builtin_popcountll(x);
#endif
}

/// Returns the index of the lowest bit set; `x` must not be 0.
ORCHARD_INLINE int lowest_bit(std::uint32_t x) {
#if ORCHARD_CUDA_PASS
    return __ffs(static_cast<int>(x)) - 1;
#else
    return __builtin_ctz(x);
#endif
}
ORCHARD_INLINE int lowest_bit(std::uint64_t x) {
#if ORCHARD_CUDA_PASS
    return __ffsll(static_cast<long long>(x)) - 1;
#else
    return __builtin_ctzll(x);
#endif
}

/// Returns the index of the highest bit set; `x` must not be 0. In a constant expression it counts: the GPU's
/// instruction is not available there. Sources of users are compiled without `--expt-relaxed-constexpr`, so that no
/// device code may call a `constexpr` function of the standard library: nvcc leaves out the code around such a call,
/// and warns only in headers that are not system headers.
ORCHARD_INLINE constexpr int highest_bit(std::uint32_t x) {
    if (__builtin_is_constant_evaluated()) {
        int index = 0;
        for (x >>= 1; x != 0; x >>= 1) {
            ++index;
        }
        return index;
    }
#if ORCHARD_CUDA_PASS
    return 31 - __clz(static_cast<int>(x));
#else
    return 31 - __builtin_clz(x);
#endif
}

/// Returns this lane's index in its warp, 0 to 31.
ORCHARD_INLINE int lane_id() {
#if ORCHARD_CUDA_PASS
    unsigned id;
    asm("mov.u32 %0, %%laneid;" : "=r"(id));
    return static_cast<int>(id);
#else
    return emulated::lane_id();
#endif
}

/// Returns the position of this thread in its grid. A host thread is thread 0 of a grid of one thread.
ORCHARD_INLINE thread_position position() {
#if ORCHARD_CUDA_PASS
    return {blockIdx.x, threadIdx.x, blockDim.x, gridDim.x};
#else
    return emulated::position();
#endif
}

/// Returns the time in nanoseconds, from a clock that never goes back and that all threads of one device share. Its
/// resolution is up to 1 us. In a simulation the time is logical, and each call advances it.
ORCHARD_INLINE std::uint64_t clock_ns() {
#if ORCHARD_CUDA_PASS
    std::uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
#else
    return emulated::clock_ns();
#endif
}

/// Returns the cycles that the multiprocessor has counted so far; on the host, the time in nanoseconds. Only
/// differences have a meaning. Cheap on CUDA, unlike the clock.
ORCHARD_INLINE std::uint64_t cycles() {
#if ORCHARD_CUDA_PASS
    std::uint64_t n;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(n));
    return n;
#else
    return emulated::clock_ns();
#endif
}

/// Returns an arbitrary number that differs from call to call, to begin a random walk with. Cheap on CUDA, unlike the
/// clock: the cycle counter of the multiprocessor. The host returns the low bits of the clock, which are deterministic
/// in a simulation.
ORCHARD_INLINE std::uint32_t noise() {
#if ORCHARD_CUDA_PASS
    std::uint32_t cycles;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(cycles));
    return cycles;
#else
    return static_cast<std::uint32_t>(emulated::clock_ns());
#endif
}

/// Returns the lanes of this warp that are converged here: a subset, with the caller in it, of the lanes that execute
/// this call. All lanes of the subset get the same mask.
///
/// On CUDA, the caller's own bit is set once more, from a special register. This changes no value. Without it, ptxas
/// (13.0, sm_90) recognizes the mask as that of the active threads, and assumes that these stay the only ones. A later
/// VOTE may then count lanes of another group that have come to the same place meanwhile (observed: a count of freed
/// lanes that was too high). With it, the collectives are compiled as exclusive to their mask.
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

/// Waits for all lanes of `mask` (a barrier), and orders their memory accesses before it before those after it.
ORCHARD_INLINE void sync(lane_mask mask, site where = site::here()) {
#if ORCHARD_CUDA_PASS
    (void)where;
    __syncwarp(mask);
#else
    emulated::sync(mask, where);
#endif
}

/// Returns the lanes of `mask` whose predicate is true.
ORCHARD_INLINE lane_mask ballot(lane_mask mask, bool predicate, site where = site::here()) {
#if ORCHARD_CUDA_PASS
    (void)where;
    return __ballot_sync(mask, predicate);
#else
    return emulated::ballot(mask, predicate, where);
#endif
}

/// Returns the value that lane `source`, which must be in `mask`, passed. `T`: a 32-bit or 64-bit integer.
template <class T>
ORCHARD_INLINE T shuffle(lane_mask mask, T value, int source, site where = site::here()) {
#if ORCHARD_CUDA_PASS
    (void)where;
    return __shfl_sync(mask, value, source);
#else
    return static_cast<T>(emulated::shuffle(mask, static_cast<std::uint64_t>(value), source, where));
#endif
}

/// Returns the lanes of `mask` that passed the same value as this lane.
template <class T>
ORCHARD_INLINE lane_mask match(lane_mask mask, T value, site where = site::here()) {
#if ORCHARD_CUDA_PASS
    (void)where;
    return __match_any_sync(mask, value);
#else
    return emulated::match(mask, static_cast<std::uint64_t>(value), where);
#endif
}

/// Returns the sum over the lanes of `mask`, modulo 2^32, in every lane. Reductions take 32 bits alone: CUDA has no
/// instruction for 64.
ORCHARD_INLINE std::uint32_t reduce_add(lane_mask mask, std::uint32_t value, site where = site::here()) {
#if ORCHARD_CUDA_PASS
    (void)where;
    return __reduce_add_sync(mask, value);
#else
    return static_cast<std::uint32_t>(emulated::reduce_add(mask, value, where));
#endif
}

/// Returns the greatest value over the lanes of `mask`, in every lane.
ORCHARD_INLINE std::uint32_t reduce_max(lane_mask mask, std::uint32_t value, site where = site::here()) {
#if ORCHARD_CUDA_PASS
    (void)where;
    return __reduce_max_sync(mask, value);
#else
    return static_cast<std::uint32_t>(emulated::reduce_max(mask, value, where));
#endif
}

/// Returns the OR over the lanes of `mask`, in every lane.
ORCHARD_INLINE std::uint32_t reduce_or(lane_mask mask, std::uint32_t value, site where = site::here()) {
#if ORCHARD_CUDA_PASS
    (void)where;
    return __reduce_or_sync(mask, value);
#else
    return static_cast<std::uint32_t>(emulated::reduce_or(mask, value, where));
#endif
}

/// Lets other threads run; every loop that waits must call it: on the emulated device, the other lanes of the block run
/// only when this one waits. `nanoseconds` is a hint for how long nothing will happen. On CUDA the lane sleeps for up
/// to twice as long, and for 1 ms at most (PTX: `nanosleep`).
ORCHARD_INLINE void pause(std::uint32_t nanoseconds, site where = site::here()) {
#if ORCHARD_CUDA_PASS
    (void)where;
    __nanosleep(nanoseconds);
#else
    emulated::pause(nanoseconds, where);
#endif
}

/// Ends the kernel with an error. On CUDA this is a trap: the launch fails, and so does every later call of the
/// process. On the emulated device, the launch fails with the text `why`. On a host thread, throws std::runtime_error.
ORCHARD_INLINE void stop_kernel(const char* why) {
#if ORCHARD_CUDA_PASS
    (void)why;
    __trap();
#else
    emulated::stop_kernel(why);
#endif
}

/// Calls `act(mask)`. On CUDA, `act` is compiled a second time for a full warp: if the mask is no constant, each
/// collective is preceded by instructions that check whether all lanes have the same mask, which cost more than the
/// collective.
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

/// Returns the lanes of `mask` below this one, which need not be in it itself.
ORCHARD_INLINE lane_mask lanes_below(lane_mask mask) { return mask & ((lane_mask{1} << lane_id()) - 1); }

/// Returns this lane's rank among the lanes of `mask`, from 0: the lanes 0, 1 and 3 of the mask 1011 have the ranks 0,
/// 1 and 2.
ORCHARD_INLINE int rank_in(lane_mask mask) { return popcount(lanes_below(mask)); }

/// Returns the lowest lane of `mask`, which acts for all.
ORCHARD_INLINE int leader_of(lane_mask mask) { return lowest_bit(mask); }

}  // namespace orchard::simt
