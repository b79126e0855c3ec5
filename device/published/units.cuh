// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Blocks of a heap whose policy is `rw_malloc`: runs of units, with marks where they begin and end.
///
///     units      |....|########|##|###############|....|
///     begins           1        1  1
///     ends                    1  1               1
///
///     allocation   claim the used bits -> end bit -> begin bit
///     free         clear the begin bit -> end bit -> used bits
///
/// The begin bit decides a free: the lane that clears it owns the block. A block is thus freed only once, and a pointer
/// into a block is rejected. In the flat pool (rw_malloc.cuh), which has no begin bits, such a pointer would free the
/// block's tail. The used bits are set first and cleared last, so that marks never stand at units of another block.

#include "device/free_alone.cuh"
#include "device/published/published_spaces.cuh"
#include "device/published/rw_malloc.cuh"

namespace orchard::device {

/// Returns the number of units of `unit` bytes in which a block of `bytes` fits with any `alignment`. Units begin at
/// multiples of their size, so that at most `alignment` - `unit` bytes precede the block. 100 B aligned to 256 B in
/// units of 64 B: (100 + 192 + 63) / 64 = 5 units.
ORCHARD_INLINE std::uint32_t units_for(std::uint64_t unit, std::uint64_t bytes, std::uint64_t alignment) {
    const std::uint64_t slack = alignment > unit ? alignment - unit : 0;
    return static_cast<std::uint32_t>((bytes + slack + unit - 1) / unit);
}

/// Gives back `n` units from `first` on, which the caller owns and which lie in one slab. Their marks are gone or were
/// never set. One lane calls it alone. Cost: one atomic for each 64 units.
ORCHARD_INLINE void give_up_units(const random_walk::run_slab_space& s, random_walk::page_number first,
                                  std::uint32_t n) {
    const random_walk::page_place at = random_walk::place_of<std::uint64_t>(first);
    for (std::uint32_t k = 0; n != 0 && k < random_walk::run_words<std::uint64_t>(at.bit, n); ++k) {
        random_walk::give_up(s, at.word + k, random_walk::run_bits<std::uint64_t>(at.bit, n, k));
    }
}

/// Trims the `have` units from `first` on, whose end is marked, to those that a block of `bytes` aligned to `alignment`
/// needs; gives back the others. Returns the first unit kept. One lane calls it alone. Cost: up to four atomics for
/// short runs.
///
///     have    |..|..|..|##|##|       5 units of 64 B, the first one 64 B above a multiple of 256 B
///              head = 3  keep = 2    tail = 0: the end mark stays; the 3 units of the head are given back
///     have    |##|##|..|..|..|       the first one at a multiple of 256 B
///              keep = 2   tail = 3   the end mark moves from unit 4 to unit 1; the tail is given back
inline ORCHARD_NOINLINE random_walk::page_number trim_units(const random_walk::run_slab_space& s,
                                                            random_walk::page_number first, std::uint32_t have,
                                                            std::uint64_t bytes, std::uint64_t alignment) {
    using random_walk::page_number;
    const auto at = reinterpret_cast<std::uintptr_t>(s.address(first));
    const auto head = static_cast<std::uint32_t>(((at + alignment - 1) / alignment * alignment - at) / s.unit_bytes());
    const std::uint32_t keep = units_for(s.unit_bytes(), bytes, 0);
    const std::uint32_t tail = have - head - keep;
    const auto number = static_cast<std::uint64_t>(first);
    if (tail != 0) {
        random_walk::rw_malloc::mark_end(s, page_number{number + head + keep - 1});
        const random_walk::page_place last = random_walk::place_of<std::uint64_t>(page_number{number + have - 1});
        // Relaxed: this comes before the units are given back, whose release covers it.
        s.ends(last.word).fetch_and<order::relaxed>(~ones<std::uint64_t>(1, last.bit));
        give_up_units(s, page_number{number + head + keep}, tail);
    }
    give_up_units(s, first, head);
    return page_number{number + head};
}

/// Marks where a block begins: the block can be freed from now on. One lane calls it alone. Cost: one atomic whose
/// result is not used.
ORCHARD_INLINE void mark_begin(const random_walk::run_slab_space& s, random_walk::page_number first) {
    const random_walk::page_place at = random_walk::place_of<std::uint64_t>(first);
    // Relaxed, as in `mark_end`: the lane that frees got the block from this lane.
    s.begins(at.word).fetch_or<order::relaxed>(ones<std::uint64_t>(1, at.bit));
}

/// Returns the first unit of the block at `p`; none if `p` lies in no slab, or at no begin of a unit. Whether a block
/// begins there is not checked. Cost: one load.
inline ORCHARD_FN random_walk::page_number block_at(const published_view& h, const random_walk::run_slab_space& s,
                                                    const void* p) {
    if (!h.owns(p)) {
        return random_walk::no_page;
    }
    // Relaxed: a lane that got the block knows of the slab, which cannot change while the block is in use.
    const std::uint64_t d = h.descriptor(h.segment_of(p)).load<order::relaxed>();
    return descriptor::kind(d) == segment_kind::slab ? s.unit_at(p) : random_walk::no_page;
}

/// Frees the block at `p`; returns false if none begins there, or if another lane is freeing it. One lane calls it
/// alone; it never waits. Cost: three atomics, and one more for each further 64 units; one load of a descriptor, two
/// for each 64 units.
inline ORCHARD_NOINLINE bool free_block_of_units(const published_view& h, const void* p) {
    const random_walk::run_slab_space s(h);
    const random_walk::page_number first = block_at(h, s, p);
    if (first == random_walk::no_page) {
        return false;
    }
    const random_walk::page_place at = random_walk::place_of<std::uint64_t>(first);
    const auto bit = ones<std::uint64_t>(1, at.bit);
    // Relaxed: this comes before the units are given back, whose release covers it. If two lanes free the same block,
    // only one of them finds the bit.
    return (s.begins(at.word).fetch_and<order::relaxed>(~bit) & bit) != 0 &&
           random_walk::rw_malloc::free_units(s, first);
}

/// Returns the size of the block at `p` in bytes, a multiple of the unit; 0 if none begins there. One lane calls it
/// alone. Cost: three loads, and one for each further 64 units.
///
/// Relaxed: a caller that owns the block is ordered after its marks. For any other pointer, the result is a snapshot.
inline ORCHARD_NOINLINE std::uint64_t block_bytes(const published_view& h, const void* p) {
    const random_walk::run_slab_space s(h);
    const random_walk::page_number first = block_at(h, s, p);
    if (first == random_walk::no_page) {
        return 0;
    }
    const random_walk::page_place at = random_walk::place_of<std::uint64_t>(first);
    if ((s.begins(at.word).load<order::relaxed>() >> at.bit & 1) == 0) {
        return 0;
    }
    std::uint64_t end = s.ends(at.word).load<order::relaxed>() & ~ones<std::uint64_t>(at.bit);
    std::uint32_t word = at.word;
    while (end == 0 && s.joins(word)) {
        end = s.ends(++word).load<order::relaxed>();
    }
    // A block without an end bit is being freed.
    return end == 0
               ? 0
               : (std::uint64_t{word - at.word} * 64 + static_cast<std::uint32_t>(simt::lowest_bit(end)) + 1 - at.bit) *
                     s.unit_bytes();
}

/// Returns whether `p` lies in a slab of this heap. If so, it can only be a block of units; if not, a block of a chunk.
/// Cost: one load.
inline ORCHARD_FN bool is_in_slab(const published_view& h, const void* p) {
    if (!h.owns(p)) {
        return false;
    }
    const std::uint32_t segment = h.segment_of(p);
    // Acquire: pairs with the release in `slab_publish`.
    return descriptor::kind(h.descriptor(segment).load<order::acquire>()) == segment_kind::slab;
}

/// Frees a block of a heap whose blocks are runs of units, or of a chunk if `p` is no such block. Any other pointer is
/// recorded as an invalid free. One lane calls it alone.
inline ORCHARD_NOINLINE void free_by_units(const published_view& h, const void* p) {
    if (!free_block_of_units(h, p)) {
        free_other(h, p);
    }
}

}  // namespace orchard::device
