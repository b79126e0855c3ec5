// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The calls that move or discard memory without a fault: `cudaMemPrefetchAsync`, `cudaMemDiscardBatchAsync`, and
/// writes that came before the kernel. All of them work through the range block by block, and 64 pages at a time.

#include "uvm/model/managed_space.hpp"
#include "uvm/model/managed_space_each.hpp"

namespace orchard::uvm_model {

/// The range may begin and end inside blocks: a prefetch has no policy boundary, and splits nothing.
absl::StatusOr<work> managed_space::prefetch(byte_range range, processor to) {
    if (const absl::Status status = check(range); !status.ok()) {
        return status;
    }
    work done;
    each_block(range, [&](std::uint32_t index, const page_mask& pages) {
        if (to == processor::gpu) {
            prefetch_to_gpu(index, pages, done);
        } else {
            prefetch_to_cpu(index, pages, done);
        }
    });
    return done;
}

/// Brings all of `pages`, also those that were never populated, and maps them. Unlike `bring`, it sets neither
/// `arrived` nor `prefetched`: pages that a call has brought are no success or failure of the prefetcher.
void managed_space::prefetch_to_gpu(std::uint32_t index, const page_mask& pages, work& done) {
    provide(index, pages, done);
    va_block& block = blocks_[index];
    page_states* states = states_of(block);
    page_mask moved;
    page_mask populated;
    for (std::uint32_t w = 0; w < words_per_segment; ++w) {
        page_states& s = states[w];
        const std::uint64_t in = pages.words[w];
        const std::uint64_t coming = in & ~s.gpu;
        moved.words[w] = coming & s.cpu & ~s.discarded;
        populated.words[w] = coming & ~moved.words[w];
        // With read-mostly the CPU keeps its copy of pages whose data moved.
        s.cpu &= ~(coming & ~(block.advised.read_mostly ? moved.words[w] : 0));
        s.gpu |= coming;
        s.discarded &= ~in;
        s.readable |= in;
        s.writable |= in & ~s.cpu;
        s.writable &= ~(in & s.cpu);
    }
    arrive(block, moved.count() + populated.count());
    note(block, moved, movement::requested);
    note(block, populated, movement::populated);
    done.pages_in += moved.count();
    done.copies_in += moved.runs();
    counts_.explicit_pages += moved.count();
    counts_.copies_in += moved.runs();
    counts_.populated_pages += populated.count();
}

/// Moves `pages` to the CPU; with read-mostly it copies them, and they stay on the GPU as well. Pages that were never
/// populated are placed on the CPU.
void managed_space::prefetch_to_cpu(std::uint32_t index, const page_mask& pages, work& done) {
    va_block& block = blocks_[index];
    page_states* states = states_of(block);
    if (block.advised.read_mostly) {
        page_mask copied;
        for (std::uint32_t w = 0; w < words_per_segment; ++w) {
            page_states& s = states[w];
            const std::uint64_t in = pages.words[w];
            copied.words[w] = in & s.gpu & ~s.cpu & ~s.discarded;
            s.discarded &= ~in;
            s.cpu |= in;
            s.readable |= in & s.gpu;
            s.writable &= ~(in & s.gpu);
        }
        done.pages_out += copied.count();
        done.copies_out += copied.runs();
        counts_.written_back_pages += copied.count();
        counts_.copies_out += copied.runs();
        counts_.copied_out_pages += copied.count();
        note(block, copied, movement::copied_out);
    } else {
        remove(index, pages, done);
        for (std::uint32_t w = 0; w < words_per_segment; ++w) {
            states[w].cpu |= pages.words[w];
            states[w].discarded &= ~pages.words[w];
        }
    }
    map_remote(block, pages);
}

/// Unmaps the pages on the GPU, so that the next access faults and ends the discarded state if it writes. Pages that no
/// processor has stay as they are.
absl::Status managed_space::discard(byte_range range) {
    if (const absl::Status status = check(range); !status.ok()) {
        return status;
    }
    each_block(range, [&](std::uint32_t index, const page_mask& pages) {
        page_states* states = states_of(blocks_[index]);
        for (std::uint32_t w = 0; w < words_per_segment; ++w) {
            page_states& s = states[w];
            const std::uint64_t in = pages.words[w];
            s.discarded |= in & (s.gpu | s.cpu);
            s.readable &= ~in;
            s.writable &= ~in;
        }
    });
    return absl::OkStatus();
}

/// Places pages that no processor has, as a first write does, without moving bytes. Pages on the other processor stay
/// there, although a real write would move them.
absl::StatusOr<work> managed_space::populate(byte_range range, processor at) {
    if (const absl::Status status = check(range); !status.ok()) {
        return status;
    }
    work done;
    each_block(range, [&](std::uint32_t index, const page_mask& pages) {
        const page_mask there =
            mask(blocks_[index].segment, &page_states::gpu) | mask(blocks_[index].segment, &page_states::cpu);
        const page_mask fresh = pages.without(there);
        if (at == processor::gpu && !fresh.empty()) {
            provide(index, fresh, done);
        }
        va_block& block = blocks_[index];
        page_states* states = states_of(block);
        for (std::uint32_t w = 0; w < words_per_segment; ++w) {
            page_states& s = states[w];
            const std::uint64_t in = fresh.words[w];
            (at == processor::gpu ? s.gpu : s.cpu) |= in;
            s.readable |= at == processor::gpu ? in : 0;
            s.writable |= at == processor::gpu ? in : 0;
        }
        if (at == processor::gpu) {
            arrive(block, fresh.count());
            note(block, fresh, movement::populated);
            counts_.populated_pages += fresh.count();
        } else {
            map_remote(block, fresh);
        }
    });
    return done;
}

}  // namespace orchard::uvm_model
