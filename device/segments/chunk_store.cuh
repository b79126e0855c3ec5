// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The chunk store: the memory of chunks that were freed, kept in one piece for the next chunk of about the same
/// length.
///
/// In the segment cache, the segments of a chunk and its tail are separate. A search must put them together again, and
/// a request that takes only the segments leaves a tail that fits no other chunk. A program that frees its blocks
/// usually asks for blocks of the same sizes again, and finds them here by two dependent accesses.
///
///     class of the length     count                  slots
///     12 leaves               unclaimed 2, held 2    | 4096 x 12 | 8256 x 12 | 0 | ...    a slot: 0, or first leaf
///     13 leaves               unclaimed 0, held 1    | 512 x 13 | 0 | ...                 and length
///     32 to 33 leaves         unclaimed 0, held 0    | 0 | 0 | ...
///     ...
///
/// There are 16 classes for each doubling of the length. A request for a new chunk is rounded up to the least length
/// of its class (`rounded`), so that any chunk of a class serves any request of it, and no search compares lengths.
/// Lengths up to 32 leaves stay as they are; longer ones grow by a sixteenth at most. A request that finds none in its
/// class may take one of the next two, if their least length is an eighth more at most.
///
/// The count of a class says how many chunks no request has claimed. A request claims one by an atomic; if there is
/// one, it usually lies in the slot below the count. The atomic on the slot orders the memory's uses:
///
///     put      level += leaves    count += 1    0 -> chunk in a slot (release)
///     take     count -= 1 (claim)    chunk -> 0 (acquire)    level -= leaves
///
/// Claims thus go to different slots, and only a claim that races with a put, or with puts that went elsewhere, has to
/// look at other slots (`take_near`). If it finds none there, it is given back. The class counts the chunks that it
/// holds apart from claims, so that a spill knows where chunks are while claims are under way.
///
/// The store holds about half of the memory that the heap may commit at most: groups that put at the same moment may
/// exceed it by their chunks. What does not fit, and everything before a reclaim, `trim` and `validate`, goes to the
/// segment cache (`spill`).

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
    /// Returns the class of a length. Below 32, each length has its own; above, the exponent of the highest bit and the
    /// four bits below that one decide: 44 and 45 are 10110x in binary, class 16 * (5 - 3) + 6.
    static ORCHARD_INLINE std::uint32_t class_of(std::uint32_t leaves) {
        if (leaves < 16) {
            return leaves;
        }
        const auto exponent = static_cast<std::uint32_t>(simt::highest_bit(leaves));
        return 16 * (exponent - 3) + (leaves >> (exponent - 4) & 15);
    }
    /// Returns the least length of a class that is not below `leaves`: 43 gives 44, 1,000 gives 1,024.
    static ORCHARD_INLINE std::uint32_t rounded(std::uint32_t leaves) {
        const std::uint32_t rest = leaves < 32 ? 0 : (1u << (simt::highest_bit(leaves) - 4)) - 1;
        return (leaves + rest) & ~rest;
    }
    /// Returns the last class whose chunks may serve a request of class `c`: they are of the same kind, and their least
    /// length is an eighth more at most than that of `c`.
    static ORCHARD_INLINE std::uint32_t last_class(std::uint32_t c) {
        const std::uint32_t last = c + (c < 8 ? 0 : c < 16 ? 1 : 2);
        const std::uint32_t most = (c < leaves_per_segment ? leaves_per_segment : chunk_store::classes) - 1;
        return last < most ? last : most;
    }
};

/// The count of a class, in one word. It may be read while groups are between two of their steps:
///
///     63               32 31              0
///     | unclaimed, signed | held           |
///
/// Negative: groups that found none to claim have not given their claims back. A chunk is counted as held from before
/// its put to after its take, so that `held` is never below the number of chunks in slots.
struct chunk_count {
    static constexpr std::uint64_t one_held = 1;
    static constexpr std::uint64_t one_unclaimed = std::uint64_t{1} << 32;
    static constexpr std::uint64_t chunk = one_held | one_unclaimed;  ///< what a put adds

