// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Blocks of a heap whose policy is `rw_malloc`: runs of units, told by where they begin and end.
///
///     units      |....|########|##|###############|....|
///     begins           1        1  1
///     ends                    1  1               1
///
/// The begin bit decides a free: the lane that clears it owns the block. So a block is freed once, and a pointer into
/// it is refused; in the flat pool (random_walk/rw_malloc.cuh), which has no such bits, it would free the block's tail.

#include "device/free_alone.cuh"
#include "device/published/published_spaces.cuh"
#include "device/published/rw_malloc.cuh"

namespace orchard::device {

/// Units of `unit` bytes for a block of so many bytes that can be aligned anywhere in them.
ORCHARD_INLINE std::uint32_t units_for(std::uint64_t unit, std::uint64_t bytes, std::uint64_t alignment) {
    const std::uint64_t slack = alignment > unit ? alignment - unit : 0;
    return static_cast<std::uint32_t>((bytes + slack + unit - 1) / unit);
}

/// Gives back `n` units from `first` on, which are the caller's and of one slab. Any lane, alone.
ORCHARD_INLINE void give_up_units(const random_walk::run_slab_space& s, random_walk::page_number first,
                                  std::uint32_t n) {
    const random_walk::page_place at = random_walk::place_of<std::uint64_t>(first);
    for (std::uint32_t k = 0; n != 0 && k < random_walk::run_words<std::uint64_t>(at.bit, n); ++k) {
        random_walk::give_up(s, at.word + k, random_walk::run_bits<std::uint64_t>(at.bit, n, k));
    }
}

/// Keeps of the `have` units from `first` on, whose end is marked, those for a block of `bytes` aligned to
/// `alignment`, and gives back the others. Any lane, alone. The first unit that is kept.
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
        // Relaxed, and before the units are given back, whose release covers it.
        s.ends(last.word).fetch_and<order::relaxed>(~ones<std::uint64_t>(1, last.bit));
        give_up_units(s, page_number{number + head + keep}, tail);
    }
    give_up_units(s, first, head);
    return page_number{number + head};
}

/// Marks where a block begins. Any lane, alone.
ORCHARD_INLINE void mark_begin(const random_walk::run_slab_space& s, random_walk::page_number first) {
    const random_walk::page_place at = random_walk::place_of<std::uint64_t>(first);
    // Relaxed, as in `mark_end`: the lane that frees was handed the block.
    s.begins(at.word).fetch_or<order::relaxed>(ones<std::uint64_t>(1, at.bit));
}

/// The block that begins at `p`, as its first unit; none where no slab of units, or no block, begins there.
inline ORCHARD_FN random_walk::page_number block_at(const heap_view& h, const random_walk::run_slab_space& s,
                                                    const void* p) {
    if (!h.owns(p)) {
        return random_walk::no_page;
    }
    // Relaxed: a lane that was handed the block knows of the slab, which cannot change while the block is not free.
    const std::uint64_t d =
        h.descriptors[(static_cast<const char*>(p) - h.base) >> segment_shift].load<order::relaxed>();
    return descriptor::kind(d) == segment_kind::slab ? s.unit_at(p) : random_walk::no_page;
}

/// Frees the block at `p`; false where none begins there. Any lane, alone; never waits.
/// Cost: three atomics, and one more for each further 64 units.
inline ORCHARD_NOINLINE bool free_block_of_units(const heap_view& h, const void* p) {
    const random_walk::run_slab_space s(h);
    const random_walk::page_number first = block_at(h, s, p);
    if (first == random_walk::no_page) {
        return false;
    }
    const random_walk::page_place at = random_walk::place_of<std::uint64_t>(first);
    const auto bit = ones<std::uint64_t>(1, at.bit);
    // Relaxed, and before the units are given back, whose release covers it. Of two frees at once only one finds it.
    return (s.begins(at.word).fetch_and<order::relaxed>(~bit) & bit) != 0 &&
           random_walk::rw_malloc::free_units(s, first);
}

/// Bytes of the block at `p`; 0 where none begins there. Cost: a load for each 64 units, and three.
inline ORCHARD_NOINLINE std::uint64_t block_bytes(const heap_view& h, const void* p) {
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
    // A block without an end is being freed.
    return end == 0
               ? 0
               : (std::uint64_t{word - at.word} * 64 + static_cast<std::uint32_t>(simt::lowest_bit(end)) + 1 - at.bit) *
                     s.unit_bytes();
}

/// Returns whether `p` lies in a slab of this heap.
inline ORCHARD_FN bool is_in_slab(const heap_view& h, const void* p) {
    if (!h.owns(p)) {
        return false;
    }
    const auto segment = static_cast<std::uint32_t>((static_cast<const char*>(p) - h.base) >> segment_shift);
    return descriptor::kind(h.descriptors[segment].load<order::acquire>()) == segment_kind::slab;
}

/// Frees a block where blocks are runs of units. Any lane, alone.
inline ORCHARD_NOINLINE void free_by_units(const heap_view& h, const void* p) {
    if (!free_block_of_units(h, p)) {
        free_other(h, p);
    }
}

}  // namespace orchard::device
