// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A pool of slots of one size, as simulations make one before they begin. The slots that were freed are handed out
/// again in the next pass.
///
///     memory     | slot 0 | slot 1 | slot 2 | ...
///     free now   [ 5, 9, 2, ... ]      taken from the end, by one atomic subtraction
///     freed      [ 7, 1, ... ]         added at the end; `next_pass` moves it to the other

#include <cstdint>

#include "device/simt/atomic.cuh"
#include "device/simt/launch.cuh"

namespace orchard::examples {

struct pool_counts {
    simt::device_word<std::uint64_t> free_now;  ///< slots in the list of free ones
    simt::device_word<std::uint64_t> freed;
};

/// The pool's view in kernels.
struct fixed_pool {
    char* memory;
    std::uint64_t slot_bytes;
    std::uint32_t* free_now;
    std::uint32_t* freed;
    pool_counts* counts;

    /// Returns a slot; null if none is free. Cost: an atomic.
    [[nodiscard]] ORCHARD_FN void* malloc(std::uint64_t) const {
        std::uint64_t left = counts->free_now.template load<simt::order::relaxed>();
        while (left != 0 && !counts->free_now.template compare_exchange<simt::order::relaxed>(left, left - 1)) {
        }
        return left == 0 ? nullptr : memory + free_now[left - 1] * slot_bytes;
    }
    ORCHARD_FN void free(void* slot) const {
        const std::uint64_t at = counts->freed.template fetch_add<simt::order::relaxed>(1);
        freed[at] =
            static_cast<std::uint32_t>(static_cast<std::uint64_t>(static_cast<char*>(slot) - memory) / slot_bytes);
    }
};

/// Makes all slots of a new pool free.
struct fill_pool {
    fixed_pool pool;
    std::uint64_t slots;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < slots) {
            pool.free_now[i] = static_cast<std::uint32_t>(i);
        }
        if (i == 0) {
            pool.counts->free_now.template store<simt::order::relaxed>(slots);
        }
    }
};

/// Moves the slots that the last pass has freed behind those that are free. One block, since the counts change last.
struct next_pass {
    fixed_pool pool;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t left = pool.counts->free_now.template load<simt::order::relaxed>();
        const std::uint64_t more = pool.counts->freed.template load<simt::order::relaxed>();
        for (std::uint64_t i = at.thread; i < more; i += at.threads_per_block) {
            pool.free_now[left + i] = pool.freed[i];
        }
    }
};
/// Sets the counts after it.
struct end_pass {
    fixed_pool pool;

    ORCHARD_FN void operator()(simt::thread_position) const {
        const std::uint64_t left = pool.counts->free_now.template load<simt::order::relaxed>();
        const std::uint64_t more = pool.counts->freed.template load<simt::order::relaxed>();
        pool.counts->free_now.template store<simt::order::relaxed>(left + more);
        pool.counts->freed.template store<simt::order::relaxed>(0);
    }
};

}  // namespace orchard::examples
