// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The places of the tails of warp chunks: the portion space and its tree.

#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include <absl/status/status.h>

#include "host/class_index.hpp"
#include "host/leaf_mask.hpp"
#include "host/segment_directory.hpp"
#include "uvm/geometry/geometry.hpp"
#include "uvm/geometry/portion.hpp"

namespace orchard {

/// The result of a release.
enum class portion_release : std::uint8_t {
    rejected,  ///< there is no such portion: released twice, never taken, or of another length. Nothing has changed
    released,  ///< its leaves are free
    emptied,   ///< as `released`, and its VA block has no portion left, so that the block may `leave`
};

/// The parameters of a portion tree. The defaults are a heap's.
struct portion_shape {
    std::uint32_t segments = 0;                       ///< segments that may be in the space; at most `max_segments`
    portion_policy policy = portion_policy::packed;   ///< cannot change later
    std::uint32_t block_leaves = leaves_per_segment;  ///< a power of two, 2 to 32; fewer than 32 only in tests
};

/// The VA blocks that hold portions (the portion space), and where they have room.
///
/// A block joins and leaves the space. A portion is put into the block with the least room that holds it, and there
/// into the tightest place; of equal ones, into the lowest. A block without portions has the most room and is used
/// last. Room is the longest run of free leaves (packed) or the largest free node (padded). A released portion thus
/// makes room that the next portion of its size takes, and blocks become empty.
///
///     block     free = 1: a leaf that is not reserved       starts = 1: a leaf where a portion begins
///     packed    leaf    0 1 2 3 4 5 6 7                     portions: [0, 3) [3, 4) [6, 8): each ends where the next
///               free    0 0 0 0 1 1 0 0                     one begins, at a free leaf or at the block's end
///               starts  1 0 0 1 0 0 1 0
///     padded    free    0 0 0 0 0 0 1 1                     portions: [0, 2) of a parent [0, 4), [4, 5) of [4, 6):
///               starts  1 0 0 0 1 0 0 0                     the parent is what is reserved
///     not in the space: both 0
///
/// Two words of 32 bits are the whole record of a block: a complete prefetch tree. A `class_index` over all blocks
/// finds room.
///
/// Source: Zhang et al., *AlignMalloc* (TPDS 2025), section V.B, Algorithms 1 and 2. Orchard's own: release, the packed
/// policy, no linear scan, no limit of 2,048 blocks, and the reservation of the whole parent. Algorithm 2 of the paper
/// as printed marks only the ancestors of a warptree. A smaller warptree may then be put into the sibling that was to
/// stay empty, which contradicts equation (3).
///
/// Not thread-safe: only the service uses it. Nothing is allocated after construction. 8 bytes a segment, and for the
/// index 4.1 (packed) or 0.6 (padded): 12.7 or 9.0 MB for a million segments (2 TiB). Every function that is given a
/// block or a portion checks it, and changes nothing if it rejects it.
class portion_tree {
public:
    /// Creates an empty space.
    explicit portion_tree(portion_shape shape);

    /// Adds `block`, without portions, and returns true. Returns false, and changes nothing, if it is in the space
    /// already, or outside. The caller owns the block's segment. Cost: as `release`.
    [[nodiscard]] bool join(segment_index block);

    /// Removes `block`, and returns true. Returns false, and changes nothing, if it is not in the space, or still has a
    /// portion. The caller may then give its segment another use. Cost: as `release`.
    [[nodiscard]] bool leave(segment_index block);

    /// Takes a portion of at least `asked` leaves (`portion_leaves` says how many) in any block, with its first leaf at
    /// a multiple of `alignment` leaves, a power of two of at most `asked`. Returns nothing if no block has room, if a
    /// portion cannot have that many leaves, or if the alignment is invalid. With the packed policy and an alignment
    /// above 1, room in a run shorter than `asked + alignment - 1` may be missed; an empty block is never missed. Cost:
    /// as `find` and `release`.
    std::optional<portion> take(leaf_count asked, leaf_count alignment = leaf_count{1});

    /// Returns where `take` would take. Cost: one word for each level of the index, a few steps in the block.
    [[nodiscard]] std::optional<portion> find(leaf_count asked, leaf_count alignment = leaf_count{1}) const;

    /// Takes the leftmost leaves of `block`, which joins if it is not in the space: the tail of a chunk whose segments
    /// end where `block` begins. Returns nothing, and changes nothing, if these leaves are not free, or if a portion
    /// cannot have that many leaves. It always succeeds for a block that joins, with a number of leaves that
    /// `portion_leaves` allows. Cost: as `release`.
    std::optional<portion> take_leftmost(segment_index block, leaf_count asked);

