// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The chunk store: the memory of chunks that were freed, kept in one piece for the next chunk of about the same
/// length.
///
/// In the segment cache, the segments of a chunk and its tail are separate. A search must put them together again, and
/// a request that takes only the segments leaves a tail that fits no other chunk. A program that frees its blocks
/// usually asks for blocks of the same sizes again, and finds them here by three dependent accesses.
///
///     class of the length     summary       rows of 32 slots
///     12 to 13 leaves         0...0101      row 0: | 4096 x 12 | 0 | ...      a slot: 0, or first leaf and length
///     14 to 15 leaves         0...0000      row 1: | 0 | 0 | ...
///     16 to 19 leaves         0...0010      row 2: | 0 | 512 x 13 | ...
///     ...
///
/// There are four classes for each doubling of the length, and a summary with one bit for each row. The atomic on the
/// slot orders the memory's uses:
///
///     put      level += leaves    count += 1    0 -> chunk in a slot (release)    OR into the summary (release)
///     take     count -= 1    chunk -> 0 (acquire)    level -= leaves
///     tidy     AND on the summary (acquire)    loads of the row, and OR into the summary again if a slot is not 0
///
/// The count of a class is a hint. A put first tries the slot of that number, modulo the slots of the class. A take
/// first looks at the slot below. Groups that take at the same time thus begin at different slots, and the last of them
/// need not search. Nothing depends on the count, which may be wrong (`find_last`). If the slot is in use, the put
/// tries others at random. If the slot's row has no chunk that fits, the take searches the rows that the summary names.
///
/// The rules for levels and summary bits are those of the segment cache (segment_cache.cuh), and hold for the same
/// reasons. A request takes a chunk of up to an eighth more than it needs; the chunk keeps its length when it is freed
/// again. Of the chunks in a row, a request takes one that is closest to it. The store holds at most a quarter of the
/// memory that the heap may commit. What does not fit, and everything before a reclaim, `trim` and `validate`, goes to
/// the segment cache (`spill`).

#include "device/group/leader.cuh"
#include "device/segments/segment_cache.cuh"

namespace orchard::device {

/// A chunk in the store. It has a tail alone if it is shorter than a segment; otherwise it begins with a segment.
struct stored_chunk {
    std::uint32_t first;   ///< its first leaf, counted from the heap's
    std::uint32_t leaves;  ///< its length, 1 to `max_leaves`

    static constexpr std::uint32_t max_leaves = (1u << chunk_store::log_max_leaves) - 1;

