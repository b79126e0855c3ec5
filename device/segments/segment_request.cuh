// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The states of groups that get segments (`segment_request`), reclaim them (`reclaim_state`), or look after the
/// segment cache (`cache_upkeep`), and what their phases share: the completion that puts late grants into the segment
/// cache, and the return of segments and portions to the host.
///
///     segment cache --take_cached--> d.run, d.leaf                          the group's own need
///                   --take_surplus, take_surplus_portion--> d.run           what exceeds the level
///                                                             |
///                                     hand_back: prepare_return -> try_post -> end_return
///                                                                                | no slot was free
///     segment cache <--put_back--------------------------------------------------+
///
/// A run is encoded in `d.run` as a request encodes it (mailbox::request): {first, count} with count up to 64 for
/// segments, {segment, portion_at + leaf} for a portion, where `portion_at` is 224. The portion at leaf 5 of segment 70
/// is {70, 229}.

#include <new>
#include <type_traits>

#include "device/host_rpc/post.cuh"
#include "device/segments/search.cuh"
#include "device/state/slab.cuh"

namespace orchard::device {

/// Raises the end of granted segments (`granted_end`) to the end of `g`, so that searches of the segment cache reach
/// that far. One lane calls it alone. Cost: an atomic whose result is not used. Relaxed: a search that reads an old end
/// misses memory that was granted a moment ago, and asks the host.
ORCHARD_INLINE void note_grant(const heap_view& h, const mailbox::grant& g) {
    const std::uint64_t end = std::uint64_t{to_underlying(g.tail_block())} + (to_underlying(g.leaves) != 0 ? 1 : 0);
    h.state->end.device.raise<order::relaxed>(end);
}
/// Keeps the tail of a grant without a waiter in a list until `put_late_tails`. To put it into the segment cache may
/// require clearing a line first, for which the lane that delivers responses has no registers. One lane calls it alone;
/// it never waits for another lane. Cost: a load, two stores, an atomic, repeated if another lane was faster.
///
/// The list is a stack that links the portion records of such tails, which no chunk uses yet:
///
///     late_tails: leaf a + 1 --> record[a].offsets[0]: leaf b + 1 --> record[b].offsets[0]: 0
///
/// The record is that of a portion with 0 lanes, in which no free finds a block.
inline ORCHARD_NOINLINE void keep_late_tail(const heap_view& h, const mailbox::grant& g) {
    if (to_underlying(g.leaves) == 0) {
        return;
    }
    const std::uint32_t leaf = to_underlying(g.tail_block()) * leaves_per_segment + to_underlying(g.leaf);
    portion_record& record = h.portion_records[leaf];
    record.shape.set(portion_record::shape_of(h.stamp, 0, to_underlying(g.leaves)));
    if (!simt::mutation::is(fault::late_tail)) {
        record.live.store<order::relaxed>(0);  // a record that was never used may hold anything there
    }
    auto& first = h.state->late_tails.word;
    std::uint64_t next = first.load<order::relaxed>();
    do {
        record.offsets[0].set(static_cast<std::uint32_t>(next));
        // Release: pairs with the acquire in `put_late_tails`, and covers this lane's record. A later push is a
        // read-modify-write and continues the release sequence, so that the lane that takes the list acquires all
        // records in it. No entry is ever taken alone, so that a word that has the same value again is still the right
        // successor.
    } while (!first.compare_exchange<order::release>(next, std::uint64_t{leaf} + 1));
}

/// Puts the kept tails into the segment cache. One lane calls it alone. It may wait for a lane that clears the same
/// line (`clear_line_of`). Cost: a load if there are none; otherwise an atomic, and a `portion_put` for each tail.
///
/// Groups call it before they search the segment cache and after they have delivered responses. The exchange takes the
/// whole list, so that two lanes never put the same tail.
inline ORCHARD_NOINLINE void put_late_tails(const heap_view& h) {
    auto& first = h.state->late_tails.word;
    if (first.load<order::relaxed>() == 0) {
        return;
    }
    // Acquire: pairs with the releases in `keep_late_tail`.
    auto next = static_cast<std::uint32_t>(first.exchange<order::acquire>(0));
    ORCHARD_NO_UNROLL
    while (next != 0) {
        const std::uint32_t leaf = next - 1;
        const portion_record& record = h.portion_records[leaf];
        // Read before the tail is put: from then on, another group may own the portion and write its record.
        next = record.offsets[0].get();
        const std::uint32_t leaves = portion_record::leaves_of(record.shape.get());
        clear_line_of(h, leaf);
        portion_put(h, leaf, leaves);
    }
}

/// The completion of responses without a waiter: puts their grants into the segment cache. The lane that delivers such
/// a response calls it alone. Such responses belong to refills, to returns, and to requests that were given up.
struct cache_completion {
    const heap_view& h;
    ORCHARD_FN void operator()(response_status status, mailbox::grant& g) const {
        // The bound of searches is raised first, so that they reach the grant as soon as it is there.
        if (status == response_status::granted) {
            note_grant(h, g);
            keep_late_tail(h, g);
            cache_put_all(h, g);
            h.add(counter::late_responses, 1);
        }
        // Any response but an acknowledgement counts as that of the refill, and nearly always is. After the response to
        // a request that was given up, a second refill may thus be posted while the first one is in flight.
        if (status != response_status::acknowledged) {
            // Comes after the grant is in the segment cache, which it releases to `refill_under_way`. A
            // read-modify-write, not a store: it continues the release sequence, so that a reader of this 0 acquires
            // earlier refills as well.
            h.state->refill_in_flight.word.fetch_and<order::acq_rel>(0);
        }
    }
};

/// What a group reads before it asks for segments, as a set of bits. A bit that is seen late only delays its effect.
namespace acquire_flags {
inline constexpr std::uint32_t closing = 1;         ///< the heap is being closed
inline constexpr std::uint32_t exhausted = 2;       ///< there is a note of exhaustion
inline constexpr std::uint32_t late_tails = 4;      ///< tails are to be put into the segment cache (`put_late_tails`)
inline constexpr std::uint32_t stored = 8;          ///< the chunk store holds chunks
inline constexpr std::uint32_t many_portions = 16;  ///< the segment cache holds too many portions
}  // namespace acquire_flags

/// The state of a group that looks after the segment cache: it returns segments and portions, posts refills, and
/// delivers responses. The states of a request and of a reclaim extend it. It is kept in local memory across the phases
/// (host_rpc/client.cuh says why); a group is in one phase at a time. All lanes of the group keep the same value in a
/// field, here and below, unless its comment names this lane or the leader.
struct cache_upkeep : rpc_context_with<cache_completion> {
    const heap_view& h;
    segment_run run;  ///< the run to be returned, as a request encodes it; in a `segment_request` later the run got
    std::uint32_t drained = 0;  ///< kind of what is returned: portions of this length; 0: segments
    std::uint32_t keep;         ///< number of these that must stay in the segment cache
    std::uint32_t returns;      ///< runs that may still be returned
    std::uint32_t kept = 0;     ///< number of runs and portions that were put back because no slot was free
    std::uint32_t level;        ///< segments in the segment cache, as last read, less what was taken since
    std::uint32_t rounds;       ///< rounds of delivering responses
    std::uint64_t since;        ///< this lane's time when these began; in a reclaim also when its leader saw `reclaims`