    static ORCHARD_INLINE std::int32_t unclaimed(std::uint64_t word) { return static_cast<std::int32_t>(word >> 32); }
    static ORCHARD_INLINE std::uint32_t held(std::uint64_t word) { return static_cast<std::uint32_t>(word); }
};

/// Returns a slot of a class by its number, modulo their number.
ORCHARD_INLINE device_word<std::uint64_t>& stored_slot(const heap_view& h, std::uint32_t of_class, std::uint32_t slot) {
    const std::uint32_t slots = h.stored_rows * chunk_store::slots_in_row;
    return h.stored[std::uint64_t{of_class} * slots + (slot & (slots - 1))];
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

/// Returns the count of the chunk's class.
ORCHARD_INLINE device_word<std::uint64_t>& count_of(const chunk_pieces& c) {
    return c.h.state->stored_count[stored_chunk::class_of(c.leaves)].word;
}

/// Returns whether the store may take the chunk. If so, counts it, and sets `c.slot` to the slot that a put tries
/// first. Cost: a load and an atomic, which do not wait for each other, and an atomic whose result is not used.
inline ORCHARD_NOINLINE bool begin_put(chunk_pieces& c) {
    const std::uint32_t most = chunk_store::most_leaves(c.h.max_slabs);
    // A class without slots (`chunk_store::classes_for`) is never counted: a request would claim the chunk at once.
    if (c.h.stored_rows == 0 || c.leaves > stored_chunk::max_leaves || c.leaves > most) {
        return false;
    }
    auto& level = c.h.state->stored_leaves.word;
    const std::uint32_t before = not_negative(level.load<order::relaxed>());
    const std::int32_t unclaimed = chunk_count::unclaimed(count_of(c).fetch_add<order::relaxed>(chunk_count::chunk));
    if (before + c.leaves > most) {
        count_of(c).fetch_sub<order::relaxed>(chunk_count::chunk);
        return false;
    }
    level.fetch_add<order::relaxed>(c.leaves);
    // Negative: requests that found no chunk to claim have not given their claims back yet.
    c.slot = static_cast<std::uint32_t>(unclaimed < 0 ? 0 : unclaimed);
    return true;
}

/// Returns whether the chunk is in a slot now; tries slot `c.slot` of its class. Cost: an atomic.
inline ORCHARD_NOINLINE bool fill_slot(const chunk_pieces& c) {
    std::uint64_t found = 0;
    simt::mutation::weaken_next(fault::store_order);
    return stored_slot(c.h, stored_chunk::class_of(c.leaves), c.slot)
        .compare_exchange<order::release>(found, stored_chunk{c.first, c.leaves}.pack());
}

/// Undoes `begin_put`. Cost: two atomics whose results are not used.
inline ORCHARD_NOINLINE void end_put(const chunk_pieces& c) {
    c.h.state->stored_leaves.word.fetch_sub<order::relaxed>(c.leaves);
    count_of(c).fetch_sub<order::relaxed>(chunk_count::chunk);
}

/// Puts a chunk into the store, and returns whether it has a place there. One lane calls it alone; it releases the
/// caller's writes to the memory. If the slot that the count names is in use, it tries others that `take_near` looks
/// at: one of the same row, and two of the next. Cost: two atomics, of which the second waits for the first, and one
/// more for each slot that was in use.
ORCHARD_INLINE bool store_chunk(chunk_pieces& c) {
    if (!begin_put(c)) {
        return false;
    }
    ORCHARD_NO_UNROLL
    for (c.attempts = 0; c.attempts < 4; ++c.attempts) {
        if (fill_slot(c)) {
            return true;
        }
        const std::uint32_t row = c.slot / chunk_store::slots_in_row + (c.attempts == 1 ? 1 : 0);
        c.slot = row * chunk_store::slots_in_row + mix(c.slot ^ c.first ^ simt::noise()) % chunk_store::slots_in_row;
    }
    end_put(c);
    return false;
}

/// A search of the store by a group. All lanes keep the same values, unless a comment names this lane.
struct store_search {
    const heap_view& h;
    lane_mask mask;
    std::uint32_t of_class;    ///< the class searched
    std::uint32_t last;        ///< the last class to be searched
    bool claimed = false;      ///< the group has claimed a chunk of the class
    std::uint32_t slot = 0;    ///< the slot that a claim names; then the first of those that the group looks at
    std::uint64_t word = 0;    ///< the chunk taken; 0: none
    std::uint32_t seen = 0;    ///< a slot in which this lane saw a chunk
    lane_mask candidates = 0;  ///< lanes that saw one
    std::uint32_t looks = 0;   ///< looks left
};

/// Returns what this lane takes out of a slot of the class, a chunk or 0, and counts it as taken. One lane calls it
/// alone. Cost: an atomic, and two whose results are not used.
ORCHARD_INLINE std::uint64_t take_out_of(const store_search& s, std::uint32_t slot) {
    // Acquire: pairs with the release in `fill_slot`. The counts are lowered after it, and so after the put's.
    const std::uint64_t word = stored_slot(s.h, s.of_class, slot).exchange<order::acquire>(0);
    if (word != 0) {
        s.h.state->stored_count[s.of_class].word.fetch_sub<order::relaxed>(chunk_count::one_held);
        s.h.state->stored_leaves.word.fetch_sub<order::relaxed>(stored_chunk::unpack(word).leaves);
    }
    return word;
}

/// Claims a chunk of the class, and returns whether it is in the slot that the claim names: takes it then, `s.word`.
/// All lanes of the group call it. Sets `s.claimed`, and `s.slot`. Cost: an atomic, and another that waits for it; one
/// alone if there is none to be claimed.
inline ORCHARD_NOINLINE bool claim_chunk(store_search& s) {
    std::uint64_t word = 0;
    std::int32_t unclaimed = 0;
    if (is_leader(s.mask)) {
        auto& count = s.h.state->stored_count[s.of_class].word;
        unclaimed = chunk_count::unclaimed(count.fetch_sub<order::relaxed>(chunk_count::one_unclaimed));
        if (unclaimed > 0) {
            word = take_out_of(s, static_cast<std::uint32_t>(unclaimed) - 1);
        }
    }
    unclaimed = from_leader(s.mask, unclaimed);
    s.claimed = unclaimed > 0;
    s.slot = static_cast<std::uint32_t>(unclaimed) - 1;
    s.word = s.claimed ? from_leader(s.mask, word) : 0;
    return s.word != 0;
}

/// Looks at the slots of two rows from `s.slot` on, of which each lane looks at its part: sets `s.seen` and
/// `s.candidates`. All lanes of the group call it. Cost for a full warp: two independent loads a lane; for a lane
/// alone, up to 32 rounds of two.
inline ORCHARD_NOINLINE void look_near(store_search& s) {
    constexpr std::uint32_t at_a_time = 2;
    constexpr std::uint32_t slots = 2 * chunk_store::slots_in_row;
    const auto step = static_cast<std::uint32_t>(simt::popcount(s.mask));
    bool found = false;
    ORCHARD_NO_UNROLL
    for (auto i = static_cast<std::uint32_t>(simt::rank_in(s.mask)); i < slots && !found; i += at_a_time * step) {
        std::uint64_t words[at_a_time];
        for (std::uint32_t j = 0; j < at_a_time; ++j) {
            words[j] = stored_slot(s.h, s.of_class, s.slot + i + j * step).load<order::relaxed>();
        }
        for (std::uint32_t j = 0; j < at_a_time; ++j) {
            if (!found && words[j] != 0) {
                found = true;
                s.seen = s.slot + i + j * step;
            }
        }
    }
    s.candidates = simt::ballot(s.mask, found);
}

/// Lets one lane that saw a chunk take what is in its slot, and returns whether there was one: `s.word`. All lanes of
/// the group call it. Cost: an atomic. Groups that see the same chunks begin with different lanes.
inline ORCHARD_NOINLINE bool take_seen(store_search& s) {
    const auto turn = from_leader(s.mask, simt::noise()) % simt::warp_size;
    const lane_mask above = s.candidates >> turn << turn;
    const int lane = simt::lowest_bit(above != 0 ? above : s.candidates);
    std::uint64_t word = 0;
    if (simt::lane_id() == lane) {
        word = take_out_of(s, s.seen);
    }
    s.word = simt::shuffle(s.mask, word, lane);
    return s.word != 0;
}

/// Returns whether the group took another chunk of its class than the one that its claim named: `s.word`. All lanes of
/// the group call it, after a claim whose slot was empty. It looks at the row of the slot and the next one, where puts
/// go that find their slot in use, and then at three pairs of rows at random. A look at which other groups took what
/// this one saw does not count: each time, another group got a chunk.
ORCHARD_INLINE bool take_near(store_search& s) {
    s.slot &= ~(chunk_store::slots_in_row - 1);
    s.looks = 4;
    ORCHARD_NO_UNROLL
    do {
        look_near(s);
        if (s.candidates == 0) {
            s.slot = from_leader(s.mask, mix(simt::noise() ^ s.slot));
            --s.looks;
        } else if (take_seen(s)) {
            return true;
        }
    } while (s.looks != 0 && !(s.candidates != 0 && simt::mutation::is(fault::store_again)));
    return false;
}

/// Gives the claim back if the group has no chunk. All lanes of the group call it. Cost: an atomic whose result is not
/// used, or nothing.
ORCHARD_INLINE void end_claim(const store_search& s) {
    if (s.word == 0 && is_leader(s.mask) && !simt::mutation::is(fault::store_claim)) {
        s.h.state->stored_count[s.of_class].word.fetch_add<order::relaxed>(chunk_count::one_unclaimed);
    }
}

/// Returns whether the group took a chunk of the class: `s.word`. All lanes of the group call it.
ORCHARD_INLINE bool take_of_class(store_search& s) {
    const bool taken = claim_chunk(s) || (s.claimed && take_near(s));
    end_claim(s);
    return taken;
}

/// Takes a chunk of at least `wanted` leaves, and returns whether it found one: `*got`. All lanes of a converged group
/// call it. Its caller makes a barrier before other lanes than the one that took it use the memory. Cost: usually two
/// atomics, the second of which waits for the first, and two whose results are not used; an atomic for each of up to
/// three classes if there is none.
inline ORCHARD_NOINLINE bool take_from_store(const heap_view& h, lane_mask mask, std::uint32_t wanted,
                                             stored_chunk* got) {
    const std::uint32_t least = stored_chunk::rounded(wanted);
    if (h.stored_rows == 0 || wanted == 0 || least > stored_chunk::max_leaves) {
        return false;
    }
    const std::uint32_t first = stored_chunk::class_of(least);
    store_search s{h, mask, first, stored_chunk::last_class(first)};
    ORCHARD_NO_UNROLL
    while (!take_of_class(s) && s.of_class != s.last) {
        ++s.of_class;
    }
    *got = stored_chunk::unpack(s.word);
    return s.word != 0;
}

/// The move of all chunks into the segment cache by a group, of which each lane moves some.
struct store_spill {
    chunk_pieces moved;  ///< the chunk that this lane moves
    lane_mask mask;
    std::uint32_t of_class = 0;  ///< the class that is being emptied; at first, the first of those to be looked at
    std::uint32_t slot = 0;      ///< this lane's next slot of the class
    std::uint32_t end = 0;       ///< end of the row that is being emptied
};

/// Returns the number of chunks that a class holds, with those that requests are about to take.
ORCHARD_INLINE std::uint32_t held_in(const store_spill& s, std::uint32_t of_class) {
    return chunk_count::held(s.moved.h.state->stored_count[of_class].word.load<order::relaxed>());
}

/// Goes to the next class that holds a chunk, from `s.of_class` on, and returns whether there is one. All lanes of the
/// group call it. Cost: a load a lane for as many classes as the group has lanes.
inline ORCHARD_NOINLINE bool next_class(store_spill& s) {
    lane_mask some = 0;
    std::uint32_t own = s.of_class + static_cast<std::uint32_t>(simt::rank_in(s.mask));
    const auto step = static_cast<std::uint32_t>(simt::popcount(s.mask));
    ORCHARD_NO_UNROLL
    while (some == 0 && s.of_class < chunk_store::classes) {
        some = simt::ballot(s.mask, own < chunk_store::classes && held_in(s, own) != 0);
        s.of_class += step;
        own += step;
    }
    if (some == 0) {
        return false;
    }
    s.of_class = simt::shuffle(s.mask, own - step, simt::lowest_bit(some));
    s.slot = static_cast<std::uint32_t>(simt::rank_in(s.mask));
    s.end = 0;
    return true;
}

/// Goes to the next row of the class, and returns whether there is one and the class still holds a chunk. All lanes of
/// the group call it. Cost: a load.
inline ORCHARD_NOINLINE bool next_row(store_spill& s) {
    s.end += chunk_store::slots_in_row;
    const bool more = s.end <= s.moved.h.stored_rows * chunk_store::slots_in_row;
    return from_leader(s.mask, more && held_in(s, s.of_class) != 0 ? 1u : 0u) != 0;
}

/// Takes the chunk in this lane's next slot of the row, if there is one: `s.moved`; returns false behind the last one.
/// Each lane calls it for itself. Cost: an atomic for each slot, and two more for a chunk.
inline ORCHARD_NOINLINE bool take_slot(store_spill& s) {
    s.moved.leaves = 0;
    ORCHARD_NO_UNROLL
    while (s.slot < s.end && s.moved.leaves == 0) {
        // Acquire: pairs with the release in `fill_slot`.
        const stored_chunk c =
            stored_chunk::unpack(stored_slot(s.moved.h, s.of_class, s.slot).exchange<order::acquire>(0));
        s.moved.first = c.first;
        s.moved.leaves = c.leaves;
        s.slot += static_cast<std::uint32_t>(simt::popcount(s.mask));
    }
    if (s.moved.leaves == 0) {
        return false;
    }
    end_put(s.moved);
    return true;
}

/// Returns whether the store holds a chunk, and orders the group's lanes after its leader. All lanes of the group call
/// it. Cost: a load and a barrier.
inline ORCHARD_NOINLINE bool is_store_used(const store_spill& s) {
    const std::uint32_t level = not_negative(s.moved.h.state->stored_leaves.word.load<order::relaxed>());
    simt::sync(s.mask);
    return from_leader(s.mask, level) != 0 && !simt::mutation::is(fault::store_spill);
}

/// Moves all chunks of the store into the segment cache, and ends with a barrier. All lanes of a converged group call
/// it. A chunk that another group puts meanwhile may stay. A request that has claimed a chunk may find it gone. Cost: a
/// load if there are none; otherwise a load for each class, and for each row 32 atomics side by side and a load, from
/// the first row to the last that is in use.
inline ORCHARD_NOINLINE void spill(const heap_view& h, lane_mask mask) {
    store_spill s{{h}, mask};
    if (is_store_used(s)) {
        ORCHARD_NO_UNROLL
        while (next_class(s)) {
            ORCHARD_NO_UNROLL
            while (next_row(s)) {
                ORCHARD_NO_UNROLL
                while (take_slot(s)) {
                    put_pieces(s.moved);
                }
            }
            ++s.of_class;
        }
    }
    if (!simt::mutation::is(fault::drain_sync)) {
        simt::sync(s.mask);
    }
}

}  // namespace orchard::device
