// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The life of a simulation: its actors, its checks, its end. simulation_schedule.cpp chooses actors;
/// simulation_seam.cpp executes their operations.

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

constexpr std::uint32_t stretches[] = {1, 8, 64};

/// The name of code outside of actors: the scenario itself makes checks and owns ranges, too.
constexpr const char* outside = "the scenario";

}  // namespace

simulation::simulation(choices& from, const settings& how) : choices_{from}, settings_{how}, memory_{from} {
    memory_.set_races_are_violations(how.races_are_violations);
    pause_stretch_ = how.pause_stretch != 0 ? how.pause_stretch : stretches[pick(std::size(stretches))];
}

simulation::~simulation() { unwind(); }

/// Throws unless the simulation's own thread calls it. All functions call it that are neither const nor operations of
/// actors.
void simulation::must_be_own_thread() const {
    if (std::this_thread::get_id() != owner_) {
        throw std::logic_error("a simulation is used by a thread that did not make it");
    }
}

simulation::actor& simulation::add(std::string name, party of, std::function<void()> body) {
    must_be_own_thread();
    std::vector<actor_id> before;
    for (const auto& a : actors_) {
        if (a->is == state::ended || (in_actor_ && a->id == current_)) {
            before.push_back(a->id);
        }
    }
    auto made = std::make_unique<actor>();
    made->name = std::move(name);
    made->host = of.host;
    made->body = std::move(body);
    made->in = this;
    made->id = memory_.add_actor(of, before);
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
    std::size_t max_warps = 0;
    for (const block_shape& b : blocks) {
        max_warps = std::max(max_warps, b.size());
    }
    const auto shared_body = std::make_shared<std::function<void(thread_position)>>(std::move(body));
    for (std::uint32_t b = 0; b < blocks.size(); ++b) {
        for (std::uint32_t w = 0; w < blocks[b].size(); ++w) {
            warps_.push_back(std::make_unique<warp_of_lanes>());
            warp_of_lanes& warp = *warps_.back();
            warp.lanes.reset(blocks[b][w]);
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
        for (next_ = pick_next(); next_ != none;) {
            actor& a = *actors_[next_];
            resume(a);
            if (a.is == state::ended) {
                next_ = pick_next();
            }
        }
    }
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

void simulation::unwind() {
    unwinding_ = true;
    const in_charge here(*this);
    for (const auto& a : actors_) {
        if (a->started && a->is != state::ended) {
            resume(*a);
        }
    }
}

void simulation::end(actor& a) {
    a.is = state::ended;
    if (a.warp == nullptr || unwinding_ || !verdict_.ok()) {
        return;
    }
    a.warp->lanes.end(a.lane);
    if (a.warp->lanes.waiting_for_ended() != 0) {
        note_violation(emulated::describe_early_end(a.warp->lanes, a.at.block, a.at.thread));
    }
}

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
    if (in_actor_ && id == current_ && !exception_in_flight()) {
        switch_away();
    }
}

void simulation::name_words(const void* first, std::size_t bytes, std::string name, std::size_t stride) {
    trace_.names.add(first, bytes, std::move(name), stride);
}

void simulation::own(const void* first, std::size_t bytes, std::string_view what) {
    must_be_own_thread();
    const absl::string_view text(what.data(), what.size());
    const auto named = [this](const void* at) {
        return trace_.names.text_of_value(reinterpret_cast<std::uintptr_t>(at));
    };
    const auto* begin = static_cast<const char*>(first);
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
        *found = std::move(owned_.back());
        owned_.pop_back();
    }
}

void simulation::watch(const volatile void* word, std::function<void(const watched_access&)> see) {
    watched_[word] = std::move(see);
}

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
