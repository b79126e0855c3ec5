// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `malloc` of an instrumented heap: of one that is hardened, or that reports its blocks to the host, or both. It takes
/// no fast path: its lanes have no hints. The calls of slow paths stand in the caller's own code, because each further
/// level of calls would add to the registers of every kernel.
///
///     heap_ref::malloc, calloc, aligned_alloc
///                      --> instrumented_malloc
///                            search_page               a page, or
///                            allocate_large            a block of a chunk, with room for the guard
///                              instrument_block        hardened/guarded_block.cuh: each of the two at its end
///                                guard_block             the guard, if the heap is hardened
///                                report_block            state/event_writer.cuh: the event, if it reports blocks
///
///     heap_ref::free   --> release_instrumented        guarded_free.cuh
///                            report_free               the event, before the block is freed; the rest if the heap is
///                                                      hardened:
///                            mark_freed, check_spare   guarded_block.cuh: overflow? freed before?
///                            swap_in_quarantine        the block takes the place of one that was freed long ago
///                            leave_quarantine          was that one written since?
///                      --> free_page, or free_other    the memory of that one, as in any heap

#include "device/hardened/guarded_block.cuh"
#include "device/slow_paths.cuh"
#include "device/small/small_path.cuh"
#include "uvm/geometry/block_request.hpp"

namespace orchard::device {

/// Returns the alignment that `heap_ref::malloc` promises for a size; 16 above the largest page, where chunks have
/// more.
ORCHARD_INLINE std::uint64_t natural_alignment(std::uint64_t bytes) {
    return (bytes & (bytes - 1)) == 0 && bytes > 16 && bytes <= largest_page_bytes ? bytes : 16;
}

/// Returns a page, or null after recording the reason. No lane has a hint: all search. Any lanes call it.
/// @param request  as in `search_page`
inline ORCHARD_FN void* find_page(const heap_view& h, std::uint64_t request, std::uint32_t page_class) {
    const lane_mask here = simt::converge();
    const lane_mask group = simt::match(here, reinterpret_cast<std::uintptr_t>(h.state) + page_class);
    if (is_leader(group)) {
        count_group(h, group, page_class);
    }
    return slow::search_page(*h.self, here, group, page_class, request, h.segments);
}

/// Returns the class of a page for a block of `bytes` bytes and its guard, if it has one; `chunk_class` if no page
/// holds both.
inline ORCHARD_NOINLINE std::uint32_t class_of_instrumented(const heap_view& h, std::uint64_t alignment,
                                                            std::uint64_t bytes) {
    return bytes > largest_page_bytes ? chunk_class : class_of_aligned(alignment, bytes + guard_bytes_of(h));
}

/// Returns a block for the calling lane, guarded if the heap is hardened, and reported if it reports blocks; or null,
/// whose reason is recorded. Any lanes call it. Cost: `malloc` by a search; in a hardened heap of 24 B more, and up to
/// 45 stores; `report_block`.
///
/// A request of nearly 2^64 bytes keeps its size, so that it fails as too large and does not wrap around.
/// @param asked  the word of the program's `block_request`
inline ORCHARD_FN void* instrumented_malloc(const heap_view& h, std::uint64_t bytes, std::uint64_t alignment,
                                            std::uint32_t asked) {
    if (is_closing(h)) {
        slow::record_failure(*h.self, failure_reason::closing, bytes, chunk_class);
        return nullptr;
    }
    const std::uint64_t natural = natural_alignment(bytes);
    alignment = alignment > natural ? alignment : natural;
    // The view in memory: a reference to the caller's copy would put all of that on the stack.
    const std::uint32_t page_class = class_of_instrumented(*h.self, alignment, bytes);
    const std::uint64_t more = guard_bytes_of(h);
    const std::uint64_t all = bytes + more < bytes ? bytes : bytes + more;
    return page_class == chunk_class ? slow::allocate_large(*h.self, all, asked_word::of(alignment, asked))
                                     : find_page(h, asked_word::of(all, asked), page_class);
}

}  // namespace orchard::device
