// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// One service of one VA block: the driver's work for the faults of a batch in this block.
///
///     faults of the batch in the block
///       |  open_of       those whose pages still lack the mapping; the others are stale
///       v
///     open faults
///       |  remote_of     by policy: pages to be mapped on the host           -> map_host_memory
///       v
///     the rest           pages that come to the GPU                          -> bring
///       |  prefetch_for  and the pages that come with them                   -> bring

#include <bit>

#include "uvm/model/managed_space.hpp"
#include "uvm/model/prefetch_tree.hpp"

namespace orchard::uvm_model {

work managed_space::service(std::uint32_t index, const block_faults& faults, std::uint32_t threshold) {
    const va_block& block = blocks_[index];
    const block_faults open = open_of(block, faults);
    const std::uint32_t pages = open.all().count();
    const std::uint32_t asked = faults.all().count();
    counts_.distinct_faults += asked;
    counts_.stale_faults += asked - pages;
    ++counts_.block_services;
    work done;
    done.pages = pages;
    if (pages == 0) {
        return done;
    }
    const block_faults there = remote_of(block, open);
    const block_faults here = open.without(there);
    const bool one_place = there.all().empty();  // otherwise there is no prefetch
    if (!one_place) {
        map_host_memory(index, there);
    }
    if (!here.all().empty()) {
        bring(index, here, one_place ? prefetch_for(block, here.all(), threshold) : page_mask{}, done);
    }
    return done;
}

/// Returns the faults that still need work. An entry that stayed in the buffer over a flush is often stale. A page with
/// an open write fault is not listed as a read as well.
block_faults managed_space::open_of(const va_block& block, const block_faults& faults) const {
    // Pages that an earlier service has already mapped need no work.
    const page_mask write = faults.write.without(mask(block.segment, &page_states::writable));
    const page_mask read = faults.read.without(mask(block.segment, &page_states::readable)).without(write);
    return {read, write};
}

/// Returns the faults whose pages stay on the host, or come into being there, and are mapped for the GPU.
///
///     preferred location    accessed by    pages
///     CPU                   any            all, but those on the GPU alone
///     none                  yes            those on the CPU alone
///     none                  no             none
///     GPU                   any            none
///
/// Reads of read-mostly memory are never among them: they make a copy on the GPU.
block_faults managed_space::remote_of(const va_block& block, const block_faults& open) const {
    // `uvm_va_block_select_residency`: read duplication comes first, then the preferred location, then a mapping to the
    // current location of the page.
    const page_mask gpu = mask(block.segment, &page_states::gpu);
    const page_mask cpu = mask(block.segment, &page_states::cpu);
    block_faults there;
    if (block.advised.preferred == policy::place::cpu) {
        // Pages that are only on the GPU and only lack a mapping stay.
        there = open.without({gpu.without(cpu), gpu.without(cpu)});
    } else if (block.advised.preferred == policy::place::none && block.advised.accessed_by) {
        const page_mask remote = cpu.without(gpu);
        there = {open.read & remote, open.write & remote};
    }
    if (block.advised.read_mostly) {
        there.read = {};
    }
    return there;
}

/// Returns the pages that come in addition to those that faulted, all of which go to the GPU.
page_mask managed_space::prefetch_for(const va_block& block, const page_mask& faulted, std::uint32_t threshold) const {
    if (block.advised.preferred == policy::place::cpu) {
        return {};  // P2: a preferred location elsewhere, `uvm_va_block.c: uvm_va_block_get_prefetch_hint`
    }
    const page_mask gpu = mask(block.segment, &page_states::gpu) & page_mask(block.pages);
    if (block.advised.preferred == policy::place::gpu && gpu.empty() &&
        (mask(block.segment, &page_states::cpu) & page_mask(block.pages)).empty()) {
        // P1, `uvm_perf_prefetch.c: uvm_perf_prefetch_prenotify_fault_migrations`
        return page_mask(block.pages).without(faulted);
    }
    return prefetch_mask(block.pages, gpu, faulted, threshold);
}

/// Maps pages on the host for the GPU. Pages that no processor has are placed there. Pages are mapped for reads and
/// writes, whichever fault they had.
void managed_space::map_host_memory(std::uint32_t index, const block_faults& faults) {
    va_block& block = blocks_[index];
    page_states* states = states_of(block);
    const page_mask pages = faults.all();
    // A write to a page of which both processors have a copy leaves it at its preferred location: the GPU's copy is
    // dropped.
    const page_mask copies = pages & mask(block.segment, &page_states::gpu);
    if (!copies.empty()) {
        count_use(block, copies);
    }
    for (std::uint32_t w = 0; w < words_per_segment; ++w) {
        page_states& s = states[w];
        const std::uint64_t in = pages.words[w];
        s.gpu &= ~in;
        s.cpu |= in;  // its first touch, if no processor has it
        s.discarded &= ~faults.write.words[w];
        s.readable |= in;
        s.writable |= in & ~s.discarded;
    }
    if (!copies.empty()) {
        counts_.dropped_pages += copies.count();
        note(block, copies, movement::dropped);
        leave(block, copies.count());
        release_empty(index);
    }
}

/// Brings pages to the GPU: those that faulted, and the prefetched ones. Adds the work to `done`; the pages of faults
/// are in it already. Per page:
///
///     on the GPU already              only mapped (a write ends the state discarded, or makes a duplicate exclusive)
///     on the CPU                      moved; copied if it is read-mostly and not written
///     nowhere, or discarded           no bytes move: "populated"
void managed_space::bring(std::uint32_t index, const block_faults& faults, const page_mask& prefetched, work& done) {
    const page_mask wanted = faults.all() | prefetched;
    provide(index, wanted, done);
    va_block& block = blocks_[index];
    page_states* states = states_of(block);
    page_mask demanded;    // moved because they faulted
    page_mask additional;  // moved because of the prefetcher
    page_mask populated;   // came without data
    std::uint32_t came = 0;
    for (std::uint32_t w = 0; w < words_per_segment; ++w) {
        page_states& s = states[w];
        const std::uint64_t in = wanted.words[w];
        const std::uint64_t written = faults.write.words[w];
        const std::uint64_t coming = in & ~s.gpu;
        const std::uint64_t moving = coming & s.cpu & ~s.discarded;
        demanded.words[w] = moving & ~prefetched.words[w];
        additional.words[w] = moving & prefetched.words[w];
        populated.words[w] = coming & ~moving;
        came += static_cast<std::uint32_t>(std::popcount(coming));
        const std::uint64_t copied = block.advised.read_mostly ? moving & ~written : 0;
        s.cpu &= ~((coming | written) & ~copied);
        s.gpu |= coming;
        s.discarded &= ~written;
        s.readable |= in;
        s.writable |= in & ~s.cpu & ~s.discarded;
        // A page with two copies may only be read: a write must fault, so that one copy can be dropped.
        s.writable &= ~(in & s.cpu);
        // A page that was accessed remotely before is counted anew; `count_use` below keeps the fact that it was
        // touched.
        s.arrived |= coming;
        s.prefetched |= coming & prefetched.words[w];
        touched_[block.segment * words_per_segment + w] |= s.used & coming;
        s.used &= ~coming;
    }
    arrive(block, came);
    done.pages_in += demanded.count() + additional.count();
    const std::uint32_t copies = (demanded | additional).runs();
    done.copies_in += copies;
    counts_.demand_pages += demanded.count();
    counts_.prefetched_pages += additional.count();
    counts_.populated_pages += came - demanded.count() - additional.count();
    counts_.copies_in += copies;
    note(block, demanded, movement::demand);
    note(block, additional, movement::prefetched);
    note(block, populated, movement::populated);
}

/// Adds moved pages of a block to the log, if there is one.
void managed_space::note(const va_block& block, const page_mask& pages, movement what) {
    if (log_ != nullptr) {
        log_->add(first_page(block.segment), pages, what);
    }
}

}  // namespace orchard::uvm_model
