// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The validation of `portion_tree`: each block by itself, then the counts over all blocks, then the index, each
/// against the blocks' records. A separate file, since only tests and `heap::validate` need it.

#include <bit>

#include <absl/strings/str_format.h>

#include "host/portion_tree.hpp"

namespace orchard {

// Walks over a block from its first leaf on: each leaf is free, or a portion begins there, which is then skipped.
// Errors: Internal if a leaf is reserved without a portion, or if a portion reserves leaves that its policy does not
// allow.
absl::Status portion_tree::validate_block(segment_index block) const {
    const std::uint32_t index = to_underlying(block);
    const block_record b = blocks_of_[index];
    if (((b.free | b.starts) & ~all_leaves()) != 0 || (b.free & b.starts) != 0) {
        return absl::InternalError(
            absl::StrFormat("portion_tree: block %u: free leaves %#x and starts %#x overlap, or have leaves past the "
                            "%u of a block",
                            index, b.free, b.starts, shape_.block_leaves));
    }
    for (std::uint32_t leaf = 0; b.joined() && leaf < shape_.block_leaves;) {
        if ((b.free >> leaf & 1) != 0) {
            ++leaf;
            continue;
        }
        if ((b.starts >> leaf & 1) == 0) {
            return absl::InternalError(absl::StrFormat(
                "portion_tree: block %u: leaf %u is reserved and belongs to no portion (free %#x, starts %#x)", index,
                leaf, b.free, b.starts));
        }
        const std::uint32_t reserved = extent(b, leaf);
        // padded: an aligned node of at least two leaves, of which the portion owns the lower half. packed: anything
        // less than a whole block, since a request for a whole block gets a segment instead.
        const bool fits = padded() ? std::has_single_bit(reserved) && reserved >= 2 && leaf % reserved == 0
                                   : reserved < shape_.block_leaves;
        if (!fits) {
            return absl::InternalError(
                absl::StrFormat("portion_tree: block %u: the portion at leaf %u reserves %u leaves: %s", index, leaf,
                                reserved, padded() ? "not an aligned node of the tree" : "a whole block"));
        }
        leaf += reserved;
    }
    return absl::OkStatus();
}

// Counts everything anew from the records.
absl::Status portion_tree::validate_counts() const {
    std::uint32_t blocks = 0;
    std::uint32_t empty = 0;
    std::uint64_t portions = 0;
    std::uint64_t reserved = 0;
    for (const block_record b : blocks_of_) {
        const int starts = std::popcount(b.starts);
        blocks += b.joined() ? 1 : 0;
        empty += b.joined() && starts == 0 ? 1 : 0;
        portions += static_cast<std::uint64_t>(starts);
        reserved += b.joined() ? shape_.block_leaves - static_cast<std::uint32_t>(std::popcount(b.free)) : 0;
    }
    if (blocks != blocks_ || empty != empty_ || portions != portions_ || reserved != reserved_) {
        return absl::InternalError(absl::StrFormat(
            "portion_tree: %u blocks (%u empty), %u portions and %u reserved leaves are counted; the blocks have %u "
            "(%u), %u and %u",
            blocks_, empty_, portions_, reserved_, blocks, empty, portions, reserved));
    }
    return absl::OkStatus();
}

// The blocks come first: the counts and the index are meaningful only if every record is.
absl::Status portion_tree::validate() const {
    for (std::uint32_t i = 0; i < blocks_of_.size(); ++i) {
        if (absl::Status s = validate_block(segment_index{i}); !s.ok()) {
            return s;
        }
    }
    if (absl::Status s = validate_counts(); !s.ok()) {
        return s;
    }
    return room_.validate([this](std::uint32_t block) { return class_of(blocks_of_[block]); });
}

// A block in the space that is not granted could be granted once more, as a segment, and would then have two owners.
absl::Status portion_tree::validate(const segment_directory& directory) const {
    for (std::uint32_t i = 0; i < blocks_of_.size(); ++i) {
        const segment_state state = directory.state(segment_index{i});
        if (blocks_of_[i].joined() && state != segment_state::granted) {
            return absl::InternalError(
                absl::StrFormat("portion_tree: block %u is in the portion space; its segment is in state %u, not "
                                "granted (%u)",
                                i, static_cast<unsigned>(state), static_cast<unsigned>(segment_state::granted)));
        }
    }
    return validate();
}

}  // namespace orchard
