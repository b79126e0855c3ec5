// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The choice of the actor that continues.
///
///     point                     an actor is about to make an operation
///       check_length            a livelock, if the run is too long
///       decision::delay         the actor may be delayed
///       switch_away
///         pick_next             on this actor's stack
///           collect_eligible    the actors that can continue
///             (none: the time passes until the first actor wakes; if none sleeps, it is a deadlock)
///           choose_actor        one of them
///           leave_converge      if it waits in `converge`: which lanes leave with it
///         suspend               unless it has chosen itself

#include <absl/strings/str_cat.h>
#include <cxxabi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "device/simt/explore/simulation.hpp"

namespace orchard::simt::explore {

namespace {

/// The length of a delay: a logical time, and a number of scheduling points after which the actor continues in any
/// case. If all other actors wait for each other, each of their rounds is short, and the time alone would take too many
/// rounds.
/// Short delays let a few operations of others pass, long ones outlast timeouts.
struct stillness {
    std::uint64_t ns;
    std::uint64_t points;
};
constexpr stillness delays[] = {{5'000, 100}, {200'000, 1'000}, {10'000'000, 5'000}};

/// The most calls of the seam by destructors after a run. If there are more, a destructor waits for something that
/// cannot happen.
constexpr std::uint64_t max_calls_when_over = 1'000'000;

/// Stacks kept between runs, because mapping them is expensive.
using fiber_store = std::vector<std::unique_ptr<emulated::lane_fiber>>;
fiber_store& idle_fibers() {
    static thread_local fiber_store store;
    return store;
}

/// Returns a fiber without a task, new if none is idle. Numbers of fibers are given by thread, so that the stacks of
/// one simulation begin at different cache sets.
std::unique_ptr<emulated::lane_fiber> take_fiber() {
    auto& store = idle_fibers();
    if (store.empty()) {
        static thread_local unsigned made = 0;
        return std::make_unique<emulated::lane_fiber>(made++);
    }
    auto fiber = std::move(store.back());
    store.pop_back();
    return fiber;
}

}  // namespace

/// Swaps the exceptions of the actor and of the thread. The runtime keeps exceptions for each thread (Itanium C++ ABI,
/// exception handling, 2.2.2), but several actors share a thread. An actor that is switched away inside a handler must
/// find its own exception again.
void simulation::swap_exceptions(actor& a) {
    void* const of_thread = abi::__cxa_get_globals();
    exceptions_of_thread found;
    std::memcpy(&found, of_thread, sizeof(found));
    std::memcpy(of_thread, &a.exceptions, sizeof(found));
    a.exceptions = found;
}

/// Returns whether an exception of the running actor is on its way to a handler: a destructor makes the current call.
bool simulation::exception_in_flight() { return std::uncaught_exceptions() != 0; }

/// Runs an actor until it is switched away or ends.
void simulation::resume(actor& a) {
    if (!a.started) {
        a.fiber = take_fiber();
        a.fiber->assign(&simulation::actor_main, &a);
        a.started = true;
    }
    current_ = a.id;
    in_actor_ = true;
    swap_exceptions(a);
    a.fiber->resume();
    swap_exceptions(a);
    in_actor_ = false;
    if (a.is == state::ended) {
        idle_fibers().push_back(std::move(a.fiber));
    }
}

/// Runs an actor's body, on its own stack. An exception of the program is a violation.
void simulation::actor_main(void* argument) noexcept {
    actor& a = *static_cast<actor*>(argument);
    simulation& s = *a.in;
    try {
        a.body();
    } catch (const run_is_over&) {  // the verdict is set already
    } catch (const std::exception& error) {
        s.note_violation(absl::StrCat(a.name, " threw an exception: ", error.what()));
    } catch (...) {
        s.note_violation(absl::StrCat(a.name, " threw what is no std::exception"));
    }
    s.end(a);
}

/// Ends a call of the seam after the run is over: leaves the actor's body by an exception. In a destructor that runs
/// because of another exception, does nothing. @returns false
bool simulation::leave() {
    // A destructor, or a handler that swallows `run_is_over`, could otherwise keep the process in a loop for ever: no
    // call of the seam waits any more. The process ends, because nothing can end this stack alone.
    if (++calls_when_over_ > max_calls_when_over) {
        std::fprintf(stderr,
                     "simulation: the run is over, but %s does not end: a destructor waits, or an exception of "
                     "unknown type is caught, at %s (%s)\n",
                     me().name.c_str(), me().doing, text_of(me().where).c_str());
        std::abort();
    }
    if (!exception_in_flight()) {
        throw run_is_over{};
    }
    return false;
}

/// Reports a violation by the running actor, and leaves its body if that is possible.
void simulation::give_up(std::string what) {
    note_violation(std::move(what));
    leave();
}

/// Reports a livelock if the run is too long. Reads of the clock count, too: a loop may do nothing else.
void simulation::check_length() {
    if (verdict_.points + clock_reads_ > settings_.most_points) {
        give_up(absl::StrCat("livelock: no end after ", settings_.most_points, " operations\n", where_actors_are()));
    }
}

/// Makes a scheduling point: other actors may run before it returns. It comes before the operation, so that the
/// operation and its record are one step. May throw, if the run ends meanwhile.
void simulation::point(const char* doing, site where) {
    actor& a = me();
    a.doing = doing;
    a.where = where;
    now_ns_ += point_ns;
    ++verdict_.points;
    check_length();
    if (exception_in_flight()) {
        return;  // no further exception may leave its destructor if the run ends meanwhile
    }
    if (delays_ < settings_.delays && choices_.choose(decision::delay, 2) == 1) {
        // The delay is a sleep that ends by itself. `switch_away` below then chooses another actor.
        ++delays_;
        const std::uint32_t length = pick(std::size(delays));
        stood_still_ns_ += delays[length].ns;
        sleep_until(a, now_ns_ + delays[length].ns, verdict_.points + delays[length].points);
        note_event(a, "stands still", length);
    }
    switch_away();
}

/// Makes an actor sleep until a logical time or a scheduling point, whichever comes first.
void simulation::sleep_until(actor& a, std::uint64_t ns, std::uint64_t point) {
    a.is = state::sleeping;
    a.wakes_at = ns;
    a.wakes_at_point = point;
}

/// Chooses the actor that continues, and jumps to the scheduler unless it is this one. Returns when this actor has been
/// chosen again. Throws if the run ended meanwhile.
void simulation::switch_away() {
    next_ = pick_next();
    if (next_ == current_) {
        return;
    }
    me().fiber->suspend();
    if (unwinding_) {
        throw run_is_over{};
    }
}

/// Returns whether the actor could continue now. An actor in a collective, or one that waits for a word, becomes ready
/// by the operation of another actor.
bool simulation::can_run(const actor& a) const {
    if (a.stopped) {
        return false;
    }
    switch (a.is) {
        case state::ready: return true;
        case state::sleeping: return a.wakes_at <= now_ns_ || a.wakes_at_point <= verdict_.points;
        case state::converging: return !a.gathers || !others_of_warp_run(a);
        default: return false;
    }
}

/// Returns whether another lane of the warp could still come to this `converge` without waiting for anything.
bool simulation::others_of_warp_run(const actor& a) const {
    bool any = false;
    emulated::for_each_lane(a.warp->lanes.runnable(), [&](int l) {
        const actor& other = *actors_[a.warp->actors[static_cast<std::size_t>(l)]];
        any = any || (!other.stopped && other.is == state::ready);
    });
    return any;
}

/// Collects the actors that can continue, beginning with the one that ran last. @returns whether the run waits for any
/// actor
bool simulation::collect_eligible() {
    // The order is that of the actors' numbers, the last one to run in front, so that the possibilities of a choice do
    // not depend on anything else.
    eligible_.clear();
    first_wake_ = never;
    bool live = false;
    bool can_go_on = false;  // not all of them wait in collectives that only another one of them could complete
    if (current_ != none && can_run(me())) {
        eligible_.push_back(current_);
    }
    for (const actor* const a : live_) {
        if (a->stopped) {
            continue;
        }
        if (a->is == state::sleeping) {
            first_wake_ = std::min(first_wake_, a->wakes_at);
        }
        if (!a->daemon) {
            const bool waits_for_lanes = a->is == state::meeting || a->is == state::in_block;
            live = live || !waits_for_lanes || !held_by_stopped(*a);
            can_go_on = can_go_on || !waits_for_lanes;
        }
        if (a->id != current_ && can_run(*a)) {
            eligible_.push_back(a->id);
        }
    }
    // Daemons might continue, but no actor that the run waits for ever could. That is a deadlock, which is reported at
    // once; otherwise the run would end much later, as a livelock.
    if (!can_go_on) {
        eligible_.clear();
        first_wake_ = never;
    }
    return live;
}

/// Chooses the actor that continues, and makes it ready. Returns `none` if the run is over.
actor_id simulation::pick_next() {
    if (!verdict_.ok() || unwinding_ || !collect_eligible()) {
        return none;
    }
    // All sleep, or wait for an actor that sleeps: the time until the first one wakes passes at once.
    if (eligible_.empty() && first_wake_ != never) {
        now_ns_ = first_wake_;
        (void)collect_eligible();
    }
    if (eligible_.empty()) {
        note_violation(absl::StrCat("deadlock: no actor can go on\n", where_actors_are()));
        return none;
    }
    actor& chosen = *actors_[eligible_[choices_.choose_actor(eligible_, eligible_.front() == current_)]];
    if (chosen.is == state::converging) {
        leave_converge(chosen);
    }
    chosen.is = state::ready;
    return chosen.id;
}

/// Releases the lane together with some of the lanes that wait at the same place, as one group.
void simulation::leave_converge(const actor& a) {
    emulated::warp& w = a.warp->lanes;
    const site where = w.wait_of(a.lane).at.where;
    // Lanes at other places cannot be in the group. Those that are left out wait on, and may form a group of their own.
    lane_mask group = 0;
    emulated::for_each_lane(w.converging(), [&](int l) {
        group |= emulated::same_site(w.wait_of(l).at.where, where) ? lane_mask{1} << l : 0;
    });
    const lane_mask own = lane_mask{1} << a.lane;
    if (group != own && choices_.choose(decision::group, 2) == 1) {
        emulated::for_each_lane(group & ~own, [&](int l) {
            group &= ~(choices_.choose(decision::member, 2) == 1 ? lane_mask{1} << l : 0);
        });
    }
    w.converge_as(group);
    emulated::for_each_lane(group,
                            [&](int l) { actors_[a.warp->actors[static_cast<std::size_t>(l)]]->is = state::ready; });
    note_lanes(a, "converge", group, where);
}

/// Returns whether a lane waits in a collective, or for its block, for a stopped lane, or for a lane that does so.
bool simulation::held_by_stopped(const actor& a) const {
    if (!any_stopped_) {
        return false;
    }
    const block_of_lanes& block = *a.warp->of;
    const bool block_is_held = block.waiting != 0 && std::ranges::any_of(block.actors, [this](actor_id id) {
                                   const actor& other = *actors_[id];
                                   return other.stopped || (held_lanes(*other.warp, false) >> other.lane & 1) != 0;
                               });
    return a.is == state::in_block ? block_is_held : (held_lanes(*a.warp, block_is_held) >> a.lane & 1) != 0;
}

/// Returns the lanes of a warp that are stopped, and those that wait in collectives for one of them.
/// @param block_is_held  those that wait for their block count as stopped
lane_mask simulation::held_lanes(const warp_of_lanes& of, bool block_is_held) const {
    const emulated::warp& w = of.lanes;
    // Begins with the stopped lanes, and adds lanes that wait for one in the set until the set no longer grows.
    lane_mask held = 0;
    emulated::for_each_lane(w.present() & ~w.ended(), [&](int l) {
        const actor& other = *actors_[of.actors[static_cast<std::size_t>(l)]];
        const bool counts = other.stopped || (block_is_held && other.is == state::in_block);
        held |= counts ? lane_mask{1} << l : 0;
    });
    for (lane_mask before = 0; before != held;) {
        before = held;
        emulated::for_each_lane(w.meeting_lanes() & ~held, [&](int l) {
            held |= (w.wait_of(l).at.mask & ~w.companions_of(l) & held) != 0 ? lane_mask{1} << l : 0;
        });
    }
    return held;
}

}  // namespace orchard::simt::explore
