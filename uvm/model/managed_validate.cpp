// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The checks of a managed space, for tests: the bits of each page, the memory of each block, the list of chunks, and
/// the counts.

#include <bit>
#include <optional>

#include "absl/strings/str_format.h"
#include "uvm/model/managed_space.hpp"

namespace orchard::uvm_model {
namespace {

/// Returns Internal with the block and the fault.
absl::Status wrong(const va_block& block, const char* what) {
    return absl::InternalError(absl::StrFormat("paging model: segment %u, pages [%u, %u): %s", block.segment,
                                               block.pages.first, block.pages.end, what));
}

}  // namespace

/// Checks the bits of each page of a block against each other, and the block's count of resident pages.
absl::Status managed_space::validate_pages(const va_block& block) const {
    std::uint32_t resident = 0;
    for (std::uint32_t w = 0; w < words_per_segment; ++w) {
        const page_states& s = states_[block.segment * words_per_segment + w];
        const std::uint64_t in = page_mask::bits_in(block.pages, w);
        const std::uint64_t gpu = s.gpu & in;
        const std::uint64_t cpu = s.cpu & in;
        resident += static_cast<std::uint32_t>(std::popcount(gpu));
        if ((s.readable & in & ~(gpu | cpu)) != 0) {
            return wrong(block, "a page is mapped and nowhere");
        }
        if ((s.writable & in & ~s.readable) != 0 || (s.writable & gpu & cpu) != 0 ||
            (s.writable & in & s.discarded) != 0) {
            return wrong(block, "a page may be written to that is not mapped, has two copies or is discarded");
        }
        if ((gpu & ~s.readable & ~s.discarded) != 0) {
            return wrong(block, "a page is on the GPU and not mapped");
        }
        if ((s.discarded & in & ~(gpu | cpu)) != 0) {
            return wrong(block, "a page is discarded and nowhere");
        }
        if ((s.arrived & in & ~gpu) != 0 || (s.prefetched & in & ~s.arrived) != 0) {
            return wrong(block, "a page has arrived and is not there");
        }
    }
    return resident == block.resident ? absl::OkStatus() : wrong(block, "its count of resident pages is wrong");
}

/// Checks that a block, or each of its regions, has a chunk exactly if it has a page on the GPU, and that the chunk
/// names it as its owner. Holds between calls; within a service, a chunk is provided before its pages come.
absl::Status managed_space::validate_memory(std::uint32_t index) const {
    const va_block& block = blocks_[index];
    if (block.complete()) {
        if ((block.chunk == no_chunk) != (block.resident == 0)) {
            return wrong(block, "it has pages and no chunk, or a chunk and no pages");
        }
        if (block.chunk != no_chunk && contents_[static_cast<std::uint32_t>(block.chunk)].block != index) {
            return wrong(block, "its chunk holds another block");
        }
        return absl::OkStatus();
    }
    const page_mask gpu = mask(block.segment, &page_states::gpu);
    const std::vector<chunk_index>& regions = parts_[block.parts];
    for (std::uint32_t r = 0; r < regions_of(block); ++r) {
        if ((regions[r] == no_chunk) != (gpu.count(pages_of_region(block, r)) == 0)) {
            return wrong(block, "a region has pages and no chunk, or a chunk and no pages");
        }
        if (regions[r] != no_chunk) {
            bool listed = false;
            for (const chunk_content::part& part : contents_[static_cast<std::uint32_t>(regions[r])].parts) {
                listed = listed || (part.block == index && part.region == r);
            }
            if (!listed) {
                return wrong(block, "a region's chunk does not hold it");
            }
        }
    }
    return absl::OkStatus();
}

/// Checks that each chunk in the list holds something, and that the list is as long as its count.
absl::Status managed_space::validate_chunks() const {
    std::uint64_t in_list = 0;
    for (std::optional<chunk_index> chunk = chunks_.oldest(); chunk; chunk = chunks_.younger(*chunk)) {
        const chunk_content& content = contents_[static_cast<std::uint32_t>(*chunk)];
        ++in_list;
        if (content.block == no_index && content.parts.empty()) {
            return absl::InternalError(absl::StrFormat("paging model: chunk %u is in use and holds nothing",
                                                       static_cast<std::uint32_t>(*chunk)));
        }
    }
    if (in_list != chunks_.used() || in_list > chunks_.capacity()) {
        return absl::InternalError(absl::StrFormat("paging model: %u chunks are listed, %u counted, of %u", in_list,
                                                   chunks_.used(), chunks_.capacity()));
    }
    return absl::OkStatus();
}

/// The blocks come first, then the counts over all of them, then the chunks.
absl::Status managed_space::validate() const {
    std::uint64_t active = 0;
    std::uint64_t pages = 0;
    for (std::uint32_t i = 0; i < blocks_.size(); ++i) {
        active += blocks_[i].resident != 0 ? 1 : 0;
        pages += blocks_[i].pages.size();
        if (const absl::Status status = validate_pages(blocks_[i]); !status.ok()) {
            return status;
        }
        if (const absl::Status status = validate_memory(i); !status.ok()) {
            return status;
        }
    }
    if (active != active_) {
        return absl::InternalError(absl::StrFormat("paging model: %u blocks are active, %u counted", active, active_));
    }
    if (pages != bytes_ / os_page_bytes) {
        return absl::InternalError(
            absl::StrFormat("paging model: the blocks have %u pages, the space %u", pages, bytes_ / os_page_bytes));
    }
    return validate_chunks();
}

}  // namespace orchard::uvm_model
