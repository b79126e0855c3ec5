// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The functions of the seam: each operation of an actor is a scheduling point, and is then executed.
///
/// Most of them have the same steps:
///
///     simulated()      false in a destructor after the end of the run: returns a harmless value
///     point            other actors may run here; throws if the run ends meanwhile
///     count            the costs of lanes, as on the emulated device
///     memory_, warp    the operation itself; no other actor runs until the next point
///     note_...         hash, timeline, watchers
///
/// While an exception of the actor is in flight, no other actor may run: if the run ended meanwhile, `switch_away`
/// would throw a second exception out of a destructor. Operations that can be made alone are made; a wait for others
/// ends the run.

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <vector>

#include "device/simt/emulated/report.hpp"
#include "device/simt/explore/simulation.hpp"

namespace orchard::simt::explore {

using emulated::wait_kind;

namespace {

/// Returns the name of the operation in kernel code.
const char* name_of(modification what) {
    switch (what) {
        case modification::add: return "fetch_add";
        case modification::subtract: return "fetch_sub";
        case modification::bit_or: return "fetch_or";
        case modification::bit_and: return "fetch_and";
        case modification::exchange: break;
    }
    return "exchange";
}

const char* fence_of(scope s) {
    return s == scope::block ? "fence block" : s == scope::device ? "fence device" : "fence system";
}

}  // namespace

/// Counts an access of a lane, as `emulated::on_access` does. Accesses of host threads cost the device nothing.
void simulation::count(emulated::access kind, scope within) {
    if (me().host) {
        return;
    }
    emulated::costs& c = verdict_.lane_costs;
    const bool host = within == scope::system;
    switch (kind) {
        case emulated::access::load: ++(host ? c.host_words_read : c.device_loads); break;
        case emulated::access::store: ++(host ? c.host_words_written : c.device_stores); break;
        case emulated::access::read_modify_write: ++(host ? c.host_atomics : c.device_atomics); break;
    }
}

/// Executes an operation on memory, and returns its result. A violation that it throws ends the run: the actor leaves
/// its body by `run_is_over`. If another exception is in flight, returns 0 instead.
template <class Operation>
auto simulation::in_memory(Operation operation) -> decltype(operation()) {
    try {
        return operation();
    } catch (const violation& v) {
        give_up(absl::StrCat(me().name, ": ", v.what));
        return {};
    }
}

std::uint64_t simulation::load(const shared_access& a) {
    if (!simulated()) {
        return 0;
    }
    point("load", a.where);
    count(emulated::access::load, a.within);
    return in_memory([&] {
        const std::uint64_t value = memory_.load(current_, a);
        note_access(a, "load");
        return value;
    });
}

void simulation::store(const shared_access& a, std::uint64_t value) {
    if (!simulated()) {
        return;
    }
    point("store", a.where);
    count(emulated::access::store, a.within);
    in_memory([&] {
        memory_.store(current_, a, value);
        note_access(a, "store");
        return true;
    });
}

std::uint64_t simulation::modify(const shared_access& a, modification what, std::uint64_t operand) {
    if (!simulated()) {
        return 0;
    }
    point(name_of(what), a.where);
    count(emulated::access::read_modify_write, a.within);
    return in_memory([&] {
        const std::uint64_t before = memory_.modify(current_, a, what, operand);
        note_access(a, name_of(what));
        return before;
    });
}

bool simulation::compare_exchange(const shared_access& a, order on_failure, std::uint64_t& expected,
                                  std::uint64_t desired) {
    if (!simulated()) {
        // A success, so that a loop in a destructor ends.
        return true;
    }
    point("compare_exchange", a.where);
    count(emulated::access::read_modify_write, a.within);
    return in_memory([&] {
        const bool done = memory_.compare_exchange(current_, a, on_failure, expected, desired);
        note_access(a, "compare_exchange", done ? "" : ", unexpected");
        return done;
    });
}

// A fence accesses no word: it is an event without a value.
void simulation::fence(scope within, site where) {
    if (!simulated()) {
        return;
    }
    point("fence", where);
    memory_.fence(current_, within);
    note_event(me(), fence_of(within), 0);
}

/// Waits as a futex does. The word is read like by any load. An actor that found it unchanged sleeps only if the newest
/// value is unchanged, too; nothing happens between that check and the sleep.
void simulation::wait_while(const shared_access& a, std::uint64_t old) {
    if (!simulated()) {
        return;
    }
    // Each round is a load with a point of its own. An old value may be seen although the word has changed; then the
    // actor loads again, since no notification may come any more.
    for (;;) {
        point("wait", a.where);
        const std::uint64_t value = in_memory([&] {
            const std::uint64_t seen = memory_.load(current_, a);
            note_access(a, "load");
            return seen;
        });
        if (value != old || !verdict_.ok()) {
            return;
        }
        if (memory_.newest(a) != old) {
            continue;
        }
        if (exception_in_flight()) {
            return give_up(absl::StrCat(me().name, ": waits for a word while an exception is in flight"));
        }
        // From here to `switch_away` no other actor runs, so that no notification is lost.
        actor& waiter = me();
        waiter.is = state::waiting;
        waiter.waits_for = a.word;
        waiter.waits_for_number = memory_.last().word;
        switch_away();
    }
}

void simulation::notify(const volatile void* word) {
    if (!simulated()) {
        return;
    }
    // `notify_all` has no place of its own: that of the last operation stands for it.
    point("notify", me().where);
    for (const auto& a : actors_) {
        if (a->is == state::waiting && a->waits_for == word) {
            a->is = state::ready;
            note_event(*a, "is notified", 0);
        }
    }
}

// Neither of these two is a scheduling point: the results never change.
int simulation::lane_id() { return me().lane; }

thread_position simulation::position() { return me().at; }

std::uint64_t simulation::clock_ns() {
    if (simulated()) {
        // Time advances, so that an actor that only reads the clock makes progress.
        now_ns_ += point_ns;
        ++clock_reads_;
        me().doing = "clock_ns";
        check_length();
    }
    return now_ns_;
}

/// Returns the lanes that leave together. A choice decides here whether this lane waits for lanes of its warp that
/// still run. When it is scheduled, further choices decide which of the waiting lanes leave with it (`leave_converge`).
/// It may also leave earlier, in the group of another lane.
lane_mask simulation::converge(site where) {
    const lane_mask own = lane_mask{1} << me().lane;
    if (me().host || !simulated()) {
        return own;
    }
    point("converge", where);
    // A group of one lane is always allowed.
    if (exception_in_flight()) {
        return own;
    }
    actor& a = me();
    a.warp->lanes.arrive_at_converge(a.lane, where);
    a.is = state::converging;
    a.gathers = choices_.choose(decision::alone, 2) == 0;
    switch_away();
    return static_cast<lane_mask>(a.warp->lanes.result_of(a.lane));
}

/// Returns the lane's result of a collective, after all lanes of the mask have come. A host thread is alone in its
/// warp.
std::uint64_t simulation::meet(wait_kind kind, lane_mask mask, std::uint64_t operand, int source, site where) {
    const std::uint64_t alone = kind == wait_kind::match ? 1 : operand;
    if (me().host || !simulated()) {
        return alone;
    }
    point(emulated::name_of(kind), where);
    actor& a = me();
    emulated::warp& w = a.warp->lanes;
    const emulated::meeting at{kind, mask, where};
    const emulated::refusal why = w.check(a.lane, at, source);
    if (why != emulated::refusal::none) {
        give_up(emulated::describe_rejection(why, w, at, source, a.at.block, a.at.thread));
        return alone;
    }
    // The others could come only if this lane were switched away.
    if (exception_in_flight() && mask != lane_mask{1} << a.lane) {
        give_up(absl::StrCat(a.name, ": meets other lanes while an exception is in flight"));
        return alone;
    }
    const lane_mask released = w.arrive(a.lane, at, operand, source);
    if (released == 0) {
        a.is = state::meeting;
        switch_away();
    } else {
        complete_meeting(kind, released, where);
    }
    return w.result_of(a.lane);
}

/// Completes a collective after the last lane of its mask has arrived: all its lanes continue.
void simulation::complete_meeting(wait_kind kind, lane_mask released, site where) {
    const actor& a = me();
    ++verdict_.lane_costs.collectives;
    std::vector<actor_id> group;
    emulated::for_each_lane(released, [&](int l) {
        group.push_back(a.warp->actors[static_cast<std::size_t>(l)]);
        actors_[group.back()]->is = state::ready;
    });
    // No other collective orders memory: CUDA promises it for `__syncwarp` alone.
    if (kind == wait_kind::sync) {
        memory_.join(group);
    }
    note_lanes(a, emulated::name_of(kind), released, where);
}

/// Returns the sums over the threads of the block, after all of them have come. A host thread is a block of its own.
block_sum simulation::sum_in_block(std::uint64_t value, site where) {
    if (me().host || !simulated()) {
        return {0, value};
    }
    point("sum_in_block", where);
    actor& a = me();
    block_of_lanes& block = *a.warp->of;
    if (block.any_ended) {
        give_up(absl::StrCat(a.name, ": waits for the threads of its block, one of which has left the kernel"));
        return {0, value};
    }
    // The others could come only if this thread were switched away.
    if (exception_in_flight() && block.actors.size() != 1) {
        give_up(absl::StrCat(a.name, ": waits for its block while an exception is in flight"));
        return {0, value};
    }
    a.summand = value;
    if (++block.waiting < block.actors.size()) {
        a.is = state::in_block;
        switch_away();
    } else {
        complete_sum(block);
    }
    return a.sums;
}

/// Gives all threads of a block their sums, after the last one has come: they continue, ordered as after a barrier.
void simulation::complete_sum(block_of_lanes& block) {
    block.waiting = 0;
    std::uint64_t sum = 0;
    for (const actor_id id : block.actors) {
        actor& other = *actors_[id];
        other.sums.before = sum;
        sum += other.summand;
        other.is = state::ready;
    }
    for (const actor_id id : block.actors) {
        actors_[id]->sums.all = sum;
    }
    memory_.join(block.actors);
    note_event(me(), "sum_in_block", sum);
}

/// Lets logical time pass for this actor: the hint times the run's factor, and at least 1 ns, so that a loop of pauses
/// without a hint makes progress. No delay is drawn, since a pause is a sleep already.
void simulation::pause(std::uint32_t nanoseconds, site where) {
    if (!simulated()) {
        return;
    }
    actor& a = me();
    a.doing = "pause";
    a.where = where;
    verdict_.lane_costs.pauses += a.host ? 0 : 1;
    ++verdict_.points;
    check_length();
    const std::uint64_t until = now_ns_ + 1 + std::uint64_t{nanoseconds} * pause_stretch_;
    // By priority, an actor that waits in a loop would otherwise be chosen again and again.
    choices_.yielded(a.id);
    if (exception_in_flight()) {
        now_ns_ = until;
        return;
    }
    sleep_until(a, until, never);
    switch_away();
}

}  // namespace orchard::simt::explore