    ORCHARD_FN cache_upkeep(const heap_view& heap, lane_mask m)
        : rpc_context_with{&heap.mailbox, m, cache_completion{heap}}, h{heap} {}
};

/// The state of a group's request for segments. The phases, each a function or two: a search of the segment cache
/// (`take_cached`), a request to the host (request_segments.cuh), and the upkeep of the segment cache.
struct segment_request : cache_upkeep {
    std::uint32_t flags;             ///< the `acquire_flags`
    std::uint32_t k;                 ///< whole segments wanted
    std::uint32_t leaves = 0;        ///< leaves of the tail wanted
    std::uint64_t exact_leaves = 0;  ///< `k` segments and `leaves` leaves, before a request for a chunk was rounded up
    std::uint64_t bytes = 0;         ///< sum of the lanes' blocks in a chunk; 0: the request is for no chunk
    leaf_index leaf;                 ///< where the tail that was got begins
    failure_reason why = failure_reason::none;
    failure_reason refused;  ///< why the host failed the request
    std::uint32_t free;      ///< free segments of the host when it failed the request
    mailbox::grant* result = nullptr;
    std::uint64_t reclaim = 0;  ///< the reclaim after which a failure is final; 0: none is needed
    bool stored = false;        ///< the memory is a chunk of the chunk store
    bool exact = false;         ///< the request is not to be rounded up
    advice_code advice = 0;     ///< advice for the segments; 0: the heap's own
    bool from_host = false;     ///< memory that is on the device already does not do

