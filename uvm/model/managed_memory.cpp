// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// GPU memory: chunks for blocks, eviction, and the destination of evicted pages.

#include <algorithm>
#include <bit>
#include <optional>

#include "uvm/model/managed_space.hpp"

namespace orchard::uvm_model {
namespace {

/// The number of regions for which a chunk, shared by truncated blocks, has room.
constexpr std::size_t slots = pages_per_segment / pages_per_big_page;

std::uint32_t number_of(chunk_index chunk) { return static_cast<std::uint32_t>(chunk); }

}  // namespace

void managed_space::provide(std::uint32_t index, const page_mask& pages, work& done) {
    if (blocks_[index].complete()) {
        // E1: 2 MiB even for one page. E2: a service makes it young, `uvm_va_block.c: block_mark_memory_used`.
        if (blocks_[index].chunk != no_chunk) {
            chunks_.mark_used(blocks_[index].chunk);
            return;
        }
        const chunk_index chunk = take_chunk(done);
        contents_[number_of(chunk)] = {index, {}};
        blocks_[index].chunk = chunk;
        return;
    }
    // If memory is very short, a region's chunk may be evicted for the next region's. Repeats until all regions have a
    // chunk.
    for (bool all = false; !all;) {
        all = true;
        for (std::uint32_t r = 0; r < regions_of(blocks_[index]); ++r) {
            if (pages.count(pages_of_region(blocks_[index], r)) == 0) {
                continue;
            }
            if (const chunk_index chunk = parts_[blocks_[index].parts][r]; chunk != no_chunk) {
                chunks_.mark_used(chunk);
            } else {
                provide_region(index, r, done);
                all = false;
            }
        }
    }
}

void managed_space::provide_region(std::uint32_t index, std::uint32_t region, work& done) {
    const auto room = std::find_if(shared_.begin(), shared_.end(),
                                   [&](chunk_index chunk) { return contents_[number_of(chunk)].parts.size() < slots; });
    chunk_index chunk = no_chunk;
    if (room != shared_.end()) {
        chunk = *room;
        chunks_.mark_used(chunk);
    } else {
        chunk = take_chunk(done);
        contents_[number_of(chunk)] = {};
        shared_.push_back(chunk);
    }
    contents_[number_of(chunk)].parts.push_back({index, region});
    parts_[blocks_[index].parts][region] = chunk;
}

chunk_index managed_space::take_chunk(work& done) {
    std::optional<chunk_index> chunk = chunks_.take();
    if (!chunk) {
        evict(*chunks_.oldest(), done);
        chunk = chunks_.take();
    }
    if (number_of(*chunk) >= contents_.size()) {
        contents_.resize(number_of(*chunk) + 1);
    }
    return *chunk;
}

void managed_space::evict(chunk_index chunk, work& done) {
    // E3, `uvm_va_block_evict_chunks`: the whole chunk, and all pages in it.
    ++done.evictions;
    ++counts_.evictions;
    const chunk_content content = contents_[number_of(chunk)];
    if (content.block != no_index) {
        remove(content.block, page_mask(blocks_[content.block].pages), done);
        return;
    }
    for (const chunk_content::part& part : content.parts) {
        remove(part.block, page_mask(pages_of_region(blocks_[part.block], part.region)), done);
    }
}

void managed_space::remove(std::uint32_t index, const page_mask& pages, work& done) {
    va_block& block = blocks_[index];
    count_use(block, pages);
    page_states* states = states_of(block);
    page_mask moved;
    std::uint32_t left = 0;
    for (std::uint32_t w = 0; w < words_per_segment; ++w) {
        page_states& s = states[w];
        const std::uint64_t here = s.gpu & pages.words[w];
        moved.words[w] = here & ~s.cpu & ~s.discarded;
        left += static_cast<std::uint32_t>(std::popcount(here));
        s.discarded &= ~(here & ~s.cpu);  // no processor has it any more: as if it had never been written
        s.cpu |= moved.words[w];
        s.gpu &= ~here;
        s.readable &= ~here;
        s.writable &= ~here;
    }
    map_remote(block, pages);
    done.pages_out += moved.count();
    done.copies_out += moved.runs();
    counts_.written_back_pages += moved.count();
    counts_.copies_out += moved.runs();
    counts_.dropped_pages += left - moved.count();
    leave(block, left);
    release_empty(index);
}

void managed_space::release_empty(std::uint32_t index) {
    const va_block& block = blocks_[index];
    if (block.complete()) {
        if (block.resident == 0) {
            release(index);
        }
        return;
    }
    const page_mask gpu = mask(block.segment, &page_states::gpu);
    for (std::uint32_t r = 0; r < regions_of(block); ++r) {
        if (gpu.count(pages_of_region(block, r)) == 0) {
            release_region(index, r);
        }
    }
}

void managed_space::release(std::uint32_t index) {
    // The driver keeps an unused chunk for the block and evicts it first (`uvm_pmm_gpu_mark_root_chunk_unused`). This
    // costs nothing and has the same effect.
    const chunk_index chunk = blocks_[index].chunk;
    if (chunk != no_chunk) {
        blocks_[index].chunk = no_chunk;
        contents_[number_of(chunk)] = {};
        chunks_.give_back(chunk);
    }
}

void managed_space::release_region(std::uint32_t index, std::uint32_t region) {
    chunk_index& at = parts_[blocks_[index].parts][region];
    if (at == no_chunk) {
        return;
    }
    const chunk_index chunk = at;
    at = no_chunk;
    std::vector<chunk_content::part>& parts = contents_[number_of(chunk)].parts;
    std::erase_if(parts, [&](const chunk_content::part& p) { return p.block == index && p.region == region; });
    if (parts.empty()) {
        std::erase(shared_, chunk);
        chunks_.give_back(chunk);
    }
}

void managed_space::count_use(const va_block& block, const page_mask& pages) {
    page_states* states = states_of(block);
    page_mask arrived;
    page_mask used;
    for (std::uint32_t w = 0; w < words_per_segment; ++w) {
        page_states& s = states[w];
        const std::uint64_t in = pages.words[w];
        touched_[block.segment * words_per_segment + w] |= s.used & in;
        arrived.words[w] = s.arrived & in;
        used.words[w] = arrived.words[w] & s.used;
        counts_.tree_pages += static_cast<std::uint64_t>(std::popcount(s.prefetched & in));
        counts_.tree_used_pages += static_cast<std::uint64_t>(std::popcount(s.prefetched & s.used & in));
        s.arrived &= ~in;
        s.prefetched &= ~in;
        s.used &= ~in;
    }
    if (!arrived.empty()) {
        counts_.brought_pages += arrived.count();
        counts_.brought_used_pages += used.count();
        counts_.brought_big_pages += big_pages_of(arrived);
        counts_.brought_used_big_pages += big_pages_of(used);
    }
}

void managed_space::arrive(va_block& block, std::uint32_t pages) {
    if (pages != 0 && block.resident == 0) {
        ++active_;
        peak_active_ = std::max(peak_active_, active_);
    }
    block.resident += pages;
}

void managed_space::leave(va_block& block, std::uint32_t pages) {
    block.resident -= pages;
    if (pages != 0 && block.resident == 0) {
        --active_;
    }
}

}  // namespace orchard::uvm_model
