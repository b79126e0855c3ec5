// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The blocks of a managed space, their policies and splits; see managed_space.hpp.
///
/// A policy boundary inside a block splits it, as the driver does. Both halves are truncated blocks from then on; they
/// are never joined again.
///
///     before    block 7: pages [0, 512)                     chunk 3
///     after     block 7: pages [0, 200)                     regions 0 to 12:  slots in chunk 3
///               block 9: pages [200, 512), next of 7        regions 0 to 19:  slots in chunk 3
///
/// Page 200 lies inside a big page: its two parts are a region of each half.

#include "uvm/model/managed_space.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_format.h"
#include "uvm/model/managed_space_each.hpp"

namespace orchard::uvm_model {

work& work::operator+=(const work& other) {
    pages += other.pages;
    pages_in += other.pages_in;
    pages_out += other.pages_out;
    copies_in += other.copies_in;
    copies_out += other.copies_out;
    evictions += other.evictions;
    returns += other.returns;
    return *this;
}

/// One complete block for each segment. All pages are nowhere at first, so that all words of states are 0.
managed_space::managed_space(std::uint64_t bytes, std::uint64_t chunks, host_access host)
    : bytes_{bytes},
      host_{host},
      states_(segments_for(bytes) * words_per_segment),
      touched_(segments_for(bytes) * words_per_segment),
      blocks_(segments_for(bytes)),
      chunks_{chunks} {
    for (std::uint32_t i = 0; i < blocks_.size(); ++i) {
        blocks_[i].segment = i;
    }
    // A space that ends inside a segment has a truncated block there.
    if (const std::uint64_t rest = bytes / os_page_bytes % pages_per_segment; rest != 0) {
        blocks_.back().pages.end = static_cast<std::uint32_t>(rest);
        blocks_.back().parts = 0;
        parts_.emplace_back(regions_of(blocks_.back()), no_chunk);
    }
}

/// The blocks of a segment are linked in the order of their pages; the first of them has the segment's index.
std::uint32_t managed_space::block_of(std::uint64_t page) const {
    auto index = static_cast<std::uint32_t>(page / pages_per_segment);
    while (page % pages_per_segment >= blocks_[index].pages.end) {
        index = blocks_[index].next;
    }
    return index;
}

page_mask managed_space::mask(std::uint32_t segment, std::uint64_t page_states::*kind) const {
    page_mask result;
    for (std::uint32_t w = 0; w < words_per_segment; ++w) {
        result.words[w] = states_[segment * words_per_segment + w].*kind;
    }
    return result;
}

/// Checks a range that a caller gave: whole pages inside the space. The sum of offset and bytes is not computed, since
/// it could overflow.
absl::Status managed_space::check(byte_range range) const {
    if (range.offset % os_page_bytes != 0 || range.bytes % os_page_bytes != 0 || range.offset > bytes_ ||
        range.bytes > bytes_ - range.offset) {
        return absl::InvalidArgumentError(
            absl::StrFormat("paging model: the range [%u, %u + %u) must be whole pages of %u bytes inside the managed "
                            "space of %u bytes",
                            range.offset, range.offset, range.bytes, os_page_bytes, bytes_));
    }
    return absl::OkStatus();
}

/// Splits a block before `page`, which lies inside it. Pages stay where they are, and the memory of a complete block
/// becomes a shared chunk, in which regions with pages keep a slot. Cost: a look at the contents of all shared chunks.
void managed_space::split(std::uint32_t index, std::uint32_t page) {
    // The chunk of each region of the block before it is split in two.
    const va_block whole = blocks_[index];
    const std::vector<chunk_index> chunks =
        whole.complete() ? std::vector<chunk_index>(regions_of(whole), whole.chunk) : parts_[whole.parts];
    if (whole.complete() && whole.chunk != no_chunk) {
        contents_[static_cast<std::uint32_t>(whole.chunk)] = {};
        shared_.push_back(whole.chunk);
    }
    for (const chunk_index chunk : shared_) {
        std::erase_if(contents_[static_cast<std::uint32_t>(chunk)].parts,
                      [&](const chunk_content::part& p) { return p.block == index; });
    }
    // The second half gets a new index; the first half keeps the old one, and so its place in the list of the segment.
    const auto after = static_cast<std::uint32_t>(blocks_.size());
    blocks_.push_back(whole);
    blocks_[index].pages.end = page;
    blocks_[index].next = after;
    blocks_[after].pages.first = page;
    active_ -= whole.resident != 0 ? 1 : 0;
    for (const std::uint32_t half : {index, after}) {
        become_truncated(half, whole, chunks);
        active_ += blocks_[half].resident != 0 ? 1 : 0;
    }
    peak_active_ = std::max(peak_active_, active_);
}

/// Makes a half of `whole` a truncated block, whose regions keep the chunks in which their pages lie. `chunks[r]` is
/// the chunk of region r of `whole`, or `no_chunk`.
void managed_space::become_truncated(std::uint32_t index, const va_block& whole,
                                     const std::vector<chunk_index>& chunks) {
    va_block& block = blocks_[index];
    const page_mask gpu = mask(block.segment, &page_states::gpu);
    block.chunk = no_chunk;
    block.resident = gpu.count(block.pages);
    block.parts = static_cast<std::uint32_t>(parts_.size());
    parts_.emplace_back(regions_of(block), no_chunk);
    for (std::uint32_t r = 0; r < regions_of(block); ++r) {
        const page_range pages = pages_of_region(block, r);
        if (gpu.count(pages) != 0) {
            const chunk_index chunk = chunks[region_of(whole, pages.first)];
            parts_.back()[r] = chunk;
            contents_[static_cast<std::uint32_t>(chunk)].parts.push_back({index, r});
        }
    }
}

/// Makes `page` the first page of a block; does nothing if it is, or at the end of the space.
void managed_space::split_at(std::uint64_t page) {
    if (page < bytes_ / os_page_bytes) {
        const std::uint32_t index = block_of(page);
        const auto place = static_cast<std::uint32_t>(page % pages_per_segment);
        if (blocks_[index].pages.first != place) {
            split(index, place);
        }
    }
}

namespace {

/// Returns the policy after an advice.
policy changed(policy p, advice what) {
    switch (what) {
        case advice::prefer_gpu: p.preferred = policy::place::gpu; break;
        case advice::prefer_cpu: p.preferred = policy::place::cpu; break;
        case advice::prefer_none: p.preferred = policy::place::none; break;
        case advice::accessed_by: p.accessed_by = true; break;
        case advice::no_accessed_by: p.accessed_by = false; break;
        case advice::read_mostly: p.read_mostly = true; break;
        case advice::no_read_mostly: p.read_mostly = false; break;
    }
    return p;
}

}  // namespace

absl::Status managed_space::advise(byte_range range, advice what) {
    if (const absl::Status status = check(range); !status.ok()) {
        return status;
    }
    if (range.bytes == 0) {
        return absl::OkStatus();
    }
    const std::uint64_t first = range.offset / os_page_bytes;
    const std::uint64_t end = first + range.bytes / os_page_bytes;
    // A border inside a block splits it only if the advice changes the block's policy; otherwise both halves would have
    // the same one.
    for (const std::uint64_t border : {first, end}) {
        if (border < bytes_ / os_page_bytes) {
            const policy p = blocks_[block_of(border)].advised;
            if (changed(p, what) != p) {
                split_at(border);
            }
        }
    }
    each_block(range, [&](std::uint32_t index, const page_mask&) {
        set_policy(index, changed(blocks_[index].advised, what));
    });
    return absl::OkStatus();
}

/// Changes the policy of a block, and the mappings that the old one allowed. Pages stay where they are. A remote
/// mapping ends with accessed-by; of two copies one stays when read-mostly ends, and becomes writable again.
void managed_space::set_policy(std::uint32_t index, policy p) {
    va_block& block = blocks_[index];
    const policy before = std::exchange(block.advised, p);
    page_states* states = states_of(block);
    for (std::uint32_t w = 0; w < words_per_segment; ++w) {
        page_states& s = states[w];
        const std::uint64_t in = page_mask::bits_in(block.pages, w);
        if (before.accessed_by && !p.accessed_by) {
            s.readable &= ~(in & ~s.gpu);
            s.writable &= ~(in & ~s.gpu);
        }
        if (before.read_mostly && !p.read_mostly) {
            // `uvm_va_block_unset_read_duplication`: one copy stays, here the GPU's.
            s.cpu &= ~(in & s.gpu);
            s.writable |= in & s.gpu & s.readable & ~s.discarded;
        }
    }
    map_remote(block, page_mask(block.pages));
}

/// Maps the pages of `pages` that only the CPU has for the GPU, if the block is accessed by it, or if all host memory
/// is mapped: no fault is needed then.
void managed_space::map_remote(const va_block& block, const page_mask& pages) {
    if (!block.advised.accessed_by && host_ == host_access::faults) {
        return;
    }
    page_states* states = states_of(block);
    for (std::uint32_t w = 0; w < words_per_segment; ++w) {
        page_states& s = states[w];
        // A discarded page is left out: it faults at its next access.
        const std::uint64_t remote = pages.words[w] & s.cpu & ~s.gpu & ~s.discarded;
        s.readable |= remote;
        s.writable |= remote;
    }
}

void managed_space::unmap_host_region(std::uint64_t page) {
    const va_block& block = blocks_[block_of(page)];
    const auto first = static_cast<std::uint32_t>(page % pages_per_segment / pages_per_big_page * pages_per_big_page);
    // A big page lies in one word of states.
    const std::uint32_t w = first / 64;
    page_states& s = states_of(block)[w];
    const std::uint64_t host = page_mask::bits_in({first, first + pages_per_big_page}, w) &
                               page_mask::bits_in(block.pages, w) & s.cpu & ~s.gpu;
    s.readable &= ~host;
    s.writable &= ~host;
}

/// Called at the end of each run. Pages that stay on the GPU are counted as brought by this run; in the next run they
/// count no more. `touched_` is not cleared: touched pages and blocks count since the model was made.
void managed_space::close(result& r) {
    for (const va_block& block : blocks_) {
        count_use(block, page_mask(block.pages));
    }
    r = counts_;
    for (va_block& block : blocks_) {
        std::uint64_t touched = 0;
        for (std::uint32_t w = 0; w < words_per_segment; ++w) {
            const std::uint64_t in =
                touched_[block.segment * words_per_segment + w] & page_mask::bits_in(block.pages, w);
            touched |= in;
            r.touched_pages += static_cast<std::uint64_t>(std::popcount(in));
        }
        r.touched_blocks += touched != 0 ? 1 : 0;
        r.resident_pages += block.resident;
    }
    r.active_blocks = active_;
    r.peak_active_blocks = peak_active_;
    r.chunks_used = chunks_.used();
    counts_ = {};
}

}  // namespace orchard::uvm_model
