// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Compares the blocks that a program says it holds with the heap's metadata.
///
///     blocks of the program, sorted      | 40 B |   | 100 B |          | 3 MiB           |
///                                        no two overlap
///     segment of each                    slab                          chunk
///       is a page or block there in use? bitmap                        blocks of the records, sorted
///       is it large enough?              page size                     next offset
///
/// The metadata alone can be sound while `malloc` computes a wrong address from it; only the program knows its address.

#include "runtime/heap/held_validator.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "runtime/heap/chunk_walk.hpp"
#include "runtime/heap/metadata_copy.hpp"

namespace orchard {
namespace {

using device::descriptor;
using device::heap_view;
using device::segment_kind;
using simt::order;

/// Bytes of the heap, counted from its first byte.
struct byte_range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
};

/// Returns a block as messages name it: by its size, and by its place in the heap, since addresses differ from run to
/// run.
std::string text_of(const byte_range& b) {
    return absl::StrFormat("the block of %d bytes at byte %d of the heap (segment %d)", b.end - b.begin, b.begin,
                           b.begin >> segment_shift);
}

/// Makes the check for one call. `view` and `memory` must outlive it.
class held_checker {
public:
    held_checker(const heap_view& view, backing& memory) : view_{view}, memory_{memory} {}

    /// Checks all blocks. First the arguments and the overlaps, which need no metadata.
    absl::Status run(std::span<const held_block> held) {
        const std::uint64_t range = std::uint64_t{view_.segments} << segment_shift;
        for (const held_block& h : held) {
            // Wraps around for an address below the heap, and is then too large.
            const std::uint64_t begin = reinterpret_cast<std::uintptr_t>(h.address) -
                                        reinterpret_cast<std::uintptr_t>(static_cast<const void*>(view_.base));
            // The sum `begin` + `bytes` is not computed: it could overflow.
            if (h.bytes == 0 || begin >= range || h.bytes > range - begin) {
                return absl::InvalidArgumentError(absl::StrFormat(
                    "%p with %d bytes is no block of this heap; name blocks of at least one byte that its `malloc` "
                    "returned",
                    h.address, h.bytes));
            }
            held_.push_back({begin, begin + h.bytes});
        }
        // Sorted, so that neighbours alone need be compared, and the bitmap of a slab is copied once for all its pages.
        std::ranges::sort(held_, {}, &byte_range::begin);
        for (std::size_t i = 1; i < held_.size(); ++i) {
            if (held_[i].begin < held_[i - 1].end) {
                return absl::InternalError(absl::StrFormat("%s overlaps %s", text_of(held_[i]), text_of(held_[i - 1])));
            }
        }
        // After the checks of the arguments: a wrong argument costs no copy.
        absl::Status status = read_metadata();
        for (std::size_t i = 0; i < held_.size() && status.ok(); ++i) {
            // Any segment that is no slab is treated as one of chunks: a block in a free segment is then not found.
            const std::uint64_t d = descriptors_[held_[i].begin >> segment_shift];
            status = descriptor::kind(d) == segment_kind::slab ? check_page(held_[i], d) : check_chunk_block(held_[i]);
        }
        return status;
    }

private:
    /// Copies the descriptors, and collects the blocks of all chunks. `for_each_chunk` visits them in the order of
    /// addresses, so that the list is sorted.
    absl::Status read_metadata() {
        auto descriptors = copy_of_descriptors(view_, memory_);
        if (!descriptors.ok()) {
            return descriptors.status();
        }
        descriptors_ = *std::move(descriptors);
        return for_each_chunk(view_, memory_, descriptors_,
                              [this](device::chunk_id c, const device::chunk_blocks& blocks) {
                                  note_blocks(c, blocks);
                                  return absl::OkStatus();
                              });
    }

