// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Portions: the tails (under 2 MiB) of warp chunks, counted in leaves of 64 KiB, and what each policy reserves for
/// one.
///
/// Source: Zhang et al., *AlignMalloc* (TPDS 2025), section V.B. Its *warptree* is an aligned subtree of 2^i leaves,
/// and its rule, equation (3), is that the subtrees of the parents of any two warptrees of a VA block do not overlap:
/// then a prefetch for one warp never reaches another's memory, as long as nothing touches the padding (docs/uvm.md,
/// section 5). The packed policy is Orchard's own.

#include <cstdint>

#include "device/simt/config.cuh"
#include "uvm/geometry/geometry.hpp"

namespace orchard {

/// Leaves (big pages, 64 KiB) of a VA block: the prefetch tree's.
inline constexpr std::uint32_t leaves_per_segment = static_cast<std::uint32_t>(segment_bytes / big_page_bytes);

/// A leaf's place in its VA block, 0 to 31.
enum class leaf_index : std::uint32_t {};
/// A number of leaves.
enum class leaf_count : std::uint32_t {};

ORCHARD_FN constexpr std::uint32_t to_underlying(leaf_index i) { return static_cast<std::uint32_t>(i); }
ORCHARD_FN constexpr std::uint32_t to_underlying(leaf_count n) { return static_cast<std::uint32_t>(n); }

/// Leaves [first, first + leaves) of VA block `block`: memory of one owner.
struct portion {
    segment_index block = no_segment;
    leaf_index first{0};
    leaf_count leaves{0};
    friend constexpr bool operator==(const portion&, const portion&) = default;
};

/// How portions share a VA block.
///
///     leaves        0   1   2   3   4   5   6   7
///     packed      [ a   a   a ][b][ c   c ]            3, 1 and 2 leaves side by side
///     padded      [ a   a   a   a ] .   .   .   .      4 leaves (3 rounded up), the parent's right half stays empty:
///                                                      [b] . [c c] . .  go into the next 8 leaves, c aligned to 4
enum class portion_policy : std::uint8_t {
    packed,  ///< side by side, any number of leaves: fewest VA blocks in use
    padded,  ///< the paper's: the left child of a free node, its sibling empty: no prefetch into another's memory
};

/// Leaves needed for `n` bytes, at most 2 MiB of them counted: 0 to 32.
ORCHARD_FN constexpr leaf_count leaves_for(std::uint64_t n) {
    const std::uint64_t most = n < segment_bytes ? n : segment_bytes;
    return leaf_count{static_cast<std::uint32_t>((most + big_page_bytes - 1) / big_page_bytes)};
}

/// The leaves that a portion of `asked` leaves gets: `asked` itself (packed), or the next power of two (padded, the
/// warptree of Algorithm 2). 0 where a portion cannot have so many, and the tail takes a whole segment instead: none,
/// the whole of a VA block of `block_leaves` (a power of two), or, padded, more than half of it.
ORCHARD_FN constexpr leaf_count portion_leaves(portion_policy policy, leaf_count asked,
                                               std::uint32_t block_leaves = leaves_per_segment) {
    const std::uint32_t leaves = to_underlying(asked);
    if (policy == portion_policy::packed) {
        return leaf_count{leaves < block_leaves ? leaves : 0};
    }
    std::uint32_t power = 1;
    while (power < leaves && power < block_leaves) {
        power *= 2;
    }
    return leaf_count{leaves != 0 && 2 * power <= block_leaves ? power : 0};
}

/// The leaves, from a portion's first on, that no other portion may use: its own (packed), or those of its warptree's
/// parent (padded). `own`: an answer of `portion_leaves`.
ORCHARD_FN constexpr leaf_count reserved_for(portion_policy policy, leaf_count own) {
    return leaf_count{policy == portion_policy::padded ? 2 * to_underlying(own) : to_underlying(own)};
}

}  // namespace orchard
