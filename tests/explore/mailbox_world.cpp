// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "tests/explore/mailbox_world.hpp"

namespace orchard::explore {

using mailbox::poller_word;
using mailbox::request_kind;
using mailbox::response_status;
using mailbox::slot_word;

namespace {

mailbox::request grant_of(std::uint32_t k, bool or_fewer) {
    return {request_kind::grant, 0, 0, {segment_index{0}, k}, or_fewer};
}

}  // namespace

reply mailbox_world::ask(simt::lane_mask mask, std::uint32_t k) {
    const device::ticket r = box.post(mask, grant_of(k, false), false, completion());
    if (r.failure != failure_reason::none) {
        return {.why = r.failure};
    }
    const device::outcome o = box.wait(mask, r, completion());
    const reply result{o.failure, o.result.status, o.result.run};
    s.check(!result.answered() || result.status != response_status::acknowledged,
            "a group that asked for memory got the response to something else");
    if (result.granted()) {
        s.check(result.run.count == k, "a run is not as long as was asked for");
        touch(mask, result.run, true);
    }
    return result;
}

/// Every lane writes a word of its own, or checks it; the leader marks the run as owned, or as no longer owned.
void mailbox_world::touch(simt::lane_mask mask, segment_run run, bool first) {
    char* const base = heap.view.address(to_underlying(run.first));
    auto& own = reinterpret_cast<simt::plain<std::uint64_t>*>(base)[1 + simt::rank_in(mask)];
    simt::sync(mask);  // the leader alone has acquired
    if (first) {
        own.set(s.self() + 1);
    } else {
        s.check(own.get() == s.self() + 1, "a run changed while it was owned");
        simt::sync(mask);  // the leader alone releases
    }
    if (!device::is_leader(mask)) {
        return;
    }
    if (first) {
        for (std::uint32_t i = 0; i < run.count; ++i) {
            s.check(heap.service.is_granted(segment_index{to_underlying(run.first) + i}),
                    "a segment was handed over that the service has not granted");
        }
        heap.mark(base, std::uint64_t{run.count} << segment_shift);
    } else {
        heap.unmark(base, std::uint64_t{run.count} << segment_shift);
    }
}

failure_reason mailbox_world::give(simt::lane_mask mask, segment_run run, bool wait) {
    touch(mask, run, false);
    if (!wait) {
        device::cache_upkeep d(heap.view, mask);
        d.run = run;
        device::hand_back(d);
        return failure_reason::none;
    }
    const device::ticket r = box.post(mask, {request_kind::give_back, 0, 0, run, false}, false, completion());
    if (r.failure != failure_reason::none) {
        if (device::is_leader(mask)) {
            device::cache_put(heap.view, run);
        }
        return r.failure;
    }
    const device::outcome o = box.wait(mask, r, completion());
    s.check(o.failure != failure_reason::none || o.result.status == response_status::acknowledged,
            "a group that returned memory got the response to something else");
    return o.failure;
}

reply mailbox_world::ping(simt::lane_mask mask) {
    const device::ticket r = box.post(mask, {}, false, completion());
    if (r.failure != failure_reason::none) {
        return {.why = r.failure};
    }
    const device::outcome o = box.wait(mask, r, completion());
    s.check(o.failure != failure_reason::none || o.result.status == response_status::acknowledged,
            "a ping got the response to something else");
    return {o.failure, o.result.status, {}};
}

bool mailbox_world::ask_unattended(simt::lane_mask mask, std::uint32_t k) {
    return box.post(mask, grant_of(k, true), true, completion()).failure == failure_reason::none;
}

void mailbox_world::watch_protocol() {
    s.watch(&box.device->ticket, [this](const auto& a) {
        tickets += a.is_load ? 0 : 1;
        s.check(tickets <= slots_freed + box.shape.slots, "more requests are in flight than there are slots");
    });
    for (std::uint32_t i = 0; i < box.shape.slots; ++i) {
        watch_request(i);
        watch_slot(i);
    }
    for (std::uint32_t i = 0; i < 2 * box.shape.slots; ++i) {
        watch_response(i);
    }
    for (std::uint32_t ring = 0; ring < box.shape.pollers; ++ring) {
        watch_poller(ring);
    }
}

void mailbox_world::watch_request(std::uint32_t position) {
    s.watch(&box.host.requests[position], [this, position, written = std::uint64_t{0}](const auto& a) mutable {
        if (!a.is_load) {
            // The request that was here before has the number of this one less the number of slots.
            s.check(written == 0 || requests_read > (written - 1) * box.shape.slots + position,
                    "a request was written over before it was read");
            ++written;
            sent_.at(mailbox::request::slot_field::get(a.after)) = true;
        } else if (box.shape.position(requests_read) == position &&
                   mailbox::request::lap_field::get(a.before) == box.shape.lap_tag(requests_read)) {
            ++requests_read;
        }
    });
}

void mailbox_world::watch_slot(std::uint32_t slot) {
    s.watch(&box.device->slots()[slot], [this, slot](const auto& a) {
        if (a.is_load || a.before == a.after) {
            return;
        }
        const bool was_claimed = (a.before & slot_word::pending) != 0;
        const bool is_claimed = (a.after & slot_word::pending) != 0;
        const std::uint32_t raised = (slot_word::tag_field::get(a.before) + 1) & box.shape.tag_mask();
        const std::uint32_t tag = slot_word::tag_field::get(a.after);
        // A claim whose request was rejected ends with the same tag.
        const bool ends_use = was_claimed && !is_claimed && sent_.at(slot);
        s.check(tag == (ends_use ? raised : slot_word::tag_field::get(a.before)),
                "a slot was claimed or freed with a wrong tag");
        const bool is_delivered = (a.after & ~a.before & slot_word::answered) != 0;
        const bool is_taken_aside = (a.before & slot_word::unattended) != 0 && ends_use;
        slots_freed += ends_use ? 1 : 0;
        sent_.at(slot) = sent_.at(slot) && is_claimed;
        delivered += is_delivered ? 1 : 0;
        taken_aside += is_taken_aside ? 1 : 0;
        s.check((a.before & a.after & slot_word::answered) == 0, "a response was delivered twice");
        s.check((a.before & slot_word::unattended) == 0 || !is_claimed || (a.after & slot_word::unattended) != 0,
                "a group that gave up was given a response after all");
        if (is_delivered || is_taken_aside) {
            on_poller();
        }
    });
}

void mailbox_world::watch_response(std::uint32_t position) {
    ring_state& ring = rings_[position / box.shape.response_slots()];
    s.watch(&box.host.responses[position], [this, &ring](const auto& a) {
        if (a.is_load) {
            const bool by_poller = (ring.word & poller_word::held) != 0 &&
                                   ring.holder == static_cast<std::uint64_t>(simt::position().global_warp());
            s.check(by_poller || !only_pollers_read, "a group that is not the poller reads the host's memory");
        } else {
            s.check(ring.responses < poller_word::cursor(ring.word) + box.shape.response_slots(),
                    "a response was written over before its poller had passed it");
            ++ring.responses;
        }
    });
}

void mailbox_world::watch_poller(std::uint32_t ring) {
    s.watch(&box.device->poller[ring], [this, &r = rings_[ring]](const auto& a) {
        if (a.is_load || a.before == a.after) {
            return;
        }
        check_lease(a.before, a.after);
        s.check(poller_word::cursor(a.after) <= r.responses, "a cursor passed responses that were never written");
        r.word = a.after;
        if ((a.after & poller_word::held) != 0) {
            r.holder = static_cast<std::uint64_t>(simt::position().global_warp());
            on_poller();
        }
    });
}

void mailbox_world::check_lease(std::uint64_t before, std::uint64_t after) {
    s.check(poller_word::cursor(after) - poller_word::cursor(before) <= box.shape.responses_owed(),
            "a cursor went back, or past more responses than were owed");
    const std::uint32_t turns = poller_word::epoch_field::get(after) - poller_word::epoch_field::get(before);
    const bool lets_go = (before & poller_word::held) != 0 && (after & poller_word::held) == 0;
    s.check(turns <= 1 && (!lets_go || turns == 1), "a poller wrote over its successor's word");
}

bool mailbox_world::take_aside(simt::lane_mask mask, std::uint32_t k, segment_run* run) {
    if (!device::cache_take(heap.view, mask, k, run)) {
        return false;
    }
    touch(mask, *run, true);
    return true;
}

void mailbox_world::settle_and_check() {
    // The deadline of waiting groups may have been short; here everything must complete.
    heap.view.mailbox.timeout_ns = 1'000'000'000;
    if (!s.result().ok() || !heap.settle({})) {
        return;
    }
    heap.check_clean(0);
    s.check(s.owned() == 0, "a run is still owned");
}

}  // namespace orchard::explore
