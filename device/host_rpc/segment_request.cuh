// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Between segment cache and host: keeps the segment cache's level, hands segments back.

#include "device/host_rpc/post.cuh"
#include "device/segment_cache/search.cuh"
#include "device/small/slab.cuh"

namespace orchard::device {

/// Notes that a grant has come, so that searches of the segment cache reach as far. Any lane, alone. Cost: a load; an
/// atomic where nothing so high was granted before.
ORCHARD_INLINE void note_grant(const heap_view& h, const mailbox::grant& g) {
    const std::uint64_t end = std::uint64_t{to_underlying(g.tail_block())} + (to_underlying(g.leaves) != 0 ? 1 : 0);
    if (h.state->end.device.load<order::relaxed>() < end) {
        h.state->end.device.raise<order::relaxed>(end);
    }
}
/// Keeps the tail of a grant that nobody waited for, until `put_late_tails`: to put it into the segment cache may mean
/// to clear a line first, for which the lane that delivers answers has no registers. The records of such tails are a
/// list. Any lane, alone; never waits.
inline ORCHARD_NOINLINE void keep_late_tail(const heap_view& h, const mailbox::grant& g) {
    if (to_underlying(g.leaves) == 0) {
        return;
    }
    const std::uint32_t leaf = to_underlying(g.tail_block()) * leaves_per_segment + to_underlying(g.leaf);
    portion_record& record = h.portion_records[leaf];
    record.shape.set(portion_record::shape_of(h.stamp, 0, to_underlying(g.leaves)));
    auto& first = h.state->late_tails.word;
    std::uint64_t next = first.load<order::relaxed>();
    do {
        record.offsets[0].set(static_cast<std::uint32_t>(next));
    } while (!first.compare_exchange<order::release>(next, std::uint64_t{leaf} + 1));  // pairs with `put_late_tails`
}

/// Puts the tails that were kept into the segment cache. Any lane, alone. Cost: a load where there are none.
inline ORCHARD_NOINLINE void put_late_tails(const heap_view& h) {
    auto& first = h.state->late_tails.word;
    if (first.load<order::relaxed>() == 0) {
        return;
    }
    auto next = static_cast<std::uint32_t>(first.exchange<order::acquire>(0));
    ORCHARD_NO_UNROLL
    while (next != 0) {
        const std::uint32_t leaf = next - 1;
        const portion_record& record = h.portion_records[leaf];
        next = record.offsets[0].get();
        const std::uint32_t leaves = portion_record::leaves_of(record.shape.get());
        clear_line_of(h, leaf);
        portion_put(h, leaf, leaves);
    }
}

/// Where answers go that nobody waits for: grants into the segment cache.
struct cache_completion {
    const heap_view& h;
    ORCHARD_FN void operator()(response_status status, mailbox::grant& g) const {
        if (status == response_status::granted) {
            note_grant(h, g);
            keep_late_tail(h, g);
            cache_put_all(h, g);
            h.add(counter::late_answers, 1);
        }
        if (status != response_status::acknowledged) {
            // Behind the grant. No plain store: a reader of this 0 acquires what earlier refills have brought, too.
            h.state->refill_in_flight.word.fetch_and<order::acq_rel>(0);
        }
    }
};

/// The mailbox that serves this warp first.
ORCHARD_INLINE std::uint32_t first_shard_of_warp(const heap_view& h) {
    return h.shards == 1 ? 0 : static_cast<std::uint32_t>(simt::position().global_warp()) % h.shards;
}

/// The mailbox whose service owns a segment.
ORCHARD_INLINE std::uint32_t owner_shard(const heap_view& h, std::uint32_t segment) {
    const std::uint32_t s = h.shards == 1 ? 0 : segment / h.segments_per_shard;
    return s < h.shards ? s : h.shards - 1;
}

/// What a group that deals with the host keeps in its memory meanwhile, for the reason that `mailbox_client.cuh` gives.
struct segment_request : rpc_context_with<cache_completion> {
    const heap_view& h;
    std::uint32_t first_shard;  ///< the shard that this warp asks first
    std::uint32_t shard;        ///< that is being dealt with
    segment_run run;            ///< to be handed back, as a post says it; then what was got
    std::uint32_t drained = 0;  ///< what is handed back: portions of so many leaves; 0: segments
    std::uint32_t keep;         ///< of these that are to stay in the segment cache
    std::uint32_t returns;      ///< runs that may be handed back yet
    // Of a request.
    std::uint32_t k;           ///< segments that are wanted
    std::uint32_t leaves = 0;  ///< and a tail of so many
    std::uint64_t bytes = 0;   ///< that the lanes of a chunk ask for; 0: it is no chunk, or has been counted
    leaf_index leaf;           ///< where the tail begins that was got
    std::uint32_t asked;       ///< shards
    failure_reason why = failure_reason::none;
    failure_reason elsewhere;  ///< what the shards asked before have said
    std::uint32_t free;        ///< segments that the shard had free that rejected the request
    std::uint32_t max_free;    ///< the greatest of these
    mailbox::grant* result = nullptr;
    std::uint64_t reclaim = 0;  ///< behind which a refusal is the last word; 0: none is needed
    bool noted = false;         ///< there was a note of exhaustion when the group began
    // Of a reclaim.
    std::uint64_t reclaims;  ///< the word of the heap's state when this group last looked, as its leader knows
    std::uint64_t since;     ///< when the leader first saw that, or began to wait for what is under way
    std::uint32_t page_class;
    std::uint32_t cursor;  ///< in the slab table, or the segment cache's words: below it all lanes have looked
    std::uint32_t own;     ///< the index of the word that this lane has found there
    lane_mask holders;     ///< lanes that have found something
    static constexpr std::uint32_t entries_at_once = 4;
    std::uint32_t entries[entries_at_once];  ///< of the slab table, that this lane has found; 0: none
    std::uint32_t segment;                   ///< of the slab that may be empty
    std::uint32_t retired = 0;               ///< slabs
    std::uint32_t emptied = 0;               ///< runs and portions that were taken out of the segment cache
    std::uint32_t kept = 0;                  ///< of these that were put into it again, as no slot was free
    std::uint32_t idle_passes = 0;           ///< passes that handed nothing back
    std::uint64_t bits;                      ///< of the segment cache's word that this lane has taken out
    std::uint64_t left;                      ///< of the word that is being handed back
    std::uint32_t left_word;