    /// Gives back `p`, exactly as it was taken. Cost: two words of the index; two more for each level at which the
    /// block was or becomes the only one of its 64 (4,096, ...) neighbours with this much room.
    [[nodiscard]] portion_release release(const portion& p);

    /// Returns true if `block` is in the space. Cost: one load.
    [[nodiscard]] bool contains(segment_index block) const;
    /// Returns the portion that begins at leaf `first` of `block`; nothing if none begins there. Cost: a few steps.
    [[nodiscard]] std::optional<portion> portion_at(segment_index block, leaf_index first) const;
    /// Returns true if `p` is a portion, exactly as it was taken: the same first leaf and the same number of leaves.
    [[nodiscard]] bool holds(const portion& p) const;
    /// Calls `f(portion)` for each portion, in order. Cost: O(segments).
    template <class F>
    void for_each(F f) const {
        for (std::uint32_t i = 0; i < blocks_of_.size(); ++i) {
            for (std::uint32_t left = blocks_of_[i].starts; left != 0; left &= left - 1) {
                const auto leaf = static_cast<std::uint32_t>(std::countr_zero(left));
                f(*portion_at(segment_index{i}, leaf_index{leaf}));
            }
        }
    }
    /// Returns the lowest block without portions; nothing if there is none. Cost: as `find`.
    [[nodiscard]] std::optional<segment_index> lowest_empty() const;

    /// Returns the number of blocks in the space.
    [[nodiscard]] std::uint32_t blocks() const { return blocks_; }
    /// Returns the number of blocks in the space without portions.
    [[nodiscard]] std::uint32_t empty_blocks() const { return empty_; }
    [[nodiscard]] std::uint64_t portions() const { return portions_; }
    /// Returns the number of leaves of all portions.
    [[nodiscard]] std::uint64_t owned_leaves() const { return reserved_ / (padded() ? 2 : 1); }
    /// Returns the number of leaves that are not free: `owned_leaves`, and the padding.
    [[nodiscard]] std::uint64_t reserved_leaves() const { return reserved_; }
    [[nodiscard]] const portion_shape& shape() const { return shape_; }

    /// Checks each block (every reserved leaf belongs to one portion; padded: each portion reserves an aligned parent
    /// of its own), the counts and the index. Returns `InternalError`, which names the first wrong block, leaf or
    /// count, if there is one. Cost: O(segments).
    [[nodiscard]] absl::Status validate() const;
    /// The same, and checks that every block of the space is granted in `directory`, so that it has no other owner.
    [[nodiscard]] absl::Status validate(const segment_directory& directory) const;

private:
    friend struct portion_tree_peer;

    // The two masks drawn above. Each block in the space has a free leaf or a start, so that two words of 0 mean "not
    // in the space", and no third word is needed.
    struct block_record {
        std::uint32_t free = 0;
        std::uint32_t starts = 0;
        [[nodiscard]] bool joined() const { return (free | starts) != 0; }
    };

    [[nodiscard]] bool padded() const { return shape_.policy == portion_policy::padded; }
    [[nodiscard]] bool covers(segment_index block) const { return to_underlying(block) < blocks_of_.size(); }
    // The mask of a block's leaves; the class of a block's room in `room_` and the class that a request needs; a place
    // in a block; and the number of leaves that a portion reserves.
    [[nodiscard]] std::uint32_t all_leaves() const;
    [[nodiscard]] std::uint32_t class_of(block_record b) const;
    [[nodiscard]] std::uint32_t class_for(std::uint32_t reserved) const;
    [[nodiscard]] std::optional<std::uint32_t> place(block_record b, std::uint32_t reserved,
                                                     std::uint32_t alignment) const;
    [[nodiscard]] std::uint32_t extent(block_record b, std::uint32_t first) const;
    // Every change of a record is made by `set`.
    void set(segment_index block, block_record now);
    void reserve(const portion& p, block_record b);
    [[nodiscard]] absl::Status validate_block(segment_index block) const;
    [[nodiscard]] absl::Status validate_counts() const;

    portion_shape shape_;
    // Counts, kept so that no function walks over all blocks: blocks in the space, those of them without portions,
    // portions, and leaves that are not free.
    std::uint32_t blocks_ = 0;
    std::uint32_t empty_ = 0;
    std::uint64_t portions_ = 0;
    std::uint64_t reserved_ = 0;
    std::vector<block_record> blocks_of_;  ///< indexed by segment
    detail::class_index room_;
};

}  // namespace orchard
