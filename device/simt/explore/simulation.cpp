// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The life of a simulation: its actors, its checks, its end. simulation_schedule.cpp chooses actors;
/// simulation_seam.cpp executes their operations.
///
///     simulation s(from)        draws the factor of pauses
///     add_daemon, add_kernel    actors that have not begun
///     run                       returns true: all actors but daemons have ended, or were stopped
///     (the scenario checks words, changes them, adds further actors)
///     run                       daemons continue, others begin
///     ~simulation               unwinds the daemons
///
/// After a violation, `run` unwinds all actors before it returns false, and no later call runs any.

#include "device/simt/explore/simulation.hpp"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "device/simt/emulated/report.hpp"

namespace orchard::simt::explore {

namespace {

// The factors by which the pauses of a run are longer than asked for; each run draws one.
constexpr std::uint32_t stretches[] = {1, 8, 64};

/// The name of code outside of actors: the scenario itself makes checks and owns ranges, too.
constexpr const char* outside = "the scenario";

}  // namespace

simulation::simulation(choices& from, const settings& how) : choices_{from}, settings_{how}, memory_{from} {
    memory_.set_races_are_violations(how.races_are_violations);
    pause_stretch_ = how.pause_stretch != 0 ? how.pause_stretch : stretches[pick(std::size(stretches))];
}

simulation::~simulation() { unwind(); }

/// Throws unless the simulation's own thread calls it. Functions that add, run, stop or end actors call it, and those
/// that may report a violation.
void simulation::must_be_own_thread() const {
    if (std::this_thread::get_id() != owner_) {
        throw std::logic_error("a simulation is used by a thread that did not make it");
    }
}

/// Adds an actor that has not begun. It is ordered after all actors that have ended, as after a thread that was joined,
/// and after the actor that adds it.
simulation::actor& simulation::add(std::string name, party of, std::function<void()> body) {
    must_be_own_thread();
    std::vector<actor_id> before;
    // The first of those that have ended knows what all of them did.
    if (!ended_.empty()) {
        memory_.pass_on(ended_, ended_.front());
        ended_.resize(1);
        before.push_back(ended_.front());
    }
    if (in_actor_) {
        before.push_back(current_);
    }
    auto made = std::make_unique<actor>();
    made->name = std::move(name);
    made->host = of.host;
    made->body = std::move(body);
    made->in = this;
    made->id = memory_.add_actor(of, before);
    live_.push_back(made.get());
    actors_.push_back(std::move(made));
    return *actors_.back();
}

actor_id simulation::add_daemon(std::string name, std::function<void()> body) {
    actor& a = add(std::move(name), {true, 0}, std::move(body));
    a.daemon = true;
    return a.id;
}

actor_id simulation::add_host(std::string name, std::function<void()> body) {
    return add(std::move(name), {true, 0}, std::move(body)).id;
}

void simulation::add_kernel(const std::vector<block_shape>& blocks, std::function<void(thread_position)> body) {
    lanes_.clear();
    // All blocks of a grid have one size, that of the largest here; in smaller ones, threads are missing at the end.
    std::size_t max_warps = 0;
    for (const block_shape& b : blocks) {
        max_warps = std::max(max_warps, b.size());
    }
    // One copy of the function object for all lanes, as a kernel's arguments are shared.
    const auto shared_body = std::make_shared<std::function<void(thread_position)>>(std::move(body));
    for (std::uint32_t b = 0; b < blocks.size(); ++b) {
        blocks_.push_back(std::make_unique<block_of_lanes>());
        for (std::uint32_t w = 0; w < blocks[b].size(); ++w) {
            warps_.push_back(std::make_unique<warp_of_lanes>());
            warp_of_lanes& warp = *warps_.back();
            warp.lanes.reset(blocks[b][w]);
            warp.of = blocks_.back().get();
            warp.block = b;
            warp.index = w;
            for (int l = 0; l < blocks[b][w]; ++l) {
                const thread_position at{b, w * warp_size + static_cast<std::uint32_t>(l),
                                         static_cast<std::uint32_t>(max_warps) * warp_size,
                                         static_cast<std::uint32_t>(blocks.size())};
                actor& a =
                    add(absl::StrFormat("b%d.w%d.l%d", b, w, l), {false, b}, [shared_body, at] { (*shared_body)(at); });
                a.warp = &warp;
                a.lane = l;
                a.at = at;
                warp.actors[static_cast<std::size_t>(l)] = a.id;
                warp.of->actors.push_back(a.id);
                lanes_.push_back(a.id);
            }
        }
    }
}

bool simulation::run() {
    must_be_own_thread();
    if (emulated::current_simulation != nullptr) {
        throw std::logic_error("a simulation is run by an actor of a simulation");
    }
    memory_.take_up_outside_changes();
    {
        const in_charge here(*this);
        // An actor that comes back has been switched away, and has chosen its successor in `switch_away`; an actor that
        // has ended has not.
        for (next_ = pick_next(); next_ != none;) {
            actor& a = *actors_[next_];
            resume(a);
            if (a.is == state::ended) {
                next_ = pick_next();
            }
        }
    }
    // Without a violation, daemons stay where they are, and continue in the next run.
    if (!verdict_.ok()) {
        unwind();
    }
    verdict_.trace_hash = trace_.hash();
    return verdict_.ok();
}

void simulation::end_all() {
    must_be_own_thread();
    if (in_actor_) {
        throw std::logic_error("a simulation is ended by one of its actors");
    }
    unwind();
}

/// Makes all actors that have begun leave their bodies, in the order in which they were added. Each throws
/// `run_is_over` where it was switched away. From then on, no call of the seam has an effect.
void simulation::unwind() {
    unwinding_ = true;
    const in_charge here(*this);
    for (const auto& a : actors_) {
        if (a->started && a->is != state::ended) {
            resume(*a);
        }
    }
}

/// Notes that an actor has left its body. It is a violation if lanes wait for this one in a collective, or threads of
/// its block. They are not examined if the run is over anyway: lanes then end wherever they are.
void simulation::end(actor& a) {
    a.is = state::ended;
    live_.erase(std::ranges::find(live_, &a));
    ended_.push_back(a.id);
    if (a.warp == nullptr || unwinding_ || !verdict_.ok()) {
        return;
    }
    a.warp->lanes.end(a.lane);
    if (a.warp->lanes.waiting_for_ended() != 0) {
        note_violation(emulated::describe_early_end(a.warp->lanes, a.at.block, a.at.thread));
    }
    block_of_lanes& block = *a.warp->of;
    block.any_ended = true;
    if (block.waiting != 0) {
        note_violation(absl::StrCat(a.name, " left the kernel while ", block.waiting, " threads wait for its block\n",
                                    where_actors_are()));
    }
}

/// Keeps the first violation: later ones are often its consequences.
void simulation::note_violation(std::string what) {
    if (verdict_.ok()) {
        verdict_.violation = std::move(what);
    }
}

void simulation::check(bool holds, std::string_view otherwise) {
    if (holds) {
        return;
    }
    must_be_own_thread();
    const absl::string_view text(otherwise.data(), otherwise.size());
    // Outside of actors there is nothing to leave, and in an actor whose run is over already, nothing to report.
    if (!in_actor_) {
        note_violation(std::string(text));
    } else if (simulated()) {
        give_up(absl::StrCat(me().name, ": ", text));
    }
}

void simulation::stop_for_good(actor_id id) {
    must_be_own_thread();
    actor& a = *actors_.at(id);
    if (a.is == state::ended || a.stopped || (in_actor_ && !simulated())) {
        return;
    }
    a.stopped = true;
    any_stopped_ = true;
    note_event(a, "is stopped for good", 0);
    // An actor that stops itself never runs again, so that `switch_away` returns only by an exception, at the end.
    if (in_actor_ && id == current_ && !exception_in_flight()) {
        switch_away();
    }
}

void simulation::name_words(const void* first, std::size_t bytes, std::string name, std::size_t stride) {
    trace_.names.add(first, bytes, std::move(name), stride);
}

void simulation::name_bits(const void* first, std::size_t bytes, std::string name, std::size_t stride) {
    trace_.names.add(first, bytes, std::move(name), stride, true);
}

void simulation::own(const void* first, std::size_t bytes, std::string_view what) {
    must_be_own_thread();
    const absl::string_view text(what.data(), what.size());
    const auto named = [this](const void* at) {
        return trace_.names.text_of_value(reinterpret_cast<std::uintptr_t>(at), nullptr);
    };
    const auto* begin = static_cast<const char*>(first);
    // Two ranges overlap if each begins before the other one ends. A scenario owns few ranges at a time; all are
    // compared.
    for (const owned_range& r : owned_) {
        if (begin < r.first + r.bytes && r.first < begin + bytes) {
            check(false, absl::StrFormat("was given %s %s, which overlaps %s %s of %s", text, named(first), r.what,
                                         named(r.first), r.id == none ? outside : actors_[r.id]->name.c_str()));
        }
    }
    owned_.push_back({begin, bytes, in_actor_ ? current_ : none, std::string(text)});
}

void simulation::disown(const void* first) {
    const auto found = std::ranges::find(owned_, static_cast<const char*>(first), &owned_range::first);
    check(found != owned_.end(), "gives back what no actor owns");
    if (found != owned_.end()) {
        *found = std::move(owned_.back());  // the order of the ranges does not matter
        owned_.pop_back();
    }
}

// A further watcher of the same word replaces the one before.
void simulation::watch(const volatile void* word, std::function<void(const watched_access&)> see) {
    watched_[word] = std::move(see);
}

/// Calls the watcher of the word that was just accessed, if there is one.
void simulation::tell_watcher(const shared_access& a, bool only_read) {
    if (watched_.empty()) {
        return;
    }
    const auto found = watched_.find(a.word);
    if (found != watched_.end()) {
        found->second({only_read, memory_.last().before, memory_.last().after});
    }
}

}  // namespace orchard::simt::explore
