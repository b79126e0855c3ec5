// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// How device code gets and gives back segments: the magazine first, then the mailbox.

#include "device/magazine.cuh"
#include "device/slab.cuh"

namespace orchard::device {

/// Where answers go that nobody waits for: grants into the magazine.
struct magazine_sink {
    const heap_view& h;
    ORCHARD_FN void operator()(answer_status status, segment_run run) const {
        if (status == answer_status::granted) {
            magazine_put(h, run);
            h.add(counter::late_answers, 1);
        }
        if (status != answer_status::acknowledged) {
            h.state->refill_in_flight.word.store<order::relaxed>(0);
        }
    }
};

/// Whether the heap is being closed.
ORCHARD_INLINE bool is_closing(const heap_view& h) {
    const auto shard = static_cast<std::uint32_t>(simt::position().global_warp()) % flag_shards;
    return h.state->closing[shard].word.load<order::relaxed>() != 0;
}

/// The mailbox that serves this warp first.
ORCHARD_INLINE std::uint32_t home_shard(const heap_view& h) {
    return h.shards == 1 ? 0 : static_cast<std::uint32_t>(simt::position().global_warp()) % h.shards;
}

/// The mailbox whose service owns a segment.
ORCHARD_INLINE std::uint32_t owner_shard(const heap_view& h, std::uint32_t segment) {
    const std::uint32_t s = h.shards == 1 ? 0 : segment / h.segments_per_shard;
    return s < h.shards ? s : h.shards - 1;
}

/// Keeps the magazine filled: posts for more without waiting, or collects what was posted for.
inline ORCHARD_NOINLINE void refill_magazine(const heap_view& h, lane_mask mask) {
    if (h.magazine_target == 0 || from_leader(mask, magazine_level(h)) * 2 >= h.magazine_target) {
        return;
    }
    std::uint32_t first = 0;
    if (is_leader(mask)) {
        std::uint64_t expected = 0;
        first = h.state->refill_in_flight.word.compare_exchange<order::relaxed>(expected, 1) ? 1 : 0;
    }
    const auto& box = h.mailboxes[home_shard(h)];
    if (from_leader(mask, first) == 0) {
        box.courier_round(mask, magazine_sink{h});
        return;
    }
    mailbox::post request{mailbox::post_kind::grant, 0, 0, {segment_index{0}, h.refill_batch}, true};
    const receipt r = box.post(mask, request, true, magazine_sink{h});
    if (is_leader(mask)) {
        if (r.failure != failure_reason::none) {
            h.state->refill_in_flight.word.store<order::relaxed>(0);
        } else {
            h.add(counter::refills, 1);
            h.add(counter::posts, 1);
        }
    }
}

/// Hands a run back to the host with as many posts as it takes; whatever finds no free slot stays in the magazine.
/// All lanes of a converged group. Never waits for an answer.
inline ORCHARD_FN void give_back(const heap_view& h, lane_mask mask, segment_run run) {
    std::uint32_t first = to_underlying(run.first);
    const auto& box = h.mailboxes[owner_shard(h, first)];
    for (std::uint32_t left = run.count; left != 0;) {
        const std::uint32_t n = left < mailbox::max_give_back ? left : mailbox::max_give_back;
        mailbox::post request{mailbox::post_kind::give_back, 0, 0, {segment_index{first}, n}, false};
        const receipt r = box.post(mask, request, true, magazine_sink{h});
        if (is_leader(mask)) {
            if (r.failure == failure_reason::none) {
                h.add(counter::posts, 1);
                h.add(counter::returns, 1);
            } else {
                magazine_put(h, {segment_index{first}, n});
            }
        }
        first += n;
        left -= n;
    }
    // Somebody must read the acknowledgements, or the slots run out.
    if (from_leader(mask, box.in_flight()) > box.shape.slots / 2) {
        box.courier_round(mask, magazine_sink{h});
    }
}

/// Frees a run of segments: into the magazine while it is not over twice its target, else back to the host.
inline ORCHARD_NOINLINE void release_segments(const heap_view& h, lane_mask mask, segment_run run) {
    const bool keep = run.count <= 64 && from_leader(mask, magazine_level(h)) + run.count <= 2 * h.magazine_target;
    if (!keep) {
        give_back(h, mask, run);
    } else if (is_leader(mask)) {
        magazine_put(h, run);
    }
}

/// Hands the whole magazine back to the host. All lanes of a converged group.
inline ORCHARD_NOINLINE void drain_magazine(const heap_view& h, lane_mask mask) {
    const auto width = static_cast<std::uint32_t>(simt::popcount(mask));
    const auto rank = static_cast<std::uint32_t>(simt::rank_in(mask));
    for (std::uint32_t i = 0; i < h.magazine_words(); i += width) {
        const std::uint32_t mine = i + rank;
        const std::uint64_t bits = mine < h.magazine_words() ? magazine_drain_word(h, mine) : 0;
        lane_mask holders = simt::ballot(mask, bits != 0);
        if (holders != 0) {
            simt::sync(mask);  // what each lane acquired with its word, the leader releases with its posts
        }
        for (; holders != 0; holders &= holders - 1) {
            const int lane = simt::lowest_bit(holders);
            std::uint64_t left = simt::shuffle(mask, bits, lane);
            const std::uint32_t word = simt::shuffle(mask, mine, lane);
            while (left != 0) {
                const int low = simt::lowest_bit(left);
                const std::uint64_t shifted = ~(left >> low);
                const int n = shifted == 0 ? 64 - low : simt::lowest_bit(shifted);
                const std::uint64_t ones = n == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1;
                left &= ~(ones << low);
                give_back(h, mask,
                          {segment_index{word * 64 + static_cast<std::uint32_t>(low)}, static_cast<std::uint32_t>(n)});
            }
        }
    }
}

/// Retires every slab that has no page in use. All lanes of a converged group. How many.
/// Cost: looks at one word of each slab, and at all words of the empty ones.
inline ORCHARD_FN std::uint32_t retire_empty_slabs(const heap_view& h, lane_mask mask, std::uint32_t page_class) {
    const auto width = static_cast<std::uint32_t>(simt::popcount(mask));
    const auto rank = static_cast<std::uint32_t>(simt::rank_in(mask));
    const std::uint32_t count = from_leader(mask, h.state->slabs[page_class].count.load<order::relaxed>());
    std::uint32_t retired = 0;
    for (std::uint32_t i = 0; i < count; i += width) {
        const std::uint32_t index = i + rank;
        const std::uint32_t entry = index < count ? h.table(page_class)[index].load<order::acquire>() : 0;
        const bool maybe = is_slab_entry(entry) && h.bitmap(entry - 1)[0].load<order::relaxed>() == 0;
        for (lane_mask left = simt::ballot(mask, maybe); left != 0; left &= left - 1) {
            const std::uint32_t segment = simt::shuffle(mask, entry, simt::lowest_bit(left)) - 1;
            if (slab_retire(h, mask, page_class, segment)) {
                release_segments(h, mask, {segment_index{segment}, 1});
                ++retired;
            }
        }
    }
    return retired;
}

/// Delivers what answers are under way, so that grants which nobody waits for (refills) come to hand. Bounded: those
/// that a service parks stay under way.
inline ORCHARD_FN void collect_answers(const heap_view& h, lane_mask mask) {
    constexpr int rounds = 32;
    for (std::uint32_t s = 0; s < h.shards; ++s) {
        const auto& box = h.mailboxes[s];
        for (int i = 0; i < rounds && from_leader(mask, box.in_flight()) != 0; ++i) {
            box.courier_round(mask, magazine_sink{h});
            simt::pause(500);
        }
    }
}

/// Waits while the reclaim that began at `began` goes on, but not for one that has lasted too long.
inline ORCHARD_FN void await_reclaim(const heap_view& h, lane_mask mask, std::uint64_t began) {
    for (bool over = false; !over;) {
        simt::pause(2'000);
        const std::uint64_t now = simt::clock_ns();
        const bool ended = h.state->reclaiming.word.load<order::relaxed>() != began;
        over = from_leader(mask, ended || now - began > h.reclaim_patience_ns ? 1u : 0u) != 0;
    }
}

/// On shortage: retires empty slabs and hands the magazine back, so that the host can serve what it just could not.
/// One group at a time does it, the others wait for it. All lanes of a converged group.
inline ORCHARD_NOINLINE void reclaim(const heap_view& h, lane_mask mask) {
    std::uint32_t first = 0;
    std::uint64_t began = 0;
    if (is_leader(mask)) {
        auto& since = h.state->reclaiming.word;
        began = since.load<order::relaxed>();
        const std::uint64_t now = simt::clock_ns();
        first =
            (began == 0 || now - began > h.reclaim_patience_ns) && since.compare_exchange<order::relaxed>(began, now)
                ? 1
                : 0;
    }
    if (from_leader(mask, first) == 0) {
        await_reclaim(h, mask, from_leader(mask, began));
        return;
    }
    for (std::uint32_t c = 0; c < class_count; ++c) {
        retire_empty_slabs(h, mask, c);
    }
    collect_answers(h, mask);
    drain_magazine(h, mask);
    if (is_leader(mask)) {
        h.state->reclaiming.word.store<order::relaxed>(0);
    }
}

/// Delivers answers until nothing is under way, with `drain` after handing the magazine back; gives up at the
/// mailbox's deadline. All lanes of a converged group.
inline ORCHARD_FN void settle(const heap_view& h, lane_mask mask, bool drain) {
    mailbox_client::rounds_seen seen[max_shards];
    const std::uint64_t started = from_leader(mask, simt::clock_ns());
    for (;;) {
        if (drain) {
            drain_magazine(h, mask);
        }
        std::uint64_t flying = 0;
        for (std::uint32_t s = 0; s < h.shards; ++s) {
            h.mailboxes[s].courier_round(mask, magazine_sink{h}, seen[s]);
            flying += from_leader(mask, h.mailboxes[s].in_flight());
        }
        const bool empty = !drain || from_leader(mask, magazine_level(h)) == 0;
        const std::uint64_t now = from_leader(mask, simt::clock_ns());
        if ((flying == 0 && empty) || now - started > h.mailboxes[0].timeout_ns) {
            return;
        }
        simt::pause(1000);
    }
}

/// Posts one request for `k` segments and waits. All lanes of a converged group.
inline ORCHARD_FN failure_reason request_segments(const heap_view& h, lane_mask mask, std::uint32_t shard,
                                                  std::uint32_t k, segment_run* run) {
    const auto& box = h.mailboxes[shard];
    const mailbox::post request{mailbox::post_kind::grant, 0, 0, {segment_index{0}, k}, false};
    const receipt r = box.post(mask, request, false, magazine_sink{h});
    if (r.failure != failure_reason::none) {
        return r.failure;
    }
    if (is_leader(mask)) {
        h.add(counter::posts, 1);
    }
    const outcome o = box.wait(mask, r, magazine_sink{h});
    if (o.failure != failure_reason::none) {
        if (is_leader(mask)) {
            h.add(counter::abandoned, 1);
        }
        return o.failure;
    }
    *run = o.result.run;
    switch (o.result.status) {
        case answer_status::granted: return failure_reason::none;
        case answer_status::fragmented: return failure_reason::fragmented;
        case answer_status::too_large: return failure_reason::too_large;
        case answer_status::closing: return failure_reason::closing;
        case answer_status::commit_failed: return failure_reason::commit_failed;
        default: return failure_reason::out_of_memory_device_budget;
    }
}

/// Gets a run of `k` segments: from the magazine, else from the host, on shortage after giving back what lies unused.
/// All lanes of a converged group; the same result in all.
/// Errors: as `failure_reason`. Cost: one atomic on a magazine hit; a round trip (3 to 5 us) otherwise.
inline ORCHARD_NOINLINE failure_reason acquire_segments(const heap_view& h, lane_mask mask, std::uint32_t k,
                                                        segment_run* run) {
    if (k > h.segments) {
        return failure_reason::too_large;
    }
    constexpr int attempts = 6;
    failure_reason why = failure_reason::out_of_memory_device_budget;
    if (from_leader(mask, is_closing(h) ? 1u : 0u) != 0) {
        return failure_reason::closing;
    }
    for (int attempt = 0; attempt < attempts; ++attempt) {
        if (magazine_take(h, mask, k, run)) {
            refill_magazine(h, mask);
            return failure_reason::none;
        }
        for (std::uint32_t s = 0; s < h.shards; ++s) {
            why = request_segments(h, mask, (home_shard(h) + s) % h.shards, k, run);
            if (why == failure_reason::none) {
                refill_magazine(h, mask);
                return why;
            }
            const bool next = why == failure_reason::out_of_memory_device_budget || why == failure_reason::fragmented ||
                              why == failure_reason::too_large;
            if (!next) {
                return why;
            }
        }
        if (attempt + 1 < attempts) {
            reclaim(h, mask);
        }
    }
    return why;
}

}  // namespace orchard::device