    using cache_upkeep::cache_upkeep;
};

/// The state of a reclaim (reclaim/reclaim.cuh), with its phases: retiring slabs (reclaim/empty_slabs.cuh) and draining
/// the segment cache (segments/drain.cuh).
struct reclaim_state : cache_upkeep {
    std::uint64_t reclaim;   ///< number of the reclaim that the group needs
    std::uint64_t reclaims;  ///< the word `heap_state::reclaims` as the leader last saw it
    std::uint32_t page_class;
    /// Position of a pass: in a slab table, entries at or above it are done; in the segment cache, words below it.
    std::uint32_t cursor;
    std::uint32_t own;  ///< index of the word that this lane has taken
    lane_mask holders;  ///< lanes that have found something
    static constexpr std::uint32_t entries_at_once = 4;
    std::uint32_t entries[entries_at_once];  ///< slab table entries that this lane has found; 0: none
    std::uint32_t segment;                   ///< segment of a slab that may be empty
    std::uint32_t retired = 0;               ///< number of slabs retired
    std::uint32_t emptied = 0;               ///< number of runs and portions taken from the segment cache
    std::uint32_t left_word;                 ///< the word of the segment cache that is being returned
    std::uint64_t left;                      ///< those of its bits that are not returned yet
    std::uint64_t bits;                      ///< the word of the segment cache that this lane has taken
    std::uint64_t pending;                   ///< classes to be retired, or bitmaps to be drained: a bit for each
    std::uint64_t returned_at;               ///< time of the last pass that returned something

    using cache_upkeep::cache_upkeep;
};

/// Returns the number of segments and portions in the segment cache, and of leaves in the chunk store; a snapshot. One
/// lane calls it alone. Cost: 33 loads.
inline ORCHARD_NOINLINE std::uint32_t all_cached(const heap_view& h) {
    std::uint32_t all = cache_level(h) + not_negative(h.state->stored_leaves.word.load<order::relaxed>());
    ORCHARD_NO_UNROLL
    for (std::uint32_t leaves = 1; leaves < leaves_per_segment; ++leaves) {
        all += level_of(cached_portions(h, leaves));
    }
    return all;
}

/// Counts a request that got segments (`is_worth_another`). The leader of the group calls it alone. Release: pairs with
/// `count_served`. A chunk of the chunk store does not count: a reclaim empties the store, so that such a chunk was in
/// use when the last reclaim was over. Cost: an atomic whose result is not used.
ORCHARD_INLINE void note_served(const heap_view& h) { h.state->segments_got.word.fetch_add<order::release>(1); }
/// Returns how many requests were counted so far, modulo 2^32. The leader of a group calls it alone. A
/// read-modify-write, so that the number is the newest one. Acquire: the next reclaim sees what the groups had freed
/// before they were served. Cost: one atomic.
ORCHARD_INLINE std::uint32_t count_served(const heap_view& h) {
    return static_cast<std::uint32_t>(h.state->segments_got.word.fetch_add<order::acquire>(0));
}

/// Frees a run of segments into the segment cache. All lanes of a converged group call it; its leader must have
/// acquired the writes of the other lanes to this memory, since its atomic releases them to the next owner. It never
/// waits. Cost: three atomics for a run in one word.
inline ORCHARD_FN void release_segments(const heap_view& h, lane_mask mask, segment_run run) {
    if (is_leader(mask)) {
        cache_put(h, run);
    }
}

/// Prepares a request that returns `d.run` to the host: at most 64 segments of one word, or one portion. All lanes of
/// the group call it. The leader must have acquired what the last owners released: its post releases that to the
/// service (`write_request`). The searches and `drain_words` have a barrier behind their acquires for this reason.
inline ORCHARD_NOINLINE void prepare_return(cache_upkeep& d) {
    d.post.begin({mailbox::request_kind::give_back, 0, 0, d.run}, true);
}

/// Encodes what was taken out of the segment cache in `d.run` as a request does. For a portion, `d.run.first` is the
/// bit's index before that, which is the leaf counted from the heap's first: 2245 becomes {2245 / 32, 224 + 2245 mod
/// 32} = {70, 229}.
inline ORCHARD_FN void name_drained(cache_upkeep& d) {
    if (d.drained != 0) {
        const std::uint32_t leaf = to_underlying(d.run.first);
        d.run =
            mailbox::request::return_of(segment_index{leaf / leaves_per_segment}, leaf_index{leaf % leaves_per_segment})
                .run;
    }
}

/// Puts what was to be returned into the segment cache again: `put_portion_back` a portion, `put_back` either kind.
/// Without this, the memory of a return that found no slot would be lost. One lane calls it alone.
inline ORCHARD_NOINLINE void put_portion_back(const cache_upkeep& d) {
    const std::uint32_t leaf = d.run.count - mailbox::request::portion_at;
    portion_put(d.h, to_underlying(d.run.first) * leaves_per_segment + leaf, d.drained);
}
ORCHARD_INLINE void put_back(cache_upkeep& d) {
    if (d.drained == 0) {
        cache_put_all(d.h, d.run);
    } else {
        put_portion_back(d);
    }
}

/// Returns true if more than half of the slots are in use: this group must then deliver acknowledgements, for which no
/// group waits, so that the slots do not run out. Ends a return; if no slot was free for its request (`posted` is
/// false), the run goes back into the segment cache. All lanes of the group call it. Cost: two atomics whose results
/// are not used, a load for each ring and one more, a shuffle.
inline ORCHARD_NOINLINE bool end_return(cache_upkeep& d, bool posted) {
    d.kept += posted ? 0 : 1;
    if (is_leader(d.mask)) {
        if (posted) {
            d.h.add(counter::host_requests, 1);
            d.h.add(counter::returns, 1);
        } else {
            put_back(d);
        }
    }
    return from_leader(d.mask, d.box->in_flight()) > d.box->shape.slots / 2;
}

/// Returns `d.run` to the host. It never waits for the response, which is an acknowledgement. All lanes of the group
/// call it, converged. Cost: that of a post, and of a round as poller if many requests are in flight.
inline ORCHARD_FN void hand_back(cache_upkeep& d) {
    prepare_return(d);
    if (end_return(d, sending::try_post(d, sending::quick_attempts))) {
        mailbox_client::go_round(d);
    }
}

/// The memory of a search of the segment cache that a group makes between its calls to the host. In separable device
/// code (-rdc=true), that is the memory of the group's turn as poller, whose fields are set anew when a turn begins. A
/// kernel's stack is as large as the deepest chain of frames, and is 160 B smaller for it. Where the slow paths are
/// compiled with the kernel, the search has a frame of its own: in the turn's memory, `malloc` takes 56 registers
/// instead of 48 (nvcc 13.0, sm_90).
struct search_memory {
    static constexpr bool is_shared = ORCHARD_SEPARABLE != 0;
    alignas(cache_search) unsigned char own[is_shared ? 1 : sizeof(cache_search)];

