// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The live blocks of a heap; see live_blocks.hpp.

#include "runtime/heap/live_blocks.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

#include "runtime/heap/chunk_walk.hpp"
#include "runtime/heap/metadata_copy.hpp"

namespace orchard {
namespace {

using device::descriptor;
using device::segment_kind;
using simt::order;

/// Adds the blocks of one chunk. The record of a chunk with arrays has no block for each lane: they are interleaved.
void add_chunk(const device::heap_view& view, device::chunk_id c, const device::chunk_blocks& blocks,
               std::vector<nvtx::address_range>& all) {
    const char* const at = view.base + std::uint64_t{device::first_leaf(c)} * big_page_bytes;
    if (blocks.interleaved()) {
        const std::uint64_t segments = std::uint64_t{blocks.segments()} << segment_shift;
        const std::uint64_t tail = blocks.leaves() * big_page_bytes;
        all.push_back({at, segments + (blocks.has_pooled_tail() ? 0 : tail)});
        if (blocks.has_pooled_tail() && tail != 0) {
            all.push_back({view.base + std::uint64_t{blocks.tail()} * big_page_bytes, tail});
        }
        return;
    }
    const std::uint32_t live = blocks.live().load<order::relaxed>();
    for (std::uint32_t i = 0; i < blocks.lanes() && i < simt::warp_size; ++i) {
        const std::uint64_t begin = std::uint64_t{blocks.offset(i)} * device::chunk_block_alignment;
        const std::uint64_t end = std::uint64_t{blocks.offset(i + 1)} * device::chunk_block_alignment;
        if ((live >> i & 1) != 0 && end > begin) {
            all.push_back({at + begin, end - begin});
        }
    }
}

}  // namespace

absl::StatusOr<std::vector<nvtx::address_range>> live_blocks(const device::heap_view& view, backing& memory) {
    const auto descriptors = copy_of_descriptors(view, memory);
    if (!descriptors.ok()) {
        return descriptors.status();
    }
    const auto words_of = [&](std::uint32_t i) -> std::uint64_t {
        const std::uint64_t d = (*descriptors)[i];
        return descriptor::kind(d) == segment_kind::slab ? class_words(descriptor::page_class(d)) : 0;
    };
    std::vector<nvtx::address_range> all;
    absl::Status status = for_each_bitmap(
        view, memory, words_of, [&](std::uint32_t i, std::span<const device::device_word<std::uint64_t>> words) {
            const std::uint64_t bytes = class_bytes(descriptor::page_class((*descriptors)[i]));
            const char* const slab = view.base + (std::uint64_t{i} << segment_shift);
            for (std::size_t w = 0; w < words.size(); ++w) {
                for (std::uint64_t bits = words[w].load<order::relaxed>(); bits != 0; bits &= bits - 1) {
                    const std::uint64_t page = w * 64 + static_cast<std::uint64_t>(std::countr_zero(bits));
                    all.push_back({slab + page * bytes, bytes});
                }
            }
            return absl::OkStatus();
        });
    if (status.ok()) {
        status =
            for_each_chunk(view, memory, *descriptors, [&](device::chunk_id c, const device::chunk_blocks& blocks) {
                add_chunk(view, c, blocks, all);
                return absl::OkStatus();
            });
    }
    if (!status.ok()) {
        return status;
    }
    std::ranges::sort(all, {}, &nvtx::address_range::at);
    return all;
}

}  // namespace orchard
