// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The driver's prefetcher: the additional pages that move when some pages of a VA block fault. Rules P2 to P5 of
/// docs/uvm.md.

#include <cstdint>

#include "uvm/model/page_mask.hpp"

namespace orchard::uvm_model {

/// The percentage of a node that must be exceeded (`uvm_perf_prefetch_threshold`).
inline constexpr std::uint32_t prefetch_threshold = 51;

/// Returns the pages that the driver brings in addition to `faulted` when these are serviced together.
///
/// The VA block is the pages `block` of its segment: all 512, or fewer if a policy boundary has truncated it. The
/// tree has a leaf for each page of the block. If the block begins inside a big page, the tree also has leaves for the
/// missing pages before it ("ghost leaves", never resident), so that big pages are nodes. Nodes end with the last leaf.
///
///     block [5, 40), big pages of 16       tree:  5 ghosts | 5..15 | 16..31 | 32..39
///     grown as a whole when one faults:                      head    big      tail
///
/// If a block begins inside a big page, a node that includes ghost leaves brings only the pages from the number of
/// ghosts on, counted from the block's beginning. This is the driver's behaviour (in releases of 2024), intended or
/// not.
///
/// @param resident  pages of the block on the GPU; others are ignored
/// @param faulted  pages of the block that faulted
/// @return pages of the block, none of them in `faulted`; some may be resident
/// Cost: for each faulted page up to 10 nodes. Source: `uvm_perf_prefetch.c`: `init_bitmap_tree_from_region`,
/// `update_bitmap_tree_from_va_block`, `grow_fault_granularity`, `compute_prefetch_mask`, `compute_prefetch_region`.
[[nodiscard]] page_mask prefetch_mask(page_range block, const page_mask& resident, const page_mask& faulted,
                                      std::uint32_t threshold = prefetch_threshold);

/// Returns the whole big pages in `block`; empty (0, 0) if there is none. Source: `uvm_va_block.c:
/// uvm_va_block_big_page_region_subset`.
[[nodiscard]] constexpr page_range big_pages_in(page_range block) {
    const std::uint32_t first = (block.first + pages_per_big_page - 1) / pages_per_big_page * pages_per_big_page;
    const std::uint32_t end = block.end / pages_per_big_page * pages_per_big_page;
    return first < end ? page_range{first, end} : page_range{};
}

}  // namespace orchard::uvm_model