    [[nodiscard]] ORCHARD_INLINE std::uint64_t pack() const { return std::uint64_t{leaves} << 32 | first; }
    static ORCHARD_INLINE stored_chunk unpack(std::uint64_t word) {
        return {static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(word >> 32)};
    }
    /// Returns whether the chunk can serve a request for `wanted` leaves: the same kind, and not too long.
    [[nodiscard]] ORCHARD_INLINE bool fits(std::uint32_t wanted) const {
        return leaves >= wanted && leaves * 8 <= wanted * 9 &&
               (leaves < leaves_per_segment) == (wanted < leaves_per_segment);
    }
    /// Returns the class of a length: the exponent of its highest bit, and the two bits below that one. 13 is 1101 in
    /// binary: class 3 * 4 + 2.
    static ORCHARD_INLINE std::uint32_t class_of(std::uint32_t leaves) {
        const auto exponent = static_cast<std::uint32_t>(simt::highest_bit(leaves));
        return exponent * 4 + (leaves * 4 >> exponent & 3);
    }
};

/// Returns the row of a slot's number, which counts the slots of a class, modulo their number.
ORCHARD_INLINE std::uint32_t row_of_slot(const heap_view& h, std::uint32_t slot) {
    return slot / chunk_store::slots_in_row & (h.stored_rows - 1);
}
/// Returns the first slot of a row.
ORCHARD_INLINE device_word<std::uint64_t>* stored_row(const heap_view& h, std::uint32_t of_class, std::uint32_t row) {
    return h.stored + (std::uint64_t{of_class} * h.stored_rows + row) * chunk_store::slots_in_row;
}

/// The memory of a chunk on its way into the segment cache, in phases that need few registers each
/// (host_rpc/client.cuh says why). One lane calls each phase alone.
struct chunk_pieces {
    const heap_view& h;
    std::uint32_t first = 0;   ///< the first leaf of the chunk; after `split`, of its tail
    std::uint32_t leaves = 0;  ///< length of the chunk; after `split`, of its tail
    segment_run run{};         ///< its segments, after `split`
    std::uint32_t slot = 0;    ///< `store_chunk`: the slot that is tried, modulo the slots of the class
    std::uint32_t attempts = 0;
};

/// Separates the segments from the tail.
inline ORCHARD_NOINLINE void split(chunk_pieces& c) {
    c.run = {segment_index{c.first / leaves_per_segment}, c.leaves / leaves_per_segment};
    c.first += c.run.count * leaves_per_segment;
    c.leaves %= leaves_per_segment;
}
inline ORCHARD_NOINLINE void clear_line_of(const chunk_pieces& c) { clear_line_of(c.h, c.first); }

/// Puts a chunk into the segment cache: its segments, then its tail. It releases the caller's writes to the memory. It
/// may wait for a lane that clears the same line (`clear_line_of`). The tail comes last, because a search for segments
/// with a tail starts from tails (`look_before_tail`): a group that sees this tail usually sees the segments before it,
/// too.
ORCHARD_INLINE void put_pieces(chunk_pieces& c) {
    split(c);
    if (c.run.count != 0) {
        cache_put_all(c.h, c.run);
    }
    if (c.leaves != 0) {
        clear_line_of(c);
        portion_put(c.h, c.first, c.leaves);
    }
}

/// Returns whether the store may take the chunk, and counts it if so. Cost: a load and an atomic whose result is not
/// used.
inline ORCHARD_NOINLINE bool reserve_room(chunk_pieces& c) {
    const std::uint64_t most = std::uint64_t{c.h.max_slabs} * leaves_per_segment / chunk_store::share;
    auto& level = c.h.state->stored_leaves.word;
    if (c.h.stored_rows == 0 || c.leaves > stored_chunk::max_leaves ||
        not_negative(level.load<order::relaxed>()) + std::uint64_t{c.leaves} > most) {
        return false;
    }
    level.fetch_add<order::relaxed>(c.leaves);
    return true;
}

/// Returns the slot that a put tries first, which is the class's count, and raises the count. One lane calls it alone.
/// Cost: an atomic.
inline ORCHARD_NOINLINE std::uint32_t next_slot(const chunk_pieces& c) {
    return static_cast<std::uint32_t>(
        c.h.state->stored_count[stored_chunk::class_of(c.leaves)].word.fetch_add<order::relaxed>(1));
}

/// Returns whether the chunk is in a slot now; tries slot `c.slot` of its class. Cost: an atomic.
inline ORCHARD_NOINLINE bool fill_slot(chunk_pieces& c) {
    const std::uint32_t row = row_of_slot(c.h, c.slot);
    auto& slot = stored_row(c.h, stored_chunk::class_of(c.leaves), row)[c.slot % chunk_store::slots_in_row];
    std::uint64_t found = 0;
    simt::mutation::weaken_next(fault::store_order);
    return slot.compare_exchange<order::release>(found, stored_chunk{c.first, c.leaves}.pack());
}

/// Sets the summary bit of the row in which the chunk is now.
inline ORCHARD_NOINLINE void mark_row(const chunk_pieces& c) {
    const std::uint32_t row = row_of_slot(c.h, c.slot);
    c.h.state->stored_summary[stored_chunk::class_of(c.leaves)].word.fetch_or<order::release>(std::uint64_t{1} << row);
}
inline ORCHARD_NOINLINE void give_room_back(const chunk_pieces& c) {
    c.h.state->stored_leaves.word.fetch_sub<order::relaxed>(c.leaves);
}

/// Puts a chunk into the store, and returns whether it has a place there. One lane calls it alone; it releases the
/// caller's writes to the memory. Cost: a load, four atomics, of which the results of two are used, and one more for
/// each slot that was in use.
ORCHARD_INLINE bool store_chunk(chunk_pieces& c) {
    if (!reserve_room(c)) {
        return false;
    }
    c.slot = next_slot(c);
    ORCHARD_NO_UNROLL
    for (c.attempts = 4; c.attempts != 0; --c.attempts) {
        if (simt::mutation::is(fault::store_mark)) {
            mark_row(c);
        }
        if (fill_slot(c)) {
            if (!simt::mutation::is(fault::store_mark)) {
                mark_row(c);
            }
            return true;
        }
        c.slot = mix(c.slot + (c.first ^ simt::noise() << 8));
    }
    give_room_back(c);
    return false;
}

/// A search of the store by a group. All lanes keep the same values, unless a comment names this lane.
struct store_search {
    const heap_view& h;
    lane_mask mask;
    std::uint32_t wanted;      ///< leaves
    stored_chunk* got;         ///< the result
    std::uint32_t of_class;    ///< the class searched
    std::uint64_t rows = 0;    ///< its rows that are left to be searched
    std::uint32_t row = 0;     ///< the row that is searched
    std::uint32_t turn = 0;    ///< and the number of its slots that the group passes over at first: random
    std::uint32_t slot = 0;    ///< this lane's slot with a chunk that fits
    std::uint64_t word = 0;    ///< and its word; 0: none
    lane_mask candidates = 0;  ///< lanes with the closest of these chunks
    bool is_empty = true;      ///< this lane saw no chunk in the row
    bool cleared = false;      ///< the group has cleared the row's summary bit before this look
    bool again = false;        ///< the group looks at the row again
    std::uint32_t looked = 0;  ///< number of rows of the class in which there were chunks, but none to be taken
};

/// Returns whether the row that the class's count names may hold a chunk, and lowers the count. Begins the search of
/// the class: sets `s.row` and `s.turn` to the slot below the count, and `s.rows` to the other rows. All lanes of the
/// group call it. Cost: a load and an atomic, which do not wait for each other.
///
/// The count drifts from the number of chunks: puts that find no slot raise it, takes that find nothing lower it, and
/// takes out of the class above leave that one's count as it is. That costs a take at most the look at one row, and the
/// next put begins at the count, whatever it is.
inline ORCHARD_NOINLINE bool find_last(store_search& s) {
    std::uint64_t rows = 0;
    std::uint32_t slot = 0;
    if (is_leader(s.mask)) {
        rows = s.h.state->stored_summary[s.of_class].word.load<order::relaxed>();
        slot = static_cast<std::uint32_t>(s.h.state->stored_count[s.of_class].word.fetch_sub<order::relaxed>(1)) - 1;
    }
    rows = from_leader(s.mask, rows);
    slot = from_leader(s.mask, slot);
    s.row = row_of_slot(s.h, slot);
    s.turn = slot % chunk_store::slots_in_row;
    s.rows = rows & ~(std::uint64_t{1} << s.row);
    return s.rows != rows;
}

/// Begins the search of class `s.of_class`: sets `s.rows`. All lanes of the group call it. Cost: a load.
ORCHARD_INLINE void begin_class(store_search& s) {
    s.rows = s.of_class < chunk_store::classes
                 ? from_leader(s.mask, s.h.state->stored_summary[s.of_class].word.load<order::relaxed>())
                 : 0;
}

/// Chooses the next row, at random, so that groups that search at the same time meet seldom; goes on to the next class
/// behind the last row, and behind the second that has other chunks. Returns false if there is none. All lanes of the
/// group call it. Cost: a load for the next class.
inline ORCHARD_NOINLINE bool find_row(store_search& s) {
    constexpr std::uint32_t max_looked = 2;
    if ((s.rows == 0 || s.looked == max_looked) && s.of_class == stored_chunk::class_of(s.wanted)) {
        ++s.of_class;
        s.looked = 0;
        begin_class(s);
    }
    if (s.rows == 0 || s.looked == max_looked) {
        return false;
    }
    s.turn = from_leader(s.mask, mix(simt::noise() ^ s.wanted)) % 64;
    const std::uint64_t turned = s.rows >> s.turn | s.rows << (63 - s.turn) << 1;
    s.row = (static_cast<std::uint32_t>(simt::lowest_bit(turned)) + s.turn) % 64;
    s.rows &= ~(std::uint64_t{1} << s.row);
    return true;
}

/// Returns how closely the chunk that this lane saw fits: 16 less the surplus in 64ths of what is wanted, which is 8 at
/// least; 0 if it saw none. Without it, short requests would take long chunks, and long requests would find none.
/// Chunks within the same 64th count as equal, so that groups that look at one row at the same time want different
/// chunks of it. No memory access.
ORCHARD_INLINE std::uint32_t closeness(const store_search& s) {
    return s.word == 0 ? 0 : 16 - (stored_chunk::unpack(s.word).leaves - s.wanted) * 64 / s.wanted;
}

/// Looks at the slots of the row, of which each lane looks at its part: sets `s.word` and `s.slot` to the first chunk
/// that fits, counted from slot `s.turn`, and `s.candidates` and `s.is_empty`. A lane stops once it has seen such a
/// chunk. All lanes of the group call it. Cost for a full warp: one load a lane; for a lane alone, up to 16 rounds of
/// two independent loads.
inline ORCHARD_NOINLINE void look_at_row(store_search& s) {
    constexpr std::uint32_t at_a_time = 2;
    device_word<std::uint64_t>* const row = stored_row(s.h, s.of_class, s.row);
    const auto step = static_cast<std::uint32_t>(simt::popcount(s.mask));
    s.word = 0;
    s.is_empty = true;
    ORCHARD_NO_UNROLL
    for (auto i = static_cast<std::uint32_t>(simt::rank_in(s.mask)); i < chunk_store::slots_in_row && s.word == 0;
         i += at_a_time * step) {
        std::uint64_t found[at_a_time];
        for (std::uint32_t j = 0; j < at_a_time; ++j) {
            const std::uint32_t slot = (i + j * step + s.turn) % chunk_store::slots_in_row;
            found[j] = i + j * step < chunk_store::slots_in_row ? row[slot].load<order::relaxed>() : 0;
        }
        for (std::uint32_t j = 0; j < at_a_time; ++j) {
            s.is_empty = s.is_empty && found[j] == 0;
            if (s.word == 0 && found[j] != 0 && stored_chunk::unpack(found[j]).fits(s.wanted)) {
                s.word = found[j];
                s.slot = (i + j * step + s.turn) % chunk_store::slots_in_row;
            }
        }
    }
    const std::uint32_t own = closeness(s);
    const std::uint32_t best = simt::reduce_max(s.mask, own);
    s.candidates = simt::ballot(s.mask, own != 0 && own == best);
}

/// Lets the first lane that saw one of the closest chunks take it, and returns whether it did: the chunk is then
/// `*s.got`, and is counted. All lanes of the group call it. Cost: two atomics, of which the result of one is used;
/// nothing if no lane saw one.
inline ORCHARD_NOINLINE bool try_chunk(const store_search& s) {
    if (s.candidates == 0) {
        return false;
    }
    const int lane = simt::lowest_bit(s.candidates);
    bool taken = false;
    if (simt::lane_id() == lane) {
        std::uint64_t expected = s.word;
        // Acquire: pairs with the release in `fill_slot`.
        taken = stored_row(s.h, s.of_class, s.row)[s.slot].compare_exchange<order::acquire>(expected, std::uint64_t{0});
        if (taken) {
            s.h.state->stored_leaves.word.fetch_sub<order::relaxed>(stored_chunk::unpack(s.word).leaves);
        }
    }
    if (simt::ballot(s.mask, taken) == 0) {
        return false;
    }
    *s.got = stored_chunk::unpack(simt::shuffle(s.mask, s.word, lane));
    return true;
}

/// Decides whether the group looks at the row again, `s.again`. All lanes of the group call it after each look. Cost: a
/// vote; an atomic for an empty row.
///
/// - A lane sees a chunk that fits. If another group takes that chunk first, there may be more: a lane that looks at
///   several slots remembers one.
/// - No lane sees any chunk: the summary bit of the row is cleared. If the next look sees one, the bit is set again. If
///   another group had cleared the bit before, that group looks again. Rows that other groups have cleared meanwhile
///   are passed over.
inline ORCHARD_NOINLINE void settle_row(store_search& s) {
    const bool is_empty = simt::ballot(s.mask, !s.is_empty) == 0;
    const bool restores = !is_empty && s.cleared && !simt::mutation::is(fault::store_tidy);
    auto& summary = s.h.state->stored_summary[s.of_class].word;
    const std::uint64_t bit = std::uint64_t{1} << s.row;
    std::uint64_t before = 0;
    if (is_empty && !s.cleared && is_leader(s.mask)) {
        // Acquire: pairs with the release of the OR that set the bit; the next look then sees its chunk.
        before = summary.fetch_and<order::acquire>(~bit);
    }
    if (restores && is_leader(s.mask)) {
        summary.fetch_or<order::release>(bit);
    }
    simt::sync(s.mask);
    if (is_empty && !s.cleared) {
        before = from_leader(s.mask, before);
        s.rows &= before;
    }
    s.cleared = (before & bit) != 0;
    s.looked += !is_empty && s.candidates == 0 ? 1 : 0;
    s.again = s.cleared || (s.candidates != 0 && !simt::mutation::is(fault::store_again));
}

/// Returns whether the group took a chunk that fits out of row `s.row`. All lanes of the group call it. Cost: usually a
/// load and an atomic.
ORCHARD_INLINE bool take_of_row(store_search& s) {
    ORCHARD_NO_UNROLL
    do {
        look_at_row(s);
        settle_row(s);
        if (try_chunk(s)) {
            return true;
        }
    } while (s.again);
    return false;
}

/// Takes a chunk of at least `wanted` leaves, and returns whether it found one: `*got`. All lanes of a converged group
/// call it. Its caller makes a barrier before other lanes than the one that took it use the memory. A class of many
/// rows that hold shorter chunks is left after two of them. Cost: usually an atomic, a load and an atomic, each of
/// which waits for the one before; an atomic and two loads if there is none.
inline ORCHARD_FN bool take_from_store(const heap_view& h, lane_mask mask, std::uint32_t wanted, stored_chunk* got) {
    if (h.stored_rows == 0 || wanted == 0 || wanted > stored_chunk::max_leaves) {
        return false;
    }
    store_search s{h, mask, wanted, got, stored_chunk::class_of(wanted)};
    if (find_last(s) && take_of_row(s)) {
        return true;
    }
    ORCHARD_NO_UNROLL
    while (find_row(s)) {
        if (take_of_row(s)) {
            return true;
        }
    }
    return false;
}

/// The move of all chunks into the segment cache by a group, of which each lane moves some.
struct store_spill {
    chunk_pieces moved;  ///< the chunk that this lane moves
    lane_mask mask;
    std::uint64_t rows = 0;  ///< rows of the class that are left
    std::uint32_t of_class = 0;
    std::uint32_t slot = 0;  ///< this lane's next slot of the row
};

/// Begins the next row, and returns whether there is one. All lanes of the group call it.
inline ORCHARD_NOINLINE bool next_row(store_spill& s) {
    s.rows &= s.rows - 1;
    ORCHARD_NO_UNROLL
    while (s.rows == 0 && s.of_class < chunk_store::classes) {
        s.rows = from_leader(s.mask, s.moved.h.state->stored_summary[s.of_class].word.load<order::relaxed>());
        ++s.of_class;
    }
    s.slot = static_cast<std::uint32_t>(simt::rank_in(s.mask));
    return s.rows != 0;
}

/// Returns the first slot of the row that is being emptied.
ORCHARD_INLINE device_word<std::uint64_t>* row_of(const store_spill& s) {
    return stored_row(s.moved.h, s.of_class - 1, static_cast<std::uint32_t>(simt::lowest_bit(s.rows)));
}

/// Takes the chunk in this lane's next slot, `s.moved`; returns false behind the last one. Each lane calls it for
/// itself.
inline ORCHARD_NOINLINE bool take_slot(store_spill& s) {
    device_word<std::uint64_t>* const row = row_of(s);
    s.moved.leaves = 0;
    ORCHARD_NO_UNROLL
    while (s.slot < chunk_store::slots_in_row && s.moved.leaves == 0) {
        // Acquire: pairs with the release in `store_chunk`.
        const stored_chunk c = stored_chunk::unpack(row[s.slot].exchange<order::acquire>(0));
        s.moved.first = c.first;
        s.moved.leaves = c.leaves;
        s.slot += static_cast<std::uint32_t>(simt::popcount(s.mask));
    }
    s.moved.h.state->stored_leaves.word.fetch_sub<order::relaxed>(s.moved.leaves);
    return s.moved.leaves != 0;
}

/// Clears the summary bit of the row that the group has emptied, and sets it again if there is a chunk since. All lanes
/// of the group call it. Otherwise each later search of the class would look at all rows that ever held chunks. The row
/// is emptied first, so that no other group takes a row with chunks for empty. Cost: an atomic and a load.
inline ORCHARD_NOINLINE void tidy_emptied(const store_spill& s) {
    auto& summary = s.moved.h.state->stored_summary[s.of_class - 1].word;
    const std::uint64_t bit = s.rows & (~s.rows + 1);
    simt::sync(s.mask);
    if (is_leader(s.mask)) {
        // Acquire: as in `settle_row`.
        summary.fetch_and<order::acquire>(~bit);
    }
    simt::sync(s.mask);
    bool some = false;
    ORCHARD_NO_UNROLL
    for (auto i = static_cast<std::uint32_t>(simt::rank_in(s.mask)); i < chunk_store::slots_in_row;
         i += static_cast<std::uint32_t>(simt::popcount(s.mask))) {
        some = some || row_of(s)[i].load<order::relaxed>() != 0;
    }
    const bool restores = simt::ballot(s.mask, some) != 0 && !simt::mutation::is(fault::spill_tidy);
    if (restores && is_leader(s.mask)) {
        summary.fetch_or<order::release>(bit);
    }
}

/// Returns whether the store holds a chunk. All lanes of the group call it.
inline ORCHARD_NOINLINE bool is_store_used(const store_spill& s) {
    const std::uint32_t level = not_negative(s.moved.h.state->stored_leaves.word.load<order::relaxed>());
    return from_leader(s.mask, level) != 0 && !simt::mutation::is(fault::store_spill);
}

/// Moves all chunks of the store into the segment cache, and ends with a barrier. All lanes of a converged group call
/// it. A chunk that another group puts meanwhile may stay. Cost: a load if there are none; otherwise a load for each
/// class, and for each row in use 32 atomics side by side, an atomic and a load.
inline ORCHARD_NOINLINE void spill(const heap_view& h, lane_mask mask) {
    store_spill s{{h}, mask};
    if (is_store_used(s)) {
        ORCHARD_NO_UNROLL
        while (next_row(s)) {
            ORCHARD_NO_UNROLL
            while (take_slot(s)) {
                put_pieces(s.moved);
            }
            if (!simt::mutation::is(fault::drain_sync)) {
                tidy_emptied(s);
            }
        }
    }
    if (!simt::mutation::is(fault::drain_sync)) {
        simt::sync(s.mask);
    }
}

}  // namespace orchard::device