    /// Enters the blocks of a chunk that are not freed, in the order of addresses.
    void note_blocks(device::chunk_id c, const device::chunk_blocks& blocks) {
        if (blocks.interleaved()) {
            return;  // arrays; they have no addresses of their own
        }
        // The chunk's first byte, counted from the heap's.
        const std::uint64_t chunk = std::uint64_t{device::first_leaf(c)} * big_page_bytes;
        const std::uint32_t live = blocks.live().load<order::relaxed>();
        for (std::uint32_t i = 0; i < blocks.lanes() && i < simt::warp_size; ++i) {
            // Lane i has not freed its block, which ends where the next one begins.
            if ((live >> i & 1) != 0) {
                in_chunks_.push_back({chunk + std::uint64_t{blocks.offset(i)} * device::chunk_block_alignment,
                                      chunk + std::uint64_t{blocks.offset(i + 1)} * device::chunk_block_alignment});
            }
        }
    }

    /// Checks a block in a chunk. It must begin where a live block begins: an address inside a block is none of
    /// `malloc`'s.
    absl::Status check_chunk_block(const byte_range& held) const {
        // Blocks do not overlap, so that the one that begins at or after the address is the only candidate.
        const auto found = std::ranges::lower_bound(in_chunks_, held.begin, {}, &byte_range::begin);
        if (found == in_chunks_.end() || found->begin != held.begin) {
            return absl::InternalError(
                absl::StrFormat("%s is not allocated: no chunk has a block there that is not freed", text_of(held)));
        }
        return check_size(held, found->end - found->begin);
    }

    /// Checks a block in a slab: a page must begin at its address, and the page's bit must be set.
    /// @param d  the descriptor of the slab's segment
    absl::Status check_page(const byte_range& held, std::uint64_t d) {
        const auto segment = static_cast<std::uint32_t>(held.begin >> segment_shift);
        const std::uint32_t page_class = descriptor::page_class(d);
        // The bitmap of the last slab is kept, since blocks come in the order of addresses.
        if (segment != bitmap_of_ || bitmap_.empty()) {
            auto copy = copy_of(memory_, view_.bitmap(segment), class_words(page_class));
            if (!copy.ok()) {
                return copy.status();
            }
            bitmap_ = *std::move(copy);
            bitmap_of_ = segment;
        }
        // The same function by which `free` finds the page of an address.
        const page_at_offset at =
            find_page_at(static_cast<std::uint32_t>(held.begin) & (segment_bytes - 1), page_reciprocal(page_class));
        // The second condition is for an address behind the last page of the slab.
        if (!at.exact || at.page / 64 >= bitmap_.size() ||
            (bitmap_[at.page / 64].load<order::relaxed>() >> at.page % 64 & 1) == 0) {
            return absl::InternalError(absl::StrFormat("%s is not allocated: in this slab of pages of %d bytes, %s",
                                                       text_of(held), class_bytes(page_class),
                                                       at.exact ? "the page's bit is clear" : "no page begins there"));
        }
        return check_size(held, class_bytes(page_class));
    }

    /// Checks that the block has at least the bytes that the program asked for.
    /// @param has  the bytes of the page, or of the block in the chunk
    static absl::Status check_size(const byte_range& held, std::uint64_t has) {
        return held.end - held.begin <= has
                   ? absl::OkStatus()
                   : absl::InternalError(absl::StrFormat("%s has only %d bytes", text_of(held), has));
    }

    const heap_view& view_;
    backing& memory_;
    std::vector<byte_range> held_;  ///< in the order of addresses
    std::vector<std::uint64_t> descriptors_;
    std::vector<byte_range> in_chunks_;  ///< blocks of chunks that are not freed, in the order of addresses
    std::vector<device::device_word<std::uint64_t>> bitmap_;
    std::uint32_t bitmap_of_ = 0;  ///< the segment of `bitmap_`
};

}  // namespace

absl::Status validate_held(const heap_view& view, backing& memory, std::span<const held_block> held) {
    return held_checker(view, memory).run(held);
}

}  // namespace orchard