    ORCHARD_FN segment_request(const heap_view& heap, lane_mask m)
        : rpc_context_with{heap.mailboxes, m, cache_completion{heap}},
          h{heap},
          first_shard{first_shard_of_warp(heap)} {}
};

/// Segments and portions in the segment cache; a snapshot. Any lane, alone.
inline ORCHARD_NOINLINE std::uint32_t all_cached(const heap_view& h) {
    std::uint32_t all = cache_level(h);
    ORCHARD_NO_UNROLL
    for (std::uint32_t leaves = 1; leaves < leaves_per_segment; ++leaves) {
        all += level_of(cached_portions(h, leaves));
    }
    return all;
}

/// Frees a run of segments: puts it into the segment cache. All lanes of a converged group, of which the leader has
/// acquired what the others did to the memory. Never waits.
inline ORCHARD_FN void release_segments(const heap_view& h, lane_mask mask, segment_run run) {
    if (is_leader(mask)) {
        cache_put(h, run);
    }
}

/// Delivers what answers of a shard there are.
inline ORCHARD_FN void collect(segment_request& d, std::uint32_t shard) {
    d.box = &d.h.mailboxes[shard];
    mailbox_client::go_round(d);
}

/// Makes ready to post to a shard.
inline ORCHARD_FN void prepare_request(segment_request& d, std::uint32_t shard, mailbox::request request,
                                       bool unattended) {
    d.box = &d.h.mailboxes[shard];
    d.post.begin(request, unattended);
}

/// Makes ready to post the run `d.run`, at most 64 segments of one word or a portion, back to the host.
inline ORCHARD_NOINLINE void prepare_return(segment_request& d) {
    d.shard = owner_shard(d.h, to_underlying(d.run.first));
    prepare_request(d, d.shard, {mailbox::request_kind::give_back, 0, 0, d.run}, true);
}

/// What was taken out of the segment cache: `d.run` as a post says it, which for portions is the bit's place as yet.
inline ORCHARD_FN void name_drained(segment_request& d) {
    if (d.drained != 0) {
        const std::uint32_t leaf = to_underlying(d.run.first);
        d.run =
            mailbox::request::return_of(segment_index{leaf / leaves_per_segment}, leaf_index{leaf % leaves_per_segment})
                .run;
    }
}

/// Puts what was to be handed back into the segment cache again. One lane.
inline ORCHARD_NOINLINE void put_portion_back(const segment_request& d) {
    const std::uint32_t leaf = d.run.count - mailbox::request::portion_at;
    portion_put(d.h, to_underlying(d.run.first) * leaves_per_segment + leaf, d.drained);
}
ORCHARD_INLINE void put_back(segment_request& d) {
    if (d.drained == 0) {
        cache_put_all(d.h, d.run);
    } else {
        put_portion_back(d);
    }
}

/// Ends a return: if no slot was free for its post, the run goes back into the segment cache. Returns true if so many
/// returns are under way that a group must read the acknowledgements, or the slots run out.
inline ORCHARD_NOINLINE bool end_return(segment_request& d, bool posted) {
    d.kept += posted ? 0 : 1;
    if (is_leader(d.mask)) {
        if (posted) {
            d.h.add(counter::posts, 1);
            d.h.add(counter::returns, 1);
        } else {
            put_back(d);
        }
    }
    return from_leader(d.mask, d.box->in_flight()) > d.box->shape.slots / 2;
}

/// Hands the run `d.run` back to the host. Never waits for an answer.
inline ORCHARD_FN void hand_back(segment_request& d) {
    prepare_return(d);
    if (end_return(d, posts::try_post(d, posts::quick_attempts))) {
        collect(d, d.shard);
    }
}

/// Takes what is wanted from the segment cache into `d.run` and `d.leaf`, if it can. All lanes.
inline ORCHARD_NOINLINE bool take_cached(segment_request& d) {
    d.why = failure_reason::none;
    d.leaf = leaf_index{0};
    const bool found =
        search_cache(d.h, d.k != 0 ? 0 : d.leaves, d.mask, d.k != 0 ? d.k : 1, d.k != 0 ? d.leaves : 0, &d.run);
    if (found && d.k == 0) {
        const std::uint32_t leaf = to_underlying(d.run.first);
        d.run = {segment_index{leaf / leaves_per_segment}, 0};
        d.leaf = leaf_index{leaf % leaves_per_segment};
    }
    return found;
}

/// Takes the next run that is to be handed back out of the segment cache, where that has more than `d.keep`.
inline ORCHARD_NOINLINE bool take_surplus(segment_request& d) {
    if (d.returns == 0 || from_leader(d.mask, cache_level(d.h)) <= d.keep) {
        return false;
    }
    --d.returns;
    return search_cache(d.h, 0, d.mask, 0, 0, &d.run);
}

/// Hands up to `most` runs of segments back to the host, until `keep` segments or less are left in the segment cache.
inline ORCHARD_FN void hand_back_surplus(segment_request& d, std::uint32_t keep, std::uint32_t most) {
    d.drained = 0;
    d.keep = keep;
    d.returns = most;
    ORCHARD_NO_UNROLL
    while (take_surplus(d)) {
        hand_back(d);
    }
}

/// Chooses a length of which there are portions at hand, a random one: `d.drained`; 0 where there are none. All lanes.
inline ORCHARD_NOINLINE void choose_length(segment_request& d) {
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

/// Takes a portion that is to be handed back out of the segment cache, where that has more than it may.
inline ORCHARD_NOINLINE bool take_surplus_portion(segment_request& d) {
    const std::uint32_t leaves =
        from_leader(d.mask, not_negative(d.h.state->portion_leaves.word.load<order::relaxed>()));
    // Each may keep a VA block from being used otherwise: a quarter of what may lie there as segments.
    if (d.returns == 0 || leaves <= d.h.cache_max * (leaves_per_segment / 4)) {
        return false;
    }
    --d.returns;
    choose_length(d);
    if (d.drained == 0 || !search_cache(d.h, d.drained, d.mask, 1, 0, &d.run)) {
        return false;
    }
    name_drained(d);
    return true;
}

/// Hands up to `most` portions back to the host, while the segment cache has more leaves of them than it may.
inline ORCHARD_FN void hand_back_portions(segment_request& d, std::uint32_t most) {
    d.returns = most;
    ORCHARD_NO_UNROLL
    while (take_surplus_portion(d)) {
        hand_back(d);
    }
}

/// Runs that one request hands back at most, beside those that it may itself have use for.
inline constexpr std::uint32_t returns_at_once = 4;

}  // namespace orchard::device
