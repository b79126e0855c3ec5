// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Checks the records of chunks, and that each block leads back to its chunk.
///
///     block i  --address--> segment or leaf --descriptor or leaf owner--> chunk --record--> block i
///
/// `free` goes this way with nothing but an address. A word on it that is wrong would make `free` clear the bit of
/// another chunk, or reject a block.

#include "runtime/heap/chunk_validator.hpp"

#include <string>

#include "absl/strings/str_format.h"
#include "runtime/heap/chunk_walk.hpp"
#include "runtime/heap/metadata_copy.hpp"

namespace orchard {
namespace {

using device::chunk_blocks;
using device::chunk_id;
using device::descriptor;
using device::heap_view;
using device::segment_kind;
using simt::order;

/// Returns the place of a chunk, for messages.
std::string name_of(chunk_id c) {
    const std::uint32_t segment = device::first_segment(c);
    return device::is_portion(c)
               ? absl::StrFormat("chunk at segment %d, leaf %d", segment, device::first_leaf(c) % leaves_per_segment)
               : absl::StrFormat("chunk at segment %d", segment);
}

/// Walks over all chunks, and notes the segments in which a block begins. A segment that says it belongs to a chunk
/// must be one of these, since only the lanes whose blocks begin in a segment write its descriptor.
class chunk_checker {
public:
    /// All arguments must outlive the object. `descriptors` are those of all segments.
    chunk_checker(const heap_view& view, backing& memory, const std::vector<std::uint64_t>& descriptors,
                  ownership& owners)
        : view_{view}, memory_{memory}, descriptors_{descriptors}, owners_{owners} {}

    /// First all chunks that have a live block, then all segments that say they belong to a chunk.
    absl::Status run() {
        absl::Status status =
            for_each_chunk(view_, memory_, descriptors_,
                           [this](chunk_id c, const chunk_blocks& blocks) { return check_chunk(c, blocks); });
        if (!status.ok()) {
            return status;
        }
        for (std::uint32_t i = 0; i < view_.segments; ++i) {
            // The first segment of a chunk names itself, and was visited as such.
            if (kind(i) == segment_kind::chunk && descriptor::extent(descriptors_[i]) != i && !has_block_[i]) {
                return absl::InternalError(
                    absl::StrFormat("segment %d says it belongs to the chunk at %d, which has no block there", i,
                                    descriptor::extent(descriptors_[i])));
            }
        }
        return absl::OkStatus();
    }

private:
    /// Returns the kind of segment `i` by its descriptor.
    [[nodiscard]] segment_kind kind(std::uint32_t i) const { return descriptor::kind(descriptors_[i]); }

    /// Enters the memory of one chunk into the ownership, its segments and its tail, and checks its blocks.
    absl::Status check_chunk(chunk_id c, const chunk_blocks& blocks) {
        // The names appear in messages about two owners of one portion.
        const char* const tail = device::is_portion(c) ? "a chunk" : "a chunk's tail";
        const bool pooled = blocks.has_pooled_tail();
        absl::Status s =
            owners_.take_chunk(device::first_leaf(c), blocks.segments(), pooled ? 0 : blocks.leaves(), "chunk", tail);
        if (!s.ok()) {
            return s;
        }
        if (pooled) {
            // Blocks have plain addresses: a chunk of theirs is one piece.
            if (!blocks.interleaved() || blocks.leaves() == 0) {
                return absl::InternalError(absl::StrFormat("%s: a tail of %d leaves elsewhere, %s", name_of(c),
                                                           blocks.leaves(),
                                                           blocks.interleaved() ? "of arrays" : "of blocks"));
            }
            owners_.take_portion(blocks.tail(), blocks.leaves(), tail);
        }
        return check_blocks(c, blocks);
    }