    /// Begins a search, and returns its state. Each lane calls it for itself.
    ORCHARD_INLINE cache_search& begin(cache_upkeep& d, std::uint32_t k, std::uint32_t tail) {
        static_assert(sizeof(cache_search) <= sizeof(poller_turn) && alignof(cache_search) <= alignof(poller_turn));
        static_assert(std::is_trivially_destructible_v<cache_search> && std::is_trivially_destructible_v<poller_turn>);
        return *new (is_shared ? static_cast<void*>(&d.turn) : own) cache_search(d.h, d.mask, k, tail);
    }
};

/// Returns true if the segment cache had what `d` wants: it is then in `d.run` and `d.leaf`. Sets `d.level`. All lanes
/// of the group call it, converged. Cost: that of `search_cache`.
///
///     d.k    d.leaves    searched                                  d.run           d.leaf
///     k      0           a run of k segments                       the run         0
///     k      n           a run of k segments, the tail behind it   the run         0
///     0      n           a portion of n leaves                     its segment, 0  its first leaf
inline ORCHARD_NOINLINE bool take_cached(segment_request& d) {
    d.why = failure_reason::none;
    d.leaf = leaf_index{0};
    search_memory memory;
    cache_search& s = memory.begin(d, d.k != 0 ? d.k : 1, d.k != 0 ? d.leaves : 0);
    const bool found = search_cache(s, d.k != 0 ? 0 : d.leaves);
    d.level = s.level - (found ? d.k : 0);
    if (!found) {
        return false;
    }
    d.run = s.found;
    if (d.k == 0) {
        const std::uint32_t leaf = to_underlying(d.run.first);
        d.run = {segment_index{leaf / leaves_per_segment}, 0};
        d.leaf = leaf_index{leaf % leaves_per_segment};
    }
    return true;
}

/// Reads the level of the segment cache: `d.level`. All lanes of the group call it. Cost: a load.
ORCHARD_INLINE void read_level(cache_upkeep& d) { d.level = from_leader(d.mask, cache_level(d.h)); }

/// Returns true if it took the next run to be returned out of the segment cache: the cache held more than `d.keep`
/// segments, and `d.returns` allows one more. The run is of any length within one word of the bitmap. All lanes of the
/// group call it.
inline ORCHARD_NOINLINE bool take_surplus(cache_upkeep& d) {
    if (d.returns == 0 || from_leader(d.mask, cache_level(d.h)) <= d.keep) {
        return false;
    }
    --d.returns;
    search_memory memory;
    cache_search& s = memory.begin(d, 0, 0);
    if (!search_cache(s, 0)) {
        return false;
    }
    d.run = s.found;
    return true;
}

/// Returns up to `most` runs of segments to the host, until at most `keep` segments are left in the segment cache. All
/// lanes of the group call it. The level is read for each run, as other groups take and put at the same time.
inline ORCHARD_FN void hand_back_surplus(cache_upkeep& d, std::uint32_t keep, std::uint32_t most) {
    d.drained = 0;
    d.keep = keep;
    d.returns = most;
    ORCHARD_NO_UNROLL
    while (take_surplus(d)) {
        hand_back(d);
    }
}

/// Chooses the length of a portion to be returned, at random among those in the segment cache: `d.drained`; 0 if there
/// are none. All lanes of the group call it. Cost: up to 32 / W loads, ballots and shuffles in a group of W lanes.
///
/// The random start differs from warp to warp and from return to return, so that groups do not all return the same
/// length.
inline ORCHARD_NOINLINE void choose_length(cache_upkeep& d) {
    const auto warp = static_cast<std::uint32_t>(simt::position().global_warp());
    const std::uint32_t random = mix(warp + d.returns) + static_cast<std::uint32_t>(simt::rank_in(d.mask));
    d.drained = 0;
    ORCHARD_NO_UNROLL
    for (std::uint32_t i = 0; i < leaves_per_segment && d.drained == 0;
         i += static_cast<std::uint32_t>(simt::popcount(d.mask))) {
        const std::uint32_t leaves = (random + i) % leaves_per_segment;
        const bool some = leaves != 0 && level_of(cached_portions(d.h, leaves)) != 0;
        const lane_mask have = simt::ballot(d.mask, some);
        d.drained = have != 0 ? simt::shuffle(d.mask, leaves, simt::lowest_bit(have)) : 0;
    }
}

/// Returns whether the segment cache holds more leaves of portions than it may. Each portion may keep a VA block from
/// being used as a segment; hence the limit is a quarter of the segments that the segment cache may hold. With
/// `cache_max` = 512 segments, that is 512 * 32 / 4 = 4,096 leaves. Each lane calls it for itself. Cost: a load.
ORCHARD_INLINE bool has_many_portions(const heap_view& h) {
    return not_negative(h.state->portion_leaves.word.load<order::relaxed>()) > h.cache_max * (leaves_per_segment / 4);
}

/// Returns true if it took a portion to be returned out of the segment cache: the cache held more leaves of portions
/// than it may. The portion is then in `d.run`, encoded, and its length in `d.drained`. All lanes of the group call it.
inline ORCHARD_NOINLINE bool take_surplus_portion(cache_upkeep& d) {
    const bool many = has_many_portions(d.h);
    if (d.returns == 0 || from_leader(d.mask, many ? 1u : 0u) == 0) {
        return false;
    }
    --d.returns;
    choose_length(d);
    if (d.drained == 0) {
        return false;
    }
    search_memory memory;
    cache_search& s = memory.begin(d, 1, 0);
    if (!search_cache(s, d.drained)) {
        return false;  // another group took the last portion of this length in between: this group returns no more
    }
    d.run = s.found;
    name_drained(d);
    return true;
}

/// Returns up to `most` portions to the host, while the segment cache holds more leaves of portions than it may. All
/// lanes of the group call it.
inline ORCHARD_FN void hand_back_portions(cache_upkeep& d, std::uint32_t most) {
    d.returns = most;
    ORCHARD_NO_UNROLL
    while (take_surplus_portion(d)) {
        hand_back(d);
    }
}

/// The most runs that one request returns, besides those that may join into the run that it asks for.
inline constexpr std::uint32_t returns_at_once = 4;

}  // namespace orchard::device
