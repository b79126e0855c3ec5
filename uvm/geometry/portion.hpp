// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Portions: the tails (under 2 MiB) of warp chunks, counted in leaves of 64 KiB, and the memory that each policy
/// reserves for one.
///
/// Source: Zhang et al., *AlignMalloc* (TPDS 2025), section V.B. A *warptree* of the paper is an aligned subtree of 2^i
/// leaves. Its rule, equation (3), says that the subtrees of the parents of any two warptrees of a VA block do not
/// overlap. Then a prefetch for one warp never reaches another warp's memory, as long as no access touches the padding
/// (docs/uvm.md, section 5). The packed policy is Orchard's own.

#include <cstdint>

#include "device/simt/config.cuh"
#include "uvm/geometry/geometry.hpp"

namespace orchard {

/// Leaves (big pages, 64 KiB) of a VA block, as in the driver's prefetch tree.
inline constexpr std::uint32_t leaves_per_segment = static_cast<std::uint32_t>(segment_bytes / big_page_bytes);

/// The position of a leaf in its VA block, 0 to 31.
enum class leaf_index : std::uint32_t {};
/// A number of leaves.
enum class leaf_count : std::uint32_t {};

ORCHARD_FN constexpr std::uint32_t to_underlying(leaf_index i) { return static_cast<std::uint32_t>(i); }
ORCHARD_FN constexpr std::uint32_t to_underlying(leaf_count n) { return static_cast<std::uint32_t>(n); }

/// Leaves [first, first + leaves) of VA block `block`; they belong to one owner. A block's number is its segment's
/// index.
struct portion {
    segment_index block = no_segment;
    leaf_index first{0};
    leaf_count leaves{0};
    friend ORCHARD_FN constexpr bool operator==(const portion& a, const portion& b) {
        return a.block == b.block && a.first == b.first && a.leaves == b.leaves;
    }
    friend ORCHARD_FN constexpr bool operator!=(const portion& a, const portion& b) { return !(a == b); }
};

/// How portions share a VA block.
///
///     leaves        0   1   2   3   4   5   6   7
///     packed      [ a   a   a ][b][ c   c ]            3, 1 and 2 leaves side by side
///     padded      [ a   a   a   a ] .   .   .   .      4 leaves (3 rounded up), the parent's right half stays empty:
///                                                      [b] . [c c] . .  go into the next 8 leaves, c aligned to 4
enum class portion_policy : std::uint8_t {
    packed,  ///< side by side, any number of leaves: fewest VA blocks in use
    padded,  ///< the paper's: the left child of a free node, its sibling empty: no prefetch reaches another owner's
             ///< memory
};

/// Where the tail of a chunk of arrays lies that is longer than a segment.
///
///     32 chunks of a segment and 2 leaves each
///     adjacent   | segment | tail . . . | segment | tail . . . | ...     64 VA blocks
///     pooled     | segment | segment | ... | tail | tail | ...           34: tails share blocks, as short chunks do
enum class tail_policy : std::uint8_t {
    adjacent,  ///< behind the chunk's segments, in a VA block that it opens
    pooled,    ///< wherever a VA block of portions has room, if the arrays are reached by translated addresses
};

/// Returns the leaves needed for `n` bytes, of which at most 2 MiB count: 0 to 32. 100,000 bytes need 2.
ORCHARD_FN constexpr leaf_count leaves_for(std::uint64_t n) {
    const std::uint64_t most = n < segment_bytes ? n : segment_bytes;
    return leaf_count{static_cast<std::uint32_t>((most + big_page_bytes - 1) / big_page_bytes)};
}

/// Returns the leaves that a portion gets if `asked` leaves are requested: `asked` itself (packed), or the next power
/// of two (padded, the warptree of Algorithm 2). Returns 0 if no portion has that size. This is so for 0 leaves, for a
/// whole VA block of `block_leaves` (a power of two) and, if padded, for more than half of it. A tail of such a size
/// takes a whole segment.
///
///     asked     0   1   2   3   5  16  17  31  32
///     packed    0   1   2   3   5  16  17  31   0
///     padded    0   1   2   4   8  16   0   0   0      a portion of 16 reserves all 32 leaves
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

/// Returns the number of leaves, from a portion's first on, that no other portion may use: its own (packed), or those
/// of its warptree's parent (padded). `own`: a result of `portion_leaves`.
ORCHARD_FN constexpr leaf_count reserved_for(portion_policy policy, leaf_count own) {
    return leaf_count{policy == portion_policy::padded ? 2 * to_underlying(own) : to_underlying(own)};
}

}  // namespace orchard
