// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The state of a group that gets segments (`segment_request`), and what its phases share: the completion that puts
/// late grants into the segment cache, and the return of segments and portions to the host.

#include "device/host_rpc/post.cuh"
#include "device/segment_cache/search.cuh"
#include "device/small/slab.cuh"

namespace orchard::device {

/// Raises the end of granted segments (`granted_end`) to the end of `g`, so that searches of the segment cache reach
/// that far. One lane calls it alone. Cost: a load; an atomic if the end rises.
ORCHARD_INLINE void note_grant(const heap_view& h, const mailbox::grant& g) {
    const std::uint64_t end = std::uint64_t{to_underlying(g.tail_block())} + (to_underlying(g.leaves) != 0 ? 1 : 0);
    if (h.state->end.device.load<order::relaxed>() < end) {
        h.state->end.device.raise<order::relaxed>(end);
    }
}
/// Keeps the tail of a grant without a waiter in a list until `put_late_tails`. To put it into the segment cache may
/// require clearing a line first, for which the lane that delivers responses has no registers. The list links the
/// portion records of such tails. One lane calls it alone; it never waits.
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

/// Puts the kept tails into the segment cache. One lane calls it alone. Cost: a load if there are none.
inline ORCHARD_NOINLINE void put_late_tails(const heap_view& h) {
    auto& first = h.state->late_tails.word;
    if (first.load<order::relaxed>() == 0) {
        return;
    }
    // Acquires the records that `keep_late_tail` released.
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

/// The completion of responses without a waiter: puts their grants into the segment cache.
struct cache_completion {
    const heap_view& h;
    ORCHARD_FN void operator()(response_status status, mailbox::grant& g) const {
        if (status == response_status::granted) {
            note_grant(h, g);
            keep_late_tail(h, g);
            cache_put_all(h, g);
            h.add(counter::late_responses, 1);
        }
        if (status != response_status::acknowledged) {
            // Comes after the grant is in the segment cache, which it releases to `refill_under_way`. A
            // read-modify-write, not a store: it continues the release sequence, so that a reader of this 0 acquires
            // earlier refills as well.
            h.state->refill_in_flight.word.fetch_and<order::acq_rel>(0);
        }
    }
};

/// Returns the shard that this warp asks first.
ORCHARD_INLINE std::uint32_t first_shard_of_warp(const heap_view& h) {
    return h.shards == 1 ? 0 : static_cast<std::uint32_t>(simt::position().global_warp()) % h.shards;
}

/// Returns the shard whose service owns `segment`.
ORCHARD_INLINE std::uint32_t owner_shard(const heap_view& h, std::uint32_t segment) {
    const std::uint32_t s = h.shards == 1 ? 0 : segment / h.segments_per_shard;
    return s < h.shards ? s : h.shards - 1;
}

/// The state of a group that deals with the host, kept in local memory across the phases (host_rpc/client.cuh says
/// why). Fields are used by several phases; a group is in one of them at a time.
struct segment_request : rpc_context_with<cache_completion> {
    const heap_view& h;
    std::uint32_t first_shard;  ///< the shard that this warp asks first
    std::uint32_t shard;        ///< the shard that the current phase deals with
    segment_run run;            ///< the run to be returned, as a request encodes it; then the run got
    std::uint32_t drained = 0;  ///< kind of what is returned: portions of this length; 0: segments
    std::uint32_t keep;         ///< number of these that must stay in the segment cache
    std::uint32_t returns;      ///< runs that may still be returned
    // The fields of a request.
    std::uint32_t k;           ///< whole segments wanted
    std::uint32_t leaves = 0;  ///< leaves of the tail wanted
    std::uint64_t bytes = 0;   ///< sum of the lanes' blocks in a chunk; 0: the request is for no chunk
    leaf_index leaf;           ///< where the tail that was got begins
    std::uint32_t asked;       ///< number of shards asked
    failure_reason why = failure_reason::none;
    failure_reason elsewhere;  ///< the most informative reason of the shards asked before
    std::uint32_t free;        ///< free segments of the shard that failed the request
    std::uint32_t max_free;    ///< the greatest `free` of all shards
    mailbox::grant* result = nullptr;
    std::uint64_t reclaim = 0;  ///< the reclaim after which a failure is final; 0: none is needed
    bool noted = false;         ///< there was a note of exhaustion when the group began
    // The fields of a reclaim.
    std::uint64_t reclaims;  ///< the word `heap_state::reclaims` as the leader last saw it
    std::uint64_t since;     ///< time when the leader first saw it, or began to wait for responses
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
    std::uint32_t kept = 0;                  ///< number of these that were put back because no slot was free
    std::uint64_t returned_at;               ///< time of the last pass that returned something
    std::uint64_t bits;                      ///< the word of the segment cache that this lane has taken
    std::uint64_t left;                      ///< bits not returned yet of the word at `left_word`
    std::uint32_t left_word;

    ORCHARD_FN segment_request(const heap_view& heap, lane_mask m)
        : rpc_context_with{heap.mailboxes, m, cache_completion{heap}},
          h{heap},
          first_shard{first_shard_of_warp(heap)} {}
};

/// Returns the number of segments and portions in the segment cache; a snapshot. One lane calls it alone.
inline ORCHARD_NOINLINE std::uint32_t all_cached(const heap_view& h) {
    std::uint32_t all = cache_level(h);
    ORCHARD_NO_UNROLL
    for (std::uint32_t leaves = 1; leaves < leaves_per_segment; ++leaves) {
        all += level_of(cached_portions(h, leaves));
    }
    return all;
}

/// Frees a run of segments into the segment cache. All lanes of a converged group call it; its leader must have
/// acquired the writes of the other lanes to this memory. It never waits.
inline ORCHARD_FN void release_segments(const heap_view& h, lane_mask mask, segment_run run) {
    if (is_leader(mask)) {
        cache_put(h, run);
    }
}

/// Delivers the responses of a shard that have arrived. All lanes of the group call it.
inline ORCHARD_FN void collect(segment_request& d, std::uint32_t shard) {
    d.box = &d.h.mailboxes[shard];
    mailbox_client::go_round(d);
}

/// Prepares a request to a shard. All lanes of the group call it.
inline ORCHARD_FN void prepare_request(segment_request& d, std::uint32_t shard, mailbox::request request,
                                       bool unattended) {
    d.box = &d.h.mailboxes[shard];
    d.post.begin(request, unattended);
}

/// Prepares a request that returns `d.run` to the host: at most 64 segments of one word, or one portion. All lanes of
/// the group call it.
inline ORCHARD_NOINLINE void prepare_return(segment_request& d) {
    d.shard = owner_shard(d.h, to_underlying(d.run.first));
    prepare_request(d, d.shard, {mailbox::request_kind::give_back, 0, 0, d.run}, true);
}

/// Encodes what was taken out of the segment cache in `d.run` as a request does. For a portion, `d.run.first` is the
/// bit's index before that.
inline ORCHARD_FN void name_drained(segment_request& d) {
    if (d.drained != 0) {
        const std::uint32_t leaf = to_underlying(d.run.first);
        d.run =
            mailbox::request::return_of(segment_index{leaf / leaves_per_segment}, leaf_index{leaf % leaves_per_segment})
                .run;
    }
}

/// Puts what was to be returned into the segment cache again. One lane calls it alone.
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

/// Ends a return. If no slot was free for its request, the run goes back into the segment cache. Returns true if so
/// many requests are in flight that this group must deliver acknowledgements, lest the slots run out. All lanes of the
/// group call it.
inline ORCHARD_NOINLINE bool end_return(segment_request& d, bool posted) {
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

/// Returns `d.run` to the host. It never waits for the response. All lanes of the group call it.
inline ORCHARD_FN void hand_back(segment_request& d) {
    prepare_return(d);
    if (end_return(d, sending::try_post(d, sending::quick_attempts))) {
        collect(d, d.shard);
    }
}

/// Takes the segments and the tail that `d` wants from the segment cache into `d.run` and `d.leaf`. Returns whether
/// they were there. All lanes of the group call it.
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

/// Takes the next run to be returned out of the segment cache, if that holds more than `d.keep` segments. Returns
/// whether it took one. All lanes of the group call it.
inline ORCHARD_NOINLINE bool take_surplus(segment_request& d) {
    if (d.returns == 0 || from_leader(d.mask, cache_level(d.h)) <= d.keep) {
        return false;
    }
    --d.returns;
    return search_cache(d.h, 0, d.mask, 0, 0, &d.run);
}

/// Returns up to `most` runs of segments to the host, until at most `keep` segments are left in the segment cache. All
/// lanes of the group call it.
inline ORCHARD_FN void hand_back_surplus(segment_request& d, std::uint32_t keep, std::uint32_t most) {
    d.drained = 0;
    d.keep = keep;
    d.returns = most;
    ORCHARD_NO_UNROLL
    while (take_surplus(d)) {
        hand_back(d);
    }
}

/// Chooses the length of a portion to be returned, at random among those in the segment cache: `d.drained`; 0 if there
/// are none. All lanes of the group call it.
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

/// Takes a portion to be returned out of the segment cache, if that holds more leaves of portions than it may. Returns
/// whether it took one. All lanes of the group call it.
inline ORCHARD_NOINLINE bool take_surplus_portion(segment_request& d) {
    const std::uint32_t leaves =
        from_leader(d.mask, not_negative(d.h.state->portion_leaves.word.load<order::relaxed>()));
    // Each portion may keep a VA block from being used as a segment; hence the limit is a quarter of the segments that
    // the segment cache may hold.
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

/// Returns up to `most` portions to the host, while the segment cache holds more leaves of portions than it may. All
/// lanes of the group call it.
inline ORCHARD_FN void hand_back_portions(segment_request& d, std::uint32_t most) {
    d.returns = most;
    ORCHARD_NO_UNROLL
    while (take_surplus_portion(d)) {
        hand_back(d);
    }
}

/// The most runs that one request returns, besides those that may join into the run that it asks for.
inline constexpr std::uint32_t returns_at_once = 4;

}  // namespace orchard::device
