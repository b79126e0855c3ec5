// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include "device/mailbox_client.cuh"

namespace orchard::device {

namespace mutation = simt::mutation;

/// The leader's value, in every lane of `mask`.
template <class T>
ORCHARD_INLINE T from_leader(simt::lane_mask mask, T value) {
    return simt::shuffle(mask, value, simt::leader_of(mask));
}

ORCHARD_INLINE bool is_leader(simt::lane_mask mask) { return simt::lane_id() == simt::leader_of(mask); }

/// Becomes courier of `ring` if nobody is, or if the courier word still is `lost` (0: never). The word then, or 0; all
/// lanes. `eager`: the office is probably free, and asking for it costs no more than looking.
inline ORCHARD_FN std::uint64_t mailbox_client::take_office(simt::lane_mask mask, std::uint32_t ring, bool eager,
                                                            std::uint64_t lost, std::uint64_t* seen) const {
    std::uint64_t word = 0;
    std::uint64_t office = 0;
    if (is_leader(mask)) {
        auto& courier = device->courier[ring].word;
        word = eager ? 0 : courier.load<simt::order::relaxed>();
        if ((word & courier_word::held) == 0) {
            word = courier.fetch_or<simt::order::relaxed>(courier_word::held);
            office = (word & courier_word::held) == 0 ? word | courier_word::held : 0;
        } else if (word == lost) {
            const std::uint64_t mine = courier_word::succeeded(word);
            office = courier.compare_exchange<simt::order::relaxed>(word, mine) ? mine : 0;
        }
    }
    *seen = from_leader(mask, word);
    return from_leader(mask, office);
}

/// Hands one answer over. Repeating it is harmless: the tag tells a slot's uses apart.
template <class Sink>
ORCHARD_FN void mailbox_client::deliver(const answer& a, Sink&& sink) const {
    auto& word = device->slots()[a.slot];
    std::uint64_t found = slot_word::waiting(a.tag);
    // Releases what the service's answer released to this courier (its fence lies between); pairs with the waiter's
    // acquire.
    if (word.template compare_exchange<simt::store_after_fence>(found, slot_word::delivered(a))) {
        return;
    }
    if (!slot_word::is_forsaken(found, a.tag)) {
        return;  // delivered before, by a courier that was thought lost
    }
    const std::uint32_t count = a.run.count != 0 ? a.run.count : slot_word::first_field::get(found);
    const std::uint64_t idle = slot_word::idle((a.tag + 1) & shape.tag_mask());
    if (word.template compare_exchange<simt::order::acq_rel>(found, idle)) {
        sink(a.status, segment_run{a.run.first, count});
    }
}

/// Reads the answer ring from `cursor` on, `deep` words a lane; the lanes of the group side by side. A single word is
/// acquired by its load; several need the fence that `serve` then makes.
inline ORCHARD_FN void mailbox_client::read_batch(simt::lane_mask mask, std::uint32_t ring, std::uint64_t cursor,
                                                  int deep, batch& b) const {
    const int width = simt::popcount(mask);
    const int rank = simt::rank_in(mask);
    ORCHARD_UNROLL
    for (int j = 0; j < courier::depth; ++j) {
        b.words[j] = 0;
        const auto& word = host.answers[shape.answer_position(ring, cursor + j * width + rank)];
        if (deep == 1 && j == 0) {
            b.words[j] = word.load<simt::order::acquire>();
        } else if (j < deep) {
            b.words[j] = word.load<simt::load_before_fence>();
        }
    }
}

/// How many answers of the batch are there without a gap; all lanes.
inline ORCHARD_FN int mailbox_client::count_ready(simt::lane_mask mask, std::uint64_t cursor, int deep,
                                                  const batch& b) const {
    const int width = simt::popcount(mask);
    const int rank = simt::rank_in(mask);
    int ready = 0;
    ORCHARD_UNROLL
    for (int j = 0; j < courier::depth; ++j) {
        if (j < deep && ready == j * width) {
            const int index = j * width + rank;
            const std::uint32_t tag = shape.answer_lap_tag(cursor + index);
            const bool here = (answer::lap_field::get(b.words[j]) == tag ||
                               (mutation::is(mutation::fault::lap_tag) && b.words[j] != 0)) &&
                              index < static_cast<int>(shape.answers_owed());
            const simt::lane_mask missing = mask & ~simt::ballot(mask, here);
            ready += missing == 0 ? width : simt::popcount(mask & ((missing & (~missing + 1)) - 1));
        }
    }
    return ready;
}

/// Takes the group's own answer out of the first `ready` ones of the batch; whether it was there; all lanes.
inline ORCHARD_FN bool mailbox_client::take_own(simt::lane_mask mask, receipt own, int ready, batch& b,
                                                served& out) const {
    const int width = simt::popcount(mask);
    const int rank = simt::rank_in(mask);
    std::uint64_t mine = 0;
    ORCHARD_UNROLL
    for (int j = 0; j < courier::depth; ++j) {
        const answer a = answer::unpack(b.words[j]);
        if (j * width + rank < ready && a.slot == own.slot && a.tag == own.tag) {
            mine = b.words[j];
            b.words[j] = 0;
        }
    }
    const simt::lane_mask holder = simt::ballot(mask, mine != 0);
    if (holder != 0) {
        out.mine = answer::unpack(simt::shuffle(mask, mine, simt::lowest_bit(holder)));
        out.have_mine = true;
    }
    return holder != 0;
}

/// Delivers the first `ready` answers of the batch.
template <class Sink>
ORCHARD_FN void mailbox_client::deliver_batch(simt::lane_mask mask, int ready, const batch& b, Sink&& sink) const {
    const int width = simt::popcount(mask);
    const int rank = simt::rank_in(mask);
    ORCHARD_UNROLL
    for (int j = 0; j < courier::depth; ++j) {
        if (j * width + rank < ready && b.words[j] != 0) {
            deliver(answer::unpack(b.words[j]), sink);
        }
    }
}

/// Is courier for at most `rounds` rounds, if the office is free (or still is `lost`).
///
/// A round: the batch that was read is fenced, the next one is asked for, and while it travels this one is delivered
/// and the cursor moved; so that a round costs one trip to the host's memory.
template <class Sink>
ORCHARD_NOINLINE mailbox_client::served mailbox_client::serve(simt::lane_mask mask, std::uint32_t ring, receipt own,
                                                              int rounds, bool eager, Sink sink,
                                                              std::uint64_t lost) const {
    served out;
    std::uint64_t office = take_office(mask, ring, eager, lost, &out.courier);
    if (office == 0) {
        return out;
    }
    const int width = simt::popcount(mask);
    std::uint64_t cursor = courier_word::cursor(office);
    std::uint32_t dismissed = 0;
    int deep = 1;
    bool last = false;
    bool moved = false;  // whether the last round has asked to move the cursor
    batch now;
    std::uint64_t posted = device->posted[ring].word.load<simt::order::relaxed>();
    read_batch(mask, ring, cursor, deep, now);
    for (int round = 1, for_others = 0; !last; ++round) {
        const int ready = count_ready(mask, cursor, deep, now);
        // An answer ring has room for the answers owed and for as many that were delivered above its cursor. Who was
        // dismissed moves no cursor, so that it may deliver no further batch.
        if (moved && from_leader(mask, dismissed) != 0) {
            break;
        }
        const bool took_own = take_own(mask, own, ready, now, out);
        const std::uint64_t passed = cursor + static_cast<std::uint64_t>(ready);
        const bool others = courier_word::flying(from_leader(mask, posted), passed) != 0;
        last = round >= rounds || (out.have_mine && (!others || ++for_others >= courier::rounds_for_others));
        if (deep != 1 || ready > (took_own ? 1 : 0)) {
            // The relaxed loads of the answers acquire what the service released with them, and the deliveries
            // release it. One word a lane was acquired by its load: if it is the group's own, that is all.
            if (!mutation::is(mutation::fault::answer_order)) {
                simt::fence<simt::scope::system>();
            }
        }
        deep = ready == deep * width ? courier::depth : 1;
        batch next;
        if (!last) {
            if (ready == 0) {
                simt::pause(20);
            }
            // First, since the loads of the batch may be acquiring ones.
            posted = device->posted[ring].word.load<simt::order::relaxed>();
            read_batch(mask, ring, cursor + ready, deep, next);
        }
        deliver_batch(mask, ready, now, sink);
        simt::sync(mask);  // the cursor passes only what all lanes have delivered
        if (is_leader(mask) && (ready != 0 || last)) {
            std::uint64_t expected = courier_word::moved_to(office, cursor);
            const std::uint64_t slip = mutation::is(mutation::fault::cursor) && ready != 0 ? 1 : 0;
            const std::uint64_t next_word = courier_word::moved_to(office, cursor + ready + slip);
            if (mutation::is(mutation::fault::epoch)) {
                expected = device->courier[ring].word.load<simt::order::relaxed>();
            }
            const bool still = device->courier[ring].word.compare_exchange<simt::order::relaxed>(
                expected, last ? courier_word::released(next_word) : next_word);
            dismissed |= still ? 0 : 1;
        }
        cursor += ready;
        moved = ready != 0;
        now = next;
    }
    out.courier = courier_word::released(courier_word::moved_to(office, cursor));
    return out;
}

/// The more posts of a ring are in flight, the rarer each group looks for the courier's office, so that its word is
/// not the bottleneck: about one look every 40 ns over all groups.
inline ORCHARD_FN void mailbox_client::plan_next_look(simt::lane_mask mask, watch& w, std::uint64_t now,
                                                      std::uint32_t slot) const {
    const std::uint32_t ring = shape.answer_ring(slot);
    const std::uint64_t posted = device->posted[ring].word.load<simt::order::relaxed>();
    const std::uint64_t done = courier_word::cursor(device->courier[ring].word.load<simt::order::relaxed>());
    std::uint64_t flying = from_leader(mask, courier_word::flying(posted, done));
    flying = flying < shape.answer_slots() ? flying : shape.answer_slots();
    const std::uint64_t interval = 1500 + 40 * flying;
    w.next_look = now + interval + (slot * 0x9e3779b1u >> 16) * interval / 65536;
    w.pause_ns = static_cast<std::uint32_t>(100 + flying / 2 < 1000 ? 100 + flying / 2 : 1000);
}

template <class Sink>
ORCHARD_FN outcome mailbox_client::wait(simt::lane_mask mask, receipt r, Sink&& sink) const {
    const std::uint32_t ring = shape.answer_ring(r.slot);
    served s = serve(mask, ring, r, courier::longest_tenure, true, sink);
    watch w;
    if (!s.have_mine) {
        w.courier = s.courier;
        w.changed_at = w.progress_at = from_leader(mask, simt::clock_ns());
        plan_next_look(mask, w, w.changed_at, r.slot);
    }
    std::uint64_t beat_before = 0;
    std::uint64_t beat_at = 0;
    bool half_time = false;
    while (!s.have_mine) {
        std::uint64_t word = 0;
        std::uint64_t now = 0;
        if (is_leader(mask)) {
            word = device->slots()[r.slot].template load<simt::order::acquire>();
            now = simt::clock_ns();
        }
        word = from_leader(mask, word);
        if (word & slot_word::answered) {
            s.mine = slot_word::unpack(word);
            break;
        }
        now = from_leader(mask, now);
        if (now >= w.next_look) {
            const bool lost = now - w.changed_at > lost_after_ns;
            s = serve(mask, ring, r, courier::longest_tenure, false, sink, lost ? w.courier : 0);
            now = from_leader(mask, simt::clock_ns());
            if (courier_word::cursor(s.courier) != courier_word::cursor(w.courier)) {
                w.progress_at = now;
                half_time = false;
            }
            if (s.courier != w.courier) {
                w.courier = s.courier;
                w.changed_at = now;
            }
            plan_next_look(mask, w, now, r.slot);
            continue;
        }
        if (!half_time && now - w.progress_at > timeout_ns / 2) {
            half_time = true;
            beat_at = now;
            beat_before = is_leader(mask) ? host.beat->template load<simt::order::relaxed>() : 0;
        }
        // Some time must lie between the two looks at the beat, also where this group itself was held up.
        if (now - w.progress_at > timeout_ns && now - beat_at > timeout_ns / 4) {
            return give_up(mask, r, beat_before);
        }
        simt::pause(w.pause_ns);
    }
    if (is_leader(mask)) {
        finish(r);
    }
    s.mine.run.count = s.mine.run.count != 0 ? s.mine.run.count : r.count;
    return {s.mine, failure_reason::none};
}

/// At the deadline: leaves the slot to whoever delivers there, unless the answer has come just now.
inline ORCHARD_FN outcome mailbox_client::give_up(simt::lane_mask mask, receipt r, std::uint64_t beat_before) const {
    std::uint64_t found = 0;
    std::uint32_t alive = 0;
    if (is_leader(mask)) {
        alive = host.beat->load<simt::order::relaxed>() != beat_before ? 1 : 0;
        found = slot_word::waiting(r.tag);
        auto& word = device->slots()[r.slot];
        if (mutation::is(mutation::fault::abandonment)) {
            found = 0;
            finish(r);
        } else if (word.compare_exchange<simt::order::acquire>(found, slot_word::forsaken(r.tag, r.count))) {
            found = 0;
        } else {
            finish(r);
        }
    }
    found = from_leader(mask, found);
    alive = from_leader(mask, alive);
    if (found != 0) {
        outcome o{slot_word::unpack(found), failure_reason::none};
        o.result.run.count = o.result.run.count != 0 ? o.result.run.count : r.count;
        return o;
    }
    return {answer{}, alive != 0 ? failure_reason::commit_blocked : failure_reason::service_not_answering};
}

}  // namespace orchard::device
