// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Waiting for an answer: polls the slot in device memory, looks now and then whether a courier is needed, gives up at
/// the deadline.

#include "device/host_rpc/poller.cuh"
#include "device/host_rpc/rejection.cuh"

namespace orchard::device {

namespace waiting {

/// What a waiting group does next.
enum class step : std::uint32_t { pause, look, over };

/// Notes what a look at the courier's office has shown, and when to look again.
///
/// The more posts of a ring are in flight, the rarer each group looks, so that the courier's word is not the
/// bottleneck: about one look every 40 ns over all groups.
inline ORCHARD_NOINLINE void note_look(errand& e) {
    const mailbox_client& box = *e.box;
    const std::uint64_t now = from_leader(e.mask, simt::clock_ns());
    const bool first = !e.wait.looked;
    e.wait.looked = true;
    e.wait.just_looked = true;
    if (first || courier_word::cursor(e.turn.courier) != courier_word::cursor(e.wait.courier)) {
        e.wait.progress_at = now;
        e.wait.half_time = false;
    }
    if (first || e.turn.courier != e.wait.courier) {
        e.wait.courier = e.turn.courier;
        e.wait.changed_at = now;
    }
    const std::uint64_t posted = box.device->posted[e.turn.ring].word.load<simt::order::relaxed>();
    const std::uint64_t done = courier_word::cursor(box.device->courier[e.turn.ring].word.load<simt::order::relaxed>());
    const std::uint64_t all = from_leader(e.mask, courier_word::flying(posted, done));
    const std::uint32_t most = box.shape.answer_slots();
    const std::uint32_t flying = all < most ? static_cast<std::uint32_t>(all) : most;
    const std::uint32_t interval = 1500 + 40 * flying;  // at most 1.3 ms
    const std::uint64_t spread = std::uint64_t{e.post.made.slot * 0x9e3779b1u >> 16} * interval;
    e.wait.next_look = now + interval + spread / 65536;
    e.wait.pause_ns = 100 + flying / 2 < 1000 ? 100 + flying / 2 : 1000;
}

/// Looks at the slot, and at the clock, and pauses where neither says anything. `over`: the answer is there, or the
/// deadline has passed. `look`: at the courier's office; a group that has held it too long may be succeeded.
inline ORCHARD_NOINLINE step poll(errand& e) {
    const mailbox_client& box = *e.box;
    std::uint64_t word = 0;
    std::uint64_t now = 0;
    if (is_leader(e.mask)) {
        word = box.device->slots()[e.post.made.slot].load<simt::order::acquire>();
        now = simt::clock_ns();
    }
    word = from_leader(e.mask, word);
    if ((word & slot_word::answered) != 0) {
        e.wait.delivered = word;
        return step::over;
    }
    now = from_leader(e.mask, now);
    // Skip every second look: a look can take longer than the time between two, and the deadline below must still be
    // met.
    const bool may_look = !e.wait.just_looked || mutation::is(mutation::fault::look_again);
    e.wait.just_looked = false;
    if (may_look && now >= e.wait.next_look) {
        e.turn.lost = now - e.wait.changed_at > box.lost_after_ns ? e.wait.courier : 0;
        return step::look;
    }
    const std::uint64_t waited = now - e.wait.progress_at;
    if (!e.wait.half_time && waited > box.timeout_ns / 2) {
        e.wait.half_time = true;
        e.wait.beat_at = now;
        e.wait.beat_before = is_leader(e.mask) ? box.host.beat->load<simt::order::relaxed>() : 0;
    }
    // Some time must lie between the two looks at the beat, also where this group itself was held up.
    if (waited > box.timeout_ns && now - e.wait.beat_at > box.timeout_ns / 4) {
        return step::over;
    }
    simt::pause(e.wait.pause_ns);
    return step::pause;
}

/// At the deadline: leaves the slot to the courier that delivers there later, unless the answer has come just now.
inline ORCHARD_NOINLINE void give_up(errand& e) {
    const mailbox_client& box = *e.box;
    const receipt r = e.post.made;
    std::uint64_t found = 0;
    std::uint32_t alive = 0;
    if (is_leader(e.mask)) {
        alive = box.host.beat->load<simt::order::relaxed>() != e.wait.beat_before ? 1 : 0;
        found = slot_word::waiting(r.tag);
        auto& word = box.device->slots()[r.slot];
        if (mutation::is(mutation::fault::abandonment)) {
            found = 0;
            box.finish(r);
        } else if (word.compare_exchange<simt::order::acquire>(found, slot_word::forsaken(r.tag, r.count, r.leaves))) {
            found = 0;
        }
        if (alive == 0 && found == 0) {
            refusals::note_refusal(*e.box, mailbox::device_part::silent_at(e.wait.beat_before));
        }
    }
    e.wait.delivered = from_leader(e.mask, found);
    alive = from_leader(e.mask, alive);
    if (e.wait.delivered == 0) {
        e.wait.failure = alive != 0 ? failure_reason::commit_blocked : failure_reason::service_not_answering;
    }
}

/// Lets the slot go; the answer.
inline ORCHARD_FN outcome take_answer(const errand& e) {
    if (e.wait.failure != failure_reason::none) {
        return {answer{}, e.wait.failure, leaf_index{0}};
    }
    if (is_leader(e.mask)) {
        e.box->finish(e.post.made);
    }
    outcome o{e.turn.mine != 0 ? answer::unpack(e.turn.mine) : slot_word::unpack(e.wait.delivered),
              failure_reason::none, leaf_index{0}};
    const mailbox::grant got = mailbox::granted_by(o.result, e.post.made.count, e.post.made.leaves);
    o.result.run = got;
    o.leaf = got.leaf;
    return o;
}

}  // namespace waiting

template <class Sink>
ORCHARD_FN outcome mailbox_client::wait(errand_with<Sink>& e) {
    e.wait.begin();
    e.turn.begin(courier::longest_tenure);
    e.turn.ring = e.box->shape.answer_ring(e.post.made.slot);
    e.turn.own_slot = e.post.made.slot;
    e.turn.own_tag = e.post.made.tag;
    e.turn.eager = true;
    for (waiting::step next = waiting::step::look; next != waiting::step::over;) {
        if (next == waiting::step::look) {
            courier::serve(e);
            if (e.turn.mine != 0) {
                break;
            }
            waiting::note_look(e);
            e.turn.eager = false;
        }
        next = waiting::poll(e);
    }
    if (e.turn.mine == 0 && e.wait.delivered == 0) {
        waiting::give_up(e);
    }
    return waiting::take_answer(e);
}

template <class Sink>
ORCHARD_FN outcome mailbox_client::wait(simt::lane_mask mask, receipt r, Sink sink) const {
    errand_with<Sink> e{this, mask, sink};
    e.post.made = r;
    return wait(e);
}

}  // namespace orchard::device
