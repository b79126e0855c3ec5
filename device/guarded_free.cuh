// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `free` of an instrumented heap, and the quarantine of a hardened one; guarded_heap.cuh has the whole picture.
///
/// The quarantine delays the reuse of memory, so that a use after free finds the bytes of a freed block and not those
/// of its next owner. Its slots hold at most a 64th of the heap (`quarantine::slots_for`).

#include "device/free_alone.cuh"
#include "device/hardened/guarded_block.cuh"

namespace orchard::device {

/// Sets `c.usable`: the bytes of the page or of the block of a chunk that begins at `c.at`; 0 if none in use does. The
/// descriptor says which of the two it can be. Any address is a valid argument. Cost: one to seven loads.
inline ORCHARD_NOINLINE void find_block_of(guarded_call& c) {
    c.usable = 0;
    const auto offset = static_cast<std::uint64_t>(c.at - c.h.base);
    if (!c.h.owns_offset(offset)) {
        return;
    }
    // Acquire: pairs with the release that set the descriptor; a chunk's record was written before that.
    const std::uint64_t d = c.h.descriptor(static_cast<std::uint32_t>(offset >> segment_shift)).load<order::acquire>();
    if (descriptor::kind(d) == segment_kind::slab) {
        c.usable = page_in_use(c.h, c.at, d) ? class_bytes(descriptor::page_class(d)) : 0;
    } else if (d != 0) {
        c.usable = bytes_in_chunk(c.h, c.at);
    }
}

/// Chooses where a freed block waits: swaps it with the block in the next slot of the quarantine, which leaves
/// (`c.leaving`). A large block leaves at once, since it would hold much memory. Cost: two atomics.
inline ORCHARD_NOINLINE void swap_in_quarantine(guarded_call& c) {
    c.leaving = quarantine::slot_of(static_cast<std::uint64_t>(c.at - c.h.base), c.usable);
    if (c.usable <= quarantine::max_block_bytes && c.h.quarantine_slots != 0) {
        const std::uint64_t turn = c.h.quarantined->turn.word.fetch_add<order::relaxed>(1);
        // Releases the bytes just written to the thread that takes this block out; acquires those of the other block.
        c.leaving = c.h.quarantined->slots[turn % c.h.quarantine_slots].exchange<order::acq_rel>(c.leaving);
    }
}

/// Takes the block `c.leaving` as the one of this call, and checks it. Sets `c.is_freed` if there is such a block and
/// its memory may be freed.
inline ORCHARD_NOINLINE void leave_quarantine(guarded_call& c) {
    c.is_freed = false;
    if (c.leaving == 0) {
        return;
    }
    char* const at = c.h.base + quarantine::offset_of(c.leaving);
    if (at != c.at) {  // else a large block, whose size is known
        c.at = at;
        c.usable = quarantine::bytes_of(c.leaving);
    }
    c.bytes = 0;
    check_mark(c);
    check_freed(c);
    if (c.fault != block_fault_kind::none) {
        record_block_fault(c);
    }
}

/// Reports that the block found at `c.at` is about to be freed; nothing if there is none. Any lanes call it.
inline ORCHARD_NOINLINE void report_free(const guarded_call& c) {
    if (c.usable != 0) {
        event_call e(*c.h.events, device_event::block_freed, c.h.offset_of(c.at), 0, 0);
        report(e);
    }
}

/// The first step of `free` in an instrumented heap. Reports the block `p`, if the heap reports blocks. In a hardened
/// heap, checks it, puts it into the quarantine, and returns the address of the block that leaves the quarantine in its
/// place, whose memory the caller frees as in any heap; null if none does, or if `p` is no block in use. Else returns
/// `p`. Any lanes call it, each for its own block. Cost: a report; in a hardened heap some 20 loads, three atomics, up
/// to 256 B read and 1 KiB written and read.
inline ORCHARD_NOINLINE void* release_instrumented(const heap_view& h, const void* p) {
    guarded_call c(h, p);
    if (h.reports_blocks()) {
        find_block_of(c);
        report_free(c);
    }
    if (!c.h.is_hardened()) {
        return c.at;
    }
    find_block_of(c);
    if (c.usable < guard_bytes) {
        record_invalid_free(c.h, c.at);
        c.fault = block_fault_kind::invalid_free;
    } else {
        mark_freed(c);
        check_spare(c);
    }
    if (c.fault != block_fault_kind::none) {
        record_block_fault(c);
    }
    if (!c.is_freed) {
        return nullptr;
    }
    fill_freed(c);
    swap_in_quarantine(c);
    leave_quarantine(c);
    return c.is_freed ? c.at : nullptr;
}

/// Returns whether a block in use begins at `c.at`, and its guard is intact; sets `c.bytes` and `c.owner` if so. One
/// lane calls it alone.
inline ORCHARD_NOINLINE bool read_block_in_use(guarded_call& c) {
    find_block_of(c);
    return c.usable >= guard_bytes && read_guard(c) == mark_of(c, c.bytes, c.owner);
}

/// Returns the bytes of a block in use of an instrumented heap, or 0: those that the program asked for if the heap is
/// hardened, else those that it may use. One lane calls it alone.
inline ORCHARD_NOINLINE std::uint64_t instrumented_bytes(const heap_view& h, const void* p) {
    guarded_call c(h, p);
    if (!h.is_hardened()) {
        find_block_of(c);
        return c.usable;
    }
    return read_block_in_use(c) ? c.bytes : 0;
}

/// Gives a block in use of a hardened heap another tag; the thread that allocated it stays. The block's owner alone may
/// call it. A lane calls it for itself. A pointer to no block in use, or a guard that was written over, changes
/// nothing: the block's `free` finds it.
inline ORCHARD_NOINLINE void tag_guarded(const heap_view& h, const void* p, std::uint32_t tag) {
    guarded_call c(h, p);
    if (read_block_in_use(c)) {
        c.owner = block_owner::word(block_owner::name_of(c.owner), tag);
        write_guard(c);
    }
}

/// Gives a block in use of an instrumented heap a tag: in its guard, and by a report. Any lanes call it, each for its
/// own block.
inline ORCHARD_NOINLINE void tag_instrumented(const heap_view& h, const void* p, std::uint32_t tag) {
    if (h.is_hardened()) {
        tag_guarded(h, p, tag);
    }
    if (h.reports_blocks()) {
        report_block(h, device_event::block_tagged, h.offset_of(p), 0, tag);
    }
}

/// Gives the block `to` the tag of the block `from`, both in use. Any lanes call it, each for its own blocks. The
/// report names the other block, as the device knows a tag only in a guard.
inline ORCHARD_NOINLINE void copy_tag(const heap_view& h, const void* from, const void* to) {
    guarded_call c(h, from);
    if (h.is_hardened() && read_block_in_use(c)) {
        tag_guarded(h, to, block_owner::tag_of(c.owner));
    }
    if (h.reports_blocks()) {
        report_block(h, device_event::block_tagged, h.offset_of(to), h.offset_of(from) + 1, 0);
    }
}

/// Frees all blocks of the quarantine of a hardened heap, after checking them. All lanes of a converged group call it:
/// a kernel of the runtime, before the host validates or trims the heap.
inline ORCHARD_FN void empty_quarantine(const heap_view& h, lane_mask mask) {
    const auto width = static_cast<std::uint32_t>(simt::popcount(mask));
    guarded_call c(h, nullptr);
    for (auto i = static_cast<std::uint32_t>(simt::rank_in(mask)); i < h.quarantine_slots; i += width) {
        c.leaving = h.quarantined->slots[i].exchange<order::acquire>(0);  // as in `swap_in_quarantine`
        leave_quarantine(c);
        if (c.is_freed) {
            free_memory(h, c.at);
        }
    }
    simt::sync(mask);
}

}  // namespace orchard::device
