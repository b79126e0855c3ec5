// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A log of the big pages (64 KiB) that some warps access, in device memory: kernels on a GPU fill it without the host.
/// A trace is made of it (profiling/apps/trace_log.hpp). A fault brings a big page at least, so that finer entries
/// would not change which memory comes.
///
///     lane reads a[0], b[0], a[1], b[1], ...      pages  5 9 5 9 5 9 6 9      entries  5 9 6
///
/// A lane adds an entry when it accesses a page that is not among the last seven of which it added one. Entries of a
/// warp are in the order in which its lanes came.

#include <cstdint>

#include "device/simt/atomic.cuh"
#include "device/simt/lane.cuh"
#include "uvm/geometry/geometry.hpp"

namespace orchard::applications {

/// The log, as kernels see it. It lies in device memory itself, so that the host can end it while kernels have views of
/// arrays that name it.
struct page_log {
    static constexpr std::uint32_t kept_pages = 7;  ///< of a lane
    static constexpr std::uint32_t kept_words =
        8;  ///< these pages, with the kind of access, plus 1; and the place of the oldest
    static constexpr std::uint64_t atomic_bit = std::uint64_t{1} << 63;
    static constexpr std::uint32_t lane_shift = 56;  ///< bits 56 to 60 of an entry; the address is below
    static constexpr std::uint64_t address_mask = (std::uint64_t{1} << lane_shift) - 1;

    std::uint64_t base = 0;       ///< address from which those of entries count; a multiple of 2 MiB
    std::uint32_t every = 1;      ///< each so many-th warp is recorded
    std::uint32_t is_active = 0;  ///< 0: nothing is recorded now
    std::uint64_t capacity = 0;   ///< entries of a warp; more are counted, and lost
    simt::device_word<std::uint32_t>* used = nullptr;  ///< [recorded warps]
    std::uint64_t* entries = nullptr;                  ///< [recorded warps][capacity]
    std::uint32_t* kept = nullptr;                     ///< [recorded warps][32][kept_words]

    /// Records that the calling lane accesses `address`. Cost: a load, and of a recorded warp two more; an atomic and
    /// two stores for a new entry.
    ORCHARD_NOINLINE void note(const void* element, bool is_atomic) const {
        if (is_active == 0) {
            return;
        }
        const std::uint64_t global_warp = simt::position().global_warp();
        if (global_warp % every != 0) {
            return;
        }
        const std::uint64_t warp = global_warp / every;
        const auto lane = static_cast<std::uint64_t>(simt::lane_id());
        const std::uint64_t address = reinterpret_cast<std::uint64_t>(element) - base;
        // An atomic is an access of its own kind.
        const auto page = static_cast<std::uint32_t>(address / big_page_bytes * 2 + (is_atomic ? 1 : 0));
        std::uint32_t* const own = kept + (warp * simt::warp_size + lane) * kept_words;
        for (std::uint32_t i = 0; i < kept_pages; ++i) {
            if (own[i] == page + 1) {
                return;
            }
        }
        // The oldest one is replaced.
        std::uint32_t& oldest = own[kept_pages];
        own[oldest] = page + 1;
        oldest = (oldest + 1) % kept_pages;
        // Relaxed: the host reads when the launch has ended.
        const std::uint32_t place = used[warp].template fetch_add<simt::order::relaxed>(1);
        if (place < capacity) {
            entries[warp * capacity + place] =
                (is_atomic ? atomic_bit : 0) | lane << lane_shift | (address & address_mask);
        }
    }
};

}  // namespace orchard::applications
