// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A block of a hardened heap, and how it is checked:
///
///     |<------- bytes ------->|<--- spare --->|<- 24 B ->|      a page, or a block of a chunk
///     | the program's         | 0xa5 0xa5 ... | guard    |      while it is allocated
///     | 0xdb 0xdb ... 0xdb |  | 0xa5 0xa5 ... | guard    |      while it is in quarantine
///
///     guard    bytes, owner (the thread that allocated, and the tag), mark: a hash of place, bytes and owner; its
///              complement once the block is freed
///
/// The mark tells a block that is allocated from one that is freed, and from memory in which the guard was written
/// over. Of two threads that free a block at the same time, the compare-and-swap of the mark lets one succeed.
///
/// Every block has room for the guard, since a hardened heap asks for as many bytes more. The functions are phases of
/// one call. They keep their values in a `guarded_call` in local memory, so that no phase adds to the registers of
/// another (docs/design.md, "Registers"). One lane calls each phase alone.

#include "device/hardened/block_fault_record.cuh"
#include "device/hardened/quarantine.cuh"
#include "device/simt/random.hpp"
#include "device/state/event_writer.cuh"

namespace orchard::device {

/// The last words of a block.
struct block_guard {
    device_word<std::uint64_t> bytes;  ///< the size that the program asked for
    device_word<std::uint64_t> owner;  ///< the thread that allocated it, and its tag (`block_owner`)
    device_word<std::uint64_t> mark;
};
inline constexpr std::uint64_t guard_bytes = sizeof(block_guard);

/// Returns how many bytes an instrumented heap asks for beyond those of the program.
ORCHARD_INLINE std::uint64_t guard_bytes_of(const heap_view& h) { return h.is_hardened() ? guard_bytes : 0; }

/// The byte behind the end of a block, the byte of a block that was freed, and the byte of a new one under
/// `block_fill::junk`. None is 0 or part of usual text.
inline constexpr std::uint8_t spare_byte = 0xa5;
inline constexpr std::uint8_t freed_byte = 0xdb;
inline constexpr std::uint8_t junk_byte = 0xcd;
/// How many of these are written and checked at most, so that large blocks do not cost a pass over their memory.
inline constexpr std::uint64_t max_spare_checked = 256;
inline constexpr std::uint64_t max_freed_checked = 1024;

/// A call of `malloc` or `free` in a hardened heap, for one block.
struct guarded_call {
    const heap_view& h;
    char* at;                   ///< the first byte of the block
    std::uint64_t usable = 0;   ///< bytes of the page or block, with the guard: a multiple of 16; 0: no block
    std::uint64_t bytes = 0;    ///< the size that the program asked for; 0 if it is not known
    std::uint64_t owner = 0;    ///< as in the guard; known if `bytes` is
    std::uint64_t leaving = 0;  ///< the slot of a block that leaves the quarantine (`quarantine`); 0: none
    block_fault_kind fault = block_fault_kind::none;
    bool is_freed = false;  ///< this call has freed the block, or has found that it is freed

    ORCHARD_FN guarded_call(const heap_view& heap, const void* p)
        : h{heap}, at{const_cast<char*>(static_cast<const char*>(p))} {}

