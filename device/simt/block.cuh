// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The SIMT seam: sums over the threads of a block, and its barrier.

#include <cstdint>

#include "device/simt/config.cuh"
#include "device/simt/emulated/block_sum.hpp"

namespace orchard::simt {

/// Returns the sum of the values of this block's threads, and of those before this one. All threads of the block call
/// it, and wait for each other, as at a barrier: accesses before it are ordered before those after it. No thread may
/// have left the kernel. Cost on CUDA: two barriers of the block, ten shuffles, 256 B of shared memory.
ORCHARD_INLINE block_sum sum_in_block(std::uint64_t value, [[maybe_unused]] site where = site::here()) {
#if ORCHARD_CUDA_PASS
    __shared__ std::uint64_t sums[warp_size];  // of each warp
    const std::uint32_t warp = threadIdx.x / warp_size;
    const std::uint32_t warps = (blockDim.x + warp_size - 1) / warp_size;
    const std::uint32_t lane = threadIdx.x % warp_size;
    // The last warp may have fewer lanes.
    const std::uint32_t lanes = warp + 1 < warps ? warp_size : blockDim.x - warp * warp_size;
    const lane_mask mask = ~lane_mask{0} >> (warp_size - lanes);
    std::uint64_t sum = value;
    ORCHARD_UNROLL
    for (std::uint32_t reach = 1; reach < warp_size; reach *= 2) {
        const std::uint64_t below = __shfl_up_sync(mask, sum, reach);
        sum += lane >= reach ? below : 0;
    }
    __syncthreads();  // of an earlier call, all have read
    if (lane == lanes - 1) {
        sums[warp] = sum;
    }
    __syncthreads();
    std::uint64_t before = sum - value;
    std::uint64_t all = 0;
    for (std::uint32_t w = 0; w < warps; ++w) {
        before += w < warp ? sums[w] : 0;
        all += sums[w];
    }
    return {before, all};
#else
    return emulated::sum_in_block(value, where);
#endif
}

/// Waits for all threads of the block, and orders their accesses before it before those after it. All threads of the
/// block call it; no thread may have left the kernel.
ORCHARD_INLINE void sync_in_block([[maybe_unused]] site where = site::here()) {
#if ORCHARD_CUDA_PASS
    __syncthreads();
#else
    (void)emulated::sum_in_block(0, where);
#endif
}

}  // namespace orchard::simt
