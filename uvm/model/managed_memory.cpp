// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// GPU memory: chunks for blocks, eviction, and the destination of evicted pages.
///
///     provide                 before pages come: gives the block, or each region with pages, a young chunk
///       provide_region          a truncated block: a slot in a shared chunk
///         take_chunk              a free chunk; if there is none:
///           evict                   the oldest one: all pages of all of its owners
///             remove                  where the pages of one owner go; then `release_empty`
///     arrive, leave           counts of resident pages and active blocks
///     count_use               how many of the pages that came were used
///
/// A chunk may be held by a block that has no page on the GPU only between `provide` and `arrive`.

#include <algorithm>
#include <bit>
#include <optional>

#include "uvm/model/managed_space.hpp"

namespace orchard::uvm_model {
namespace {

/// The number of regions for which a chunk, shared by truncated blocks, has room.
constexpr std::size_t slots = pages_per_segment / pages_per_big_page;

/// Returns the index of a chunk in `contents_`.
std::uint32_t number_of(chunk_index chunk) { return static_cast<std::uint32_t>(chunk); }

}  // namespace

/// Gives a block memory for `pages` before they come to the GPU, and marks that memory young. May evict other chunks;
/// their cost is added to `done`.
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
        done.returns += blocks_[index].evictions != 0 ? 1 : 0;
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

/// Gives a region of a truncated block a slot in a shared chunk: in the first chunk with room, which becomes young,
/// else in a new one. Cost: a look at each shared chunk.
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
    done.returns += blocks_[index].evictions != 0 ? 1 : 0;
}

/// Returns a free chunk; evicts the oldest one if all are in use. `contents_` grows with the chunks that were ever
/// used.
chunk_index managed_space::take_chunk(work& done) {
    std::optional<chunk_index> chunk = chunks_.take();
    if (!chunk) {
        evict(*chunks_.oldest(), done);
        // The eviction has left the chunk without pages, and `release_empty` has given it back: this cannot fail.
        chunk = chunks_.take();
    }
    if (number_of(*chunk) >= contents_.size()) {
        contents_.resize(number_of(*chunk) + 1);
    }
    return *chunk;
}

/// Evicts a chunk: all pages of its block, or of all regions in it, leave the GPU.
void managed_space::evict(chunk_index chunk, work& done) {
    // E3, `uvm_va_block_evict_chunks`: the whole chunk, and all pages in it.
    ++done.evictions;
    ++counts_.evictions;
    // A copy, because `remove` changes the contents when an owner has no page left.
    const chunk_content content = contents_[number_of(chunk)];
    const std::size_t moves = log_ != nullptr ? log_->moves.size() : 0;
    if (content.block != no_index) {
        ++blocks_[content.block].evictions;
        remove(content.block, page_mask(blocks_[content.block].pages), done);
    }
    for (const chunk_content::part& part : content.parts) {
        ++blocks_[part.block].evictions;
        remove(part.block, page_mask(pages_of_region(blocks_[part.block], part.region)), done);
    }
    if (log_ != nullptr) {
        const va_block& first = blocks_[content.block != no_index ? content.block : content.parts.front().block];
        log_->add_eviction(first_page(first.segment) + first.pages.first, number_of(chunk), moves);
    }
}

/// Lets the pages of `pages` that are on the GPU leave it, and releases memory that is empty then. For each page:
///
///     on the CPU too (read-duplicated)    the copy is dropped; no bytes move
///     discarded                           dropped; afterwards no processor has it
///     otherwise                           written back: there are no dirty bits
///
/// Pages that the CPU holds then are mapped remotely if the block is accessed by the GPU.
void managed_space::remove(std::uint32_t index, const page_mask& pages, work& done) {
    va_block& block = blocks_[index];
    count_use(block, pages);
    page_states* states = states_of(block);
    page_mask moved;
    page_mask dropped;
    for (std::uint32_t w = 0; w < words_per_segment; ++w) {
        page_states& s = states[w];
        const std::uint64_t here = s.gpu & pages.words[w];
        moved.words[w] = here & ~s.cpu & ~s.discarded;
        dropped.words[w] = here & ~moved.words[w];
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
    counts_.dropped_pages += dropped.count();
    note(block, moved, movement::written_back);
    note(block, dropped, movement::dropped);
    leave(block, moved.count() + dropped.count());
    release_empty(index);
}

/// Returns the memory of a block, or of its regions, that holds no page any more.
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

/// Returns the chunk of a complete block; does nothing if it has none.
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

/// Returns the slot of a region of a truncated block; does nothing if it has none. The last region gives the chunk
/// back.
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

/// Counts the pages of `pages` that came by faults and were not counted yet, and how many of them were accessed. Called
/// when pages leave and at the end of a run. The bits `arrived`, `prefetched` and `used` are cleared, so that each stay
/// of a page on the GPU counts once; `touched_` keeps that a page was ever accessed.
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

/// Count pages that came to the GPU or left it. A block with its first page becomes active, with its last page gone
/// inactive. Each page is counted once: `pages` leaves out those that were there already.
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