    [[nodiscard]] ORCHARD_INLINE block_guard& guard() const {
        return *reinterpret_cast<block_guard*>(at + usable - guard_bytes);
    }
    /// Returns the end of the spare bytes that are checked, a multiple of 8.
    [[nodiscard]] ORCHARD_INLINE std::uint64_t end_of_spare() const {
        const std::uint64_t end = usable - guard_bytes;
        return end - bytes < max_spare_checked ? end : (bytes + max_spare_checked) / 8 * 8;
    }
    /// Returns the number of bytes that are overwritten and checked when the block is freed, a multiple of 8.
    [[nodiscard]] ORCHARD_INLINE std::uint64_t end_of_freed() const {
        return (bytes < max_freed_checked ? bytes : max_freed_checked) / 8 * 8;
    }
};

/// Returns the mark of an allocated block: 64 bits of a hash, so that other values are no mark in practice. It depends
/// on the block's place in the heap, and not on the heap's address, so that simulated runs can be repeated.
ORCHARD_INLINE std::uint64_t mark_of(const guarded_call& c, std::uint64_t bytes, std::uint64_t owner) {
    return simt::mix64(static_cast<std::uint64_t>(c.at - c.h.base) + bytes * simt::splitmix_step + owner);
}

/// Returns a word of eight such bytes.
ORCHARD_FN constexpr std::uint64_t eight_times(std::uint8_t value) { return value * 0x0101010101010101u; }

/// Sets the bytes [from, to) of a block; `to` is a multiple of 8. Cost: a store for each 8 B, up to 7 for the first.
inline ORCHARD_NOINLINE void fill(char* at, std::uint64_t from, std::uint64_t to, std::uint8_t value) {
    ORCHARD_NO_UNROLL
    for (; from < to && from % 8 != 0; ++from) {
        at[from] = static_cast<char>(value);
    }
    ORCHARD_NO_UNROLL
    for (; from < to; from += 8) {
        *reinterpret_cast<std::uint64_t*>(at + from) = eight_times(value);
    }
}

/// Returns whether all bytes [from, to) of a block have this value; `to` is a multiple of 8. Cost: as `fill`.
inline ORCHARD_NOINLINE bool is_filled(const char* at, std::uint64_t from, std::uint64_t to, std::uint8_t value) {
    bool filled = true;
    ORCHARD_NO_UNROLL
    for (; from < to && from % 8 != 0; ++from) {
        filled = filled && static_cast<std::uint8_t>(at[from]) == value;
    }
    ORCHARD_NO_UNROLL
    for (; from < to; from += 8) {
        filled = filled && *reinterpret_cast<const std::uint64_t*>(at + from) == eight_times(value);
    }
    return filled;
}

/// Records the fault `c.fault`. A heap at the level `guard` then ends the kernel. It never waits. Cost: two atomics;
/// for the first faults, six stores to host memory.
inline ORCHARD_NOINLINE void record_block_fault(const guarded_call& c) {
    c.h.add(counter::block_faults, 1);
    const std::uint64_t number = c.h.quarantined->faults.word.fetch_add<order::relaxed>(1);
    if (number < block_fault_board::records) {
        block_fault_record& to = c.h.block_faults->first[number];
        to.address.store<order::relaxed>(reinterpret_cast<std::uintptr_t>(c.at));
        to.bytes.store<order::relaxed>(c.bytes);
        to.owner.store<order::relaxed>(c.owner);
        to.finder.store<order::relaxed>(own_name());
        to.time_ns.store<order::relaxed>(simt::clock_ns());
        to.kind.store<order::release>(static_cast<std::uint32_t>(c.fault));  // pairs with `block_fault_record::read`
    }
    if (c.h.level() == hardening::guard) {
        simt::stop_kernel("orchard: a hardened heap found a fault of the program (heap::block_faults)");
    }
}

/// Writes the bytes of a new block as the option `fill` says, and up to seven spare ones. Cost: a store for each 8 B.
inline ORCHARD_NOINLINE void fill_new(const guarded_call& c) {
    fill(c.at, 0, (c.bytes + 7) / 8 * 8, c.h.fill == block_fill::junk ? junk_byte : 0);
}

/// Writes the spare bytes of a new block.
inline ORCHARD_NOINLINE void fill_spare(const guarded_call& c) { fill(c.at, c.bytes, c.end_of_spare(), spare_byte); }

/// Writes the guard of a new block of `c.bytes` bytes and the owner `c.owner`.
inline ORCHARD_NOINLINE void write_guard(const guarded_call& c) {
    block_guard& g = c.guard();
    g.bytes.store<order::relaxed>(c.bytes);
    g.owner.store<order::relaxed>(c.owner);
    // Release: pairs with the load in `read_guard`, whichever way the program hands the block to another thread.
    g.mark.store<order::release>(mark_of(c, c.bytes, c.owner));
}

/// Writes a new block of `usable` bytes, for which `wanted` bytes were asked with the guard: its bytes as the option
/// `fill` says, spare bytes and guard. The paths that find the memory of a hardened heap call it last, since a caller
/// that kept the size until they return would need more registers.
inline ORCHARD_NOINLINE void guard_block(const heap_view& h, void* p, std::uint64_t usable, std::uint64_t wanted) {
    guarded_call c(h, p);
    c.usable = usable;
    c.bytes = wanted - guard_bytes;
    c.owner = own_name();
    if (h.fill != block_fill::unchanged) {
        fill_new(c);
    }
    fill_spare(c);
    write_guard(c);
}

/// Finishes a new block of an instrumented heap, as the caller's last step: guards it (`guard_block`), and reports it.
/// A macro-like function, as a further level of calls would add to the registers of every kernel.
/// @param asked  the word of the program's `block_request`
ORCHARD_INLINE void instrument_block(const heap_view& h, void* p, std::uint64_t usable, std::uint64_t wanted,
                                     std::uint32_t asked) {
    if (h.is_hardened()) {
        guard_block(h, p, usable, wanted);
    }
    if (h.reports_blocks()) {
        report_block(h, device_event::block_allocated, h.offset_of(p), wanted - guard_bytes_of(h), asked);
    }
}

/// Returns the mark, and sets `c.bytes` and `c.owner`; returns 0 and sets neither if the guard was written over.
inline ORCHARD_NOINLINE std::uint64_t read_guard(guarded_call& c) {
    const block_guard& g = c.guard();
    const std::uint64_t mark = g.mark.load<order::acquire>();  // pairs with `write_guard`
    const std::uint64_t bytes = g.bytes.load<order::relaxed>();
    const std::uint64_t owner = g.owner.load<order::relaxed>();
    const std::uint64_t allocated = mark_of(c, bytes, owner);
    if (bytes > c.usable - guard_bytes || (mark != allocated && mark != ~allocated)) {
        return 0;
    }
    c.bytes = bytes;
    c.owner = owner;
    return mark;
}

/// Marks a block as freed: sets `c.is_freed`, or `c.fault` if it was freed before or its guard was written over. In the
/// latter case its memory is never used again, because a second free of it could not be told from the first.
inline ORCHARD_NOINLINE void mark_freed(guarded_call& c) {
    std::uint64_t mark = read_guard(c);
    if (mark == 0) {
        c.fault = block_fault_kind::overflow;
        return;
    }
    const std::uint64_t allocated = mark_of(c, c.bytes, c.owner);
    // The release orders the accesses of this thread before those of the thread that frees the memory.
    c.is_freed = mark == allocated && c.guard().mark.compare_exchange<order::acq_rel>(mark, ~allocated);
    c.fault = c.is_freed ? block_fault_kind::none : block_fault_kind::double_free;
}

/// Sets `c.fault` if a spare byte of a block that was just freed is wrong. Example: the program asked for 20 B and got
/// a page of 48 B. Bytes 20 to 23 are spare, the guard is at 24. A write to byte 20 makes a spare byte wrong; a write
/// to bytes 24 to 47 makes the mark wrong, which `mark_freed` finds.
inline ORCHARD_NOINLINE void check_spare(guarded_call& c) {
    if (c.is_freed && !is_filled(c.at, c.bytes, c.end_of_spare(), spare_byte)) {
        c.fault = block_fault_kind::overflow;
    }
}

/// Overwrites a block that was freed.
inline ORCHARD_NOINLINE void fill_freed(const guarded_call& c) { fill(c.at, 0, c.end_of_freed(), freed_byte); }

/// Sets `c.is_freed` of a block that leaves the quarantine: whether it still has the mark of a freed block. Sets
/// `c.fault` if not: its guard was written over, or it has a new owner because the host freed it too.
inline ORCHARD_NOINLINE void check_mark(guarded_call& c) {
    const std::uint64_t mark = read_guard(c);
    const bool is_allocated = mark != 0 && mark == mark_of(c, c.bytes, c.owner);
    c.is_freed = mark != 0 && !is_allocated;
    c.fault = c.is_freed     ? block_fault_kind::none
              : is_allocated ? block_fault_kind::double_free
                             : block_fault_kind::use_after_free;
}

/// Sets `c.fault` if the program wrote into a freed block.
inline ORCHARD_NOINLINE void check_freed(guarded_call& c) {
    if (c.is_freed && !is_filled(c.at, 0, c.end_of_freed(), freed_byte)) {
        c.fault = block_fault_kind::use_after_free;
    }
}

}  // namespace orchard::device