    /// Checks the record of a chunk: 1 to 32 lanes; at least one live bit, and none beyond the lanes; blocks in
    /// ascending order, none of them empty; and an end inside the chunk. The rest is less than a segment, by which a
    /// request is rounded up at most, and a fifth of the chunk: a request is rounded up by a sixteenth at most
    /// (`stored_chunk::rounded`), and may take a chunk of the second class above its own.
    absl::Status check_blocks(chunk_id c, const chunk_blocks& blocks) {
        // log2 of the units of 256 B in a segment.
        constexpr int shift = segment_shift - device::chunk_unit_shift;
        const std::uint32_t lanes = blocks.lanes();
        const std::uint32_t live = blocks.live().load<order::relaxed>();
        // The units in the chunk's segments and tail.
        const std::uint64_t room = (std::uint64_t{blocks.segments()} << shift) +
                                   blocks.leaves() * (big_page_bytes >> device::chunk_unit_shift);
        // The last two conditions limit the end of the last block from both sides.
        if (lanes == 0 || lanes > simt::warp_size || live == 0 || (lanes < 32 && live >> lanes != 0) ||
            blocks.offset(lanes) > room || room - blocks.offset(lanes) >= (std::uint64_t{1} << shift) + room / 5) {
            return absl::InternalError(absl::StrFormat("%s: %d lanes, live mask %#x, %d segments and %d leaves",
                                                       name_of(c), lanes, live, blocks.segments(), blocks.leaves()));
        }
        for (std::uint32_t i = 0; i < lanes; ++i) {
            // Lanes that share an interleaved sub-array begin at the same offset.
            const bool may_be_same = blocks.interleaved() && i + 1 < lanes;
            if (blocks.offset(i) > blocks.offset(i + 1) || (blocks.offset(i) == blocks.offset(i + 1) && !may_be_same)) {
                return absl::InternalError(absl::StrFormat("%s: block %d is empty", name_of(c), i));
            }
            // The leaf in which the block begins: an offset is in units of 256 B, and a leaf has 2^16 bytes.
            const std::uint32_t at = device::first_leaf(c) + (blocks.offset(i) >> (16 - device::chunk_unit_shift));
            if (absl::Status s = check_owner(c, blocks, i, at); !s.ok()) {
                return s;
            }
        }
        return absl::OkStatus();
    }

    /// Checks that the segment or the leaf in which a block begins names the right owner: `free` finds the chunk of an
    /// address only by this word. In the tail it is the leaf's owner, elsewhere the segment's descriptor.
    absl::Status check_owner(chunk_id c, const chunk_blocks& blocks, std::uint32_t block, std::uint32_t leaf) {
        const std::uint32_t segment = leaf / leaves_per_segment;
        // A record that is wrong may place a block behind the heap's end.
        bool says_so = segment < view_.segments;
        if (says_so && segment == device::first_segment(c) + blocks.segments()) {
            auto owner = copy_of(memory_, &view_.leaf_owners[leaf], 1);
            if (!owner.ok()) {
                return owner.status();
            }
            says_so = kind(segment) == segment_kind::portions &&
                      (*owner)[0].load<order::relaxed>() == device::to_underlying(c);
        } else if (says_so) {
            says_so = kind(segment) == segment_kind::chunk &&
                      descriptor::extent(descriptors_[segment]) == device::first_segment(c);
            // Also if the descriptor is wrong, which is reported at once.
            has_block_[segment] = true;
        }
        return says_so ? absl::OkStatus()
                       : absl::InternalError(
                             absl::StrFormat("%s: block %d begins in segment %d, leaf %d, which does not say so",
                                             name_of(c), block, segment, leaf % leaves_per_segment));
    }

    const heap_view& view_;
    backing& memory_;
    const std::vector<std::uint64_t>& descriptors_;
    ownership& owners_;
    // [segment]: a block of a chunk begins there.
    std::vector<bool> has_block_ = std::vector<bool>(view_.segments, false);
};

}  // namespace

absl::Status validate_chunks(const heap_view& view, backing& memory, const std::vector<std::uint64_t>& descriptors,
                             ownership& owners) {
    return chunk_checker(view, memory, descriptors, owners).run();
}

}  // namespace orchard
