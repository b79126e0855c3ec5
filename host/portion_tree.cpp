// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The portion space and its tree; see portion_tree.hpp.

#include "host/portion_tree.hpp"

#include <algorithm>
#include <bit>

#include <absl/strings/str_format.h>

namespace orchard {

using detail::leaf_bits;

namespace {

constexpr std::uint32_t bits32(detail::leaf_mask mask) { return static_cast<std::uint32_t>(mask); }

// Returns the shape with its numbers reduced to what the tree covers: at most `max_segments`, and 2 to 32 leaves in a
// block, rounded down to a power of two.
portion_shape corrected(portion_shape s) {
    s.segments = std::min(s.segments, max_segments);
    s.block_leaves = std::bit_floor(std::clamp(s.block_leaves, 2u, leaves_per_segment));
    return s;
}

// Returns the number of classes of room. A class is a length of 1 to `block_leaves` (packed), or the log2 of a node's
// leaves (padded, where even the smallest portion reserves two leaves). With 32 leaves these are 32 and 5 classes. The
// highest class is that of a block without portions.
std::uint32_t classes_of(const portion_shape& s) {
    return s.policy == portion_policy::packed ? s.block_leaves
                                              : static_cast<std::uint32_t>(std::countr_zero(s.block_leaves));
}

}  // namespace

portion_tree::portion_tree(portion_shape shape)
    : shape_(corrected(shape)), blocks_of_(shape_.segments), room_(shape_.segments, classes_of(shape_)) {}

std::uint32_t portion_tree::all_leaves() const { return bits32(leaf_bits(0, shape_.block_leaves)); }

// Returns the class of a block's room; 0 if it has none, or is not in the space. A padded block never has a free leaf
// without its neighbour, so that class 0 as the log2 of a single leaf does not occur.
std::uint32_t portion_tree::class_of(block_record b) const {
    if (!padded()) {
        return detail::longest_run_of(b.free);
    }
    const std::uint32_t node = detail::largest_node(b.free);
    return node == 0 ? 0 : static_cast<std::uint32_t>(std::countr_zero(node));
}

// Returns the least class in which a block has room for `reserved` leaves, a result of `reserved_for`: a power of two
// under the padded policy.
std::uint32_t portion_tree::class_for(std::uint32_t reserved) const {
    return padded() ? static_cast<std::uint32_t>(std::countr_zero(reserved)) : reserved;
}

// Returns the first leaf of the tightest place in a block for `reserved` leaves; nothing if there is none. The
// alignment matters to the packed policy alone: a padded portion lies at a multiple of its own size, which is at least
// the alignment.
std::optional<std::uint32_t> portion_tree::place(block_record b, std::uint32_t reserved,
                                                 std::uint32_t alignment) const {
    return padded() ? detail::tightest_node(b.free, reserved) : detail::tightest_run(b.free, reserved, alignment);
}

// A block that joins has all leaves free, hence the highest class: it is used after all others.
bool portion_tree::join(segment_index block) {
    if (!covers(block) || contains(block)) {
        return false;
    }
    ++blocks_;
    set(block, {all_leaves(), 0});
    return true;
}

// Without a start, all leaves are free: the record becomes two words of 0, and the class 0.
bool portion_tree::leave(segment_index block) {
    if (!contains(block) || blocks_of_[to_underlying(block)].starts != 0) {
        return false;
    }
    --blocks_;
    set(block, {});
    return true;
}

// The index finds the block, and the masks the place in it. A block of the class that a request needs, or of a higher
// one, has room for it, so that one look at the index decides, unless an alignment is asked for.
std::optional<portion> portion_tree::find(leaf_count asked, leaf_count alignment) const {
    const leaf_count own = portion_leaves(shape_.policy, asked, shape_.block_leaves);
    const std::uint32_t align = to_underlying(alignment);
    if (to_underlying(own) == 0 || !std::has_single_bit(align) || align > to_underlying(asked)) {
        return std::nullopt;
    }
    const std::uint32_t reserved = to_underlying(reserved_for(shape_.policy, own));
    // Looks for `reserved` leaves in the tightest block that has room for `room` leaves, which may be more.
    const auto in_class_of = [&](std::uint32_t room) -> std::optional<portion> {
        const auto block = room_.tightest(class_for(room));
        const auto first = block ? place(blocks_of_[*block], reserved, align) : std::nullopt;
        return first ? std::optional(portion{segment_index{*block}, leaf_index{*first}, own}) : std::nullopt;
    };
    const auto found = in_class_of(reserved);
    if (found || padded() || align == 1) {  // a warptree is aligned to its own size
        return found;
    }
    // The tightest block may have a run of the right length at a wrong place: 4 leaves aligned to 4 do not fit into the
    // leaves 2 to 5. A run of reserved + align - 1 leaves, here 7, has an aligned place wherever it begins; a whole
    // block has one at its first leaf.
    return in_class_of(std::min(reserved + align - 1, shape_.block_leaves));
}

std::optional<portion> portion_tree::take(leaf_count asked, leaf_count alignment) {
    const auto p = find(asked, alignment);
    if (p) {
        reserve(*p, blocks_of_[to_underlying(p->block)]);
    }
    return p;
}

std::optional<portion> portion_tree::take_leftmost(segment_index block, leaf_count asked) {
    const leaf_count own = portion_leaves(shape_.policy, asked, shape_.block_leaves);
    if (to_underlying(own) == 0 || !covers(block)) {
        return std::nullopt;
    }
    // A block that is not in the space counts as empty here. It joins by the record that `reserve` stores, and only if
    // the leaves are free.
    const bool joins = !contains(block);
    const block_record b = joins ? block_record{all_leaves(), 0} : blocks_of_[to_underlying(block)];
    const std::uint32_t bits = bits32(leaf_bits(0, to_underlying(reserved_for(shape_.policy, own))));
    if ((b.free & bits) != bits) {
        return std::nullopt;
    }
    blocks_ += joins ? 1 : 0;
    const portion p{block, leaf_index{0}, own};
    reserve(p, b);
    return p;
}

// Takes `p`. Its leaves, with the padding, must be free in `b`, the block's current record, or that of an empty block
// if the block joins.
//
//     packed, leaves 3 and 4       free    0 0 0 1 1 1 1 1  ->  0 0 0 0 0 1 1 1
//     of a block of 8              starts  1 0 0 0 0 0 0 0  ->  1 0 0 1 0 0 0 0
void portion_tree::reserve(const portion& p, block_record b) {
    const std::uint32_t first = to_underlying(p.first);
    const std::uint32_t reserved = to_underlying(reserved_for(shape_.policy, p.leaves));
    ++portions_;
    reserved_ += reserved;
    set(p.block, {b.free & ~bits32(leaf_bits(first, reserved)), b.starts | bits32(leaf_bits(first, 1))});
}

portion_release portion_tree::release(const portion& p) {
    if (!holds(p)) {
        return portion_release::rejected;
    }
    const std::uint32_t first = to_underlying(p.first);
    const std::uint32_t reserved = to_underlying(reserved_for(shape_.policy, p.leaves));
    const block_record b = blocks_of_[to_underlying(p.block)];
    // The portion's leaves and its padding become free, and its start disappears. A neighbour's start or free leaf
    // still ends the portion before it.
    const block_record now{b.free | bits32(leaf_bits(first, reserved)), b.starts & ~bits32(leaf_bits(first, 1))};
    --portions_;
    reserved_ -= reserved;
    set(p.block, now);
    return now.starts == 0 ? portion_release::emptied : portion_release::released;
}

// Changes a block: its record, the index and the count of empty blocks. Every change goes through here. A block that is
// full or outside the space has class 0, so that joining, leaving, taking and releasing are the same move from one
// class to another.
void portion_tree::set(segment_index block, block_record now) {
    block_record& b = blocks_of_[to_underlying(block)];
    empty_ += (now.free == all_leaves() ? 1u : 0u) - (b.free == all_leaves() ? 1u : 0u);
    room_.move(to_underlying(block), class_of(b), class_of(now));
    b = now;
}

bool portion_tree::contains(segment_index block) const {
    return covers(block) && blocks_of_[to_underlying(block)].joined();
}

// Returns the number of leaves that the portion at leaf `first` reserves: up to the next start, free leaf, or the end.
// The bit behind the last leaf stands for the end; a mask has 64 bits, so that it exists for a block of 32 leaves, too.
//
//     leaf      0 1 2 3 4 5 6 7
//     free      0 0 0 0 1 1 0 0        the portion at 0 ends at 3 (a start): 3 leaves
//     starts    1 0 0 1 0 0 1 0        the portion at 3 ends at 4 (free): 1 leaf; the one at 6 at 8 (the end): 2 leaves
std::uint32_t portion_tree::extent(block_record b, std::uint32_t first) const {
    const detail::leaf_mask ends = detail::leaf_mask{b.free | b.starts} | detail::bit_of(shape_.block_leaves);
    return static_cast<std::uint32_t>(std::countr_zero(ends >> (first + 1))) + 1;
}

// A padded portion owns the lower half of the leaves that it reserves.
std::optional<portion> portion_tree::portion_at(segment_index block, leaf_index first) const {
    const std::uint32_t leaf = to_underlying(first);
    if (!covers(block) || leaf >= shape_.block_leaves) {
        return std::nullopt;
    }
    const block_record b = blocks_of_[to_underlying(block)];
    if ((b.starts >> leaf & 1) == 0) {
        return std::nullopt;
    }
    return portion{block, first, leaf_count{extent(b, leaf) / (padded() ? 2 : 1)}};
}

// The portion that begins there decides: a wrong length, or a first leaf at which none begins, is no portion.
bool portion_tree::holds(const portion& p) const { return portion_at(p.block, p.first) == p; }

// The highest class holds exactly the blocks without portions.
std::optional<segment_index> portion_tree::lowest_empty() const {
    const auto block = room_.tightest(classes_of(shape_));
    return block ? std::optional(segment_index{*block}) : std::nullopt;
}

}  // namespace orchard
