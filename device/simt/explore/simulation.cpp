// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "device/simt/explore/simulation.hpp"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <stdexcept>
#include <utility>

#include "device/simt/emulated/report.hpp"

namespace orchard::simt::explore {

namespace {

using emulated::wait_kind;

/// What takes an actor out of its body when the run is over. Not a std::exception: nobody's handler is for it.
struct run_is_over {};

constexpr std::uint64_t point_ns = 20;  // logical time that an operation takes
constexpr std::uint64_t delays_ns[] = {5'000, 200'000, 10'000'000};
constexpr std::uint32_t stretches[] = {1, 8, 64};

/// Stacks kept between runs: mapping them is dear.
using fiber_store = std::vector<std::unique_ptr<emulated::lane_fiber>>;
fiber_store& idle_fibers() {
    static thread_local fiber_store store;
    return store;
}

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

simulation::simulation(choices& from, const settings& how) : choices_{from}, settings_{how}, memory_{from} {
    memory_.set_races_are_violations(how.races_are_violations);
    pause_stretch_ = how.pause_stretch != 0 ? how.pause_stretch : stretches[pick(std::size(stretches))];
}

simulation::~simulation() { unwind(); }

simulation::actor& simulation::add(std::string name, party of, std::function<void()> body) {
    std::vector<actor_id> before;
    for (const auto& a : actors_) {
        if (a->is == state::ended) {
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
    std::size_t most_warps = 0;
    for (const block_shape& b : blocks) {
        most_warps = std::max(most_warps, b.size());
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
                                         static_cast<std::uint32_t>(most_warps) * warp_size,
                                         static_cast<std::uint32_t>(blocks.size())};
                actor& a = add(absl::StrFormat("b%d.w%d.l%d", b, w, l), {false, b},
                               [shared_body, at] { (*shared_body)(at); });
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
    memory_.take_up_outside_changes();
    emulated::current_simulation = this;
    for (next_ = pick_next(); next_ != none;) {
        current_ = next_;
        actor& a = me();
        if (!a.started) {
            a.started = true;
            a.fiber = take_fiber();
            a.fiber->assign(&simulation::actor_main, &a);
        }
        in_actor_ = true;
        a.fiber->resume();
        in_actor_ = false;
        if (a.is == state::ended) {
            idle_fibers().push_back(std::move(a.fiber));
            next_ = pick_next();
        }
    }
    emulated::current_simulation = nullptr;
    if (!verdict_.ok()) {
        unwind();
    }
    verdict_.trace_hash = trace_.hash();
    return verdict_.ok();
}

void simulation::unwind() {
    unwinding_ = true;
    emulated::simulation_hooks* const before = std::exchange(emulated::current_simulation, this);
    for (const auto& a : actors_) {
        if (a->started && a->is != state::ended) {
            current_ = a->id;
            in_actor_ = true;
            a->fiber->resume();
            in_actor_ = false;
            idle_fibers().push_back(std::move(a->fiber));
        }
    }
    emulated::current_simulation = before == this ? nullptr : before;
}

void simulation::actor_main(void* argument) noexcept {
    actor& a = *static_cast<actor*>(argument);
    simulation& s = *a.in;
    try {
        a.body();
    } catch (const run_is_over&) {  // the verdict is known
    } catch (const violation& v) {
        s.note_violation(absl::StrCat(a.name, ": ", v.what));
    } catch (const std::exception& error) {
        s.note_violation(absl::StrCat(a.name, " threw an exception: ", error.what()));
    } catch (...) {
        s.note_violation(absl::StrCat(a.name, " threw what is no std::exception"));
    }
    s.end(a);
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

void simulation::fail(std::string what) {
    note_violation(std::move(what));
    throw run_is_over{};
}

void simulation::check(bool holds, std::string_view otherwise) {
    if (holds || unwinding_) {
        return;
    }
    if (in_actor_) {
        fail(absl::StrCat(me().name, ": ", absl::string_view(otherwise.data(), otherwise.size())));
    }
    note_violation(std::string(otherwise));
}

void simulation::stop_for_good(actor_id who) {
    actors_[who]->is = state::stopped;
    if (in_actor_ && who == current_) {
        switch_away();
    }
}

void simulation::name_words(const void* first, std::size_t bytes, std::string name, std::size_t stride) {
    trace_.names.add(first, bytes, std::move(name), stride);
}

void simulation::own(const void* first, std::size_t bytes, std::string_view what) {
    const auto* begin = static_cast<const char*>(first);
    for (const owned_range& r : owned_) {
        if (begin < r.first + r.bytes && r.first < begin + bytes) {
            check(false, absl::StrFormat("was given %s %s, which overlaps %s %s of %s", absl::string_view(what.data(), what.size()),
                                         trace_.names.text_of_value(reinterpret_cast<std::uintptr_t>(first)), r.what,
                                         trace_.names.text_of_value(reinterpret_cast<std::uintptr_t>(r.first)),
                                         actors_[r.who]->name));
        }
    }
    owned_.push_back({begin, bytes, current_, std::string(what)});
}

void simulation::disown(const void* first) {
    const auto found = std::ranges::find(owned_, static_cast<const char*>(first), &owned_range::first);
    check(found != owned_.end(), "gives back what nobody owns");
    if (found != owned_.end()) {
        *found = std::move(owned_.back());
        owned_.pop_back();
    }
}

// --- who goes on ---

/// Whether the run goes on at all. Once it is over, actors are taken out of their bodies; what their destructors call
/// meanwhile does nothing.
bool simulation::simulated() {
    if (!unwinding_ && verdict_.ok()) {
        return true;
    }
    if (std::uncaught_exceptions() == 0) {
        throw run_is_over{};
    }
    return false;
}

void simulation::point(const char* doing, site where) {
    actor& a = me();
    a.doing = doing;
    a.where = where;
    now_ns_ += point_ns;
    if (++verdict_.points > settings_.most_points) {
        fail(absl::StrCat("livelock: no end after ", settings_.most_points, " operations\n", who_is_where()));
    }
    if (settings_.delays && choices_.choose(decision::delay, 2) == 1) {
        a.is = state::sleeping;
        a.wakes_at = now_ns_ + delays_ns[pick(std::size(delays_ns))];
    }
    switch_away();
}

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

void simulation::collect_eligible() {
    eligible_.clear();
    if (current_ != none) {
        eligible_.push_back(current_);
    }
    for (const auto& a : actors_) {
        if (a->id != current_) {
            eligible_.push_back(a->id);
        }
    }
    std::erase_if(eligible_, [this](actor_id id) {
        const actor& a = *actors_[id];
        const bool awake = a.is == state::sleeping && a.wakes_at <= now_ns_;
        return a.is != state::ready && a.is != state::converging && !awake;
    });
}

/// Chooses who goes on and makes it ready; `none` where the run is over.
actor_id simulation::pick_next() {
    if (!verdict_.ok()) {
        return none;
    }
    bool live = false;
    bool can_go_on = false;
    std::uint64_t first_wake = std::numeric_limits<std::uint64_t>::max();
    for (const auto& a : actors_) {
        if (a->is == state::sleeping) {
            first_wake = std::min(first_wake, a->wakes_at);
        }
        if (!a->daemon && a->is != state::ended && a->is != state::stopped) {
            live = live || a->is != state::meeting || !held_by_stopped(*a);
            can_go_on = can_go_on || a->is != state::meeting;
        }
    }
    if (!live) {
        return none;
    }
    if (can_go_on) {
        collect_eligible();
        if (eligible_.empty() && first_wake != std::numeric_limits<std::uint64_t>::max()) {
            now_ns_ = first_wake;
            collect_eligible();
        }
    }
    if (!can_go_on || eligible_.empty()) {
        note_violation(absl::StrCat("deadlock: nobody can go on\n", who_is_where()));
        return none;
    }
    const bool same = eligible_.front() == current_;
    actor& chosen = *actors_[eligible_[choices_.choose_actor(eligible_, same)]];
    if (chosen.is == state::converging) {
        leave_converge(chosen);
    }
    chosen.is = state::ready;
    return chosen.id;
}

void simulation::leave_converge(actor& a) {
    emulated::warp& w = a.warp->lanes;
    lane_mask group = 0;
    emulated::for_each_lane(w.converging(), [&](int l) {
        group |= emulated::same_site(w.wait_of(l).at.where, w.wait_of(a.lane).at.where) ? lane_mask{1} << l : 0;
    });
    const lane_mask own = lane_mask{1} << a.lane;
    if (group != own && choices_.choose(decision::group, 2) == 1) {
        emulated::for_each_lane(group & ~own, [&](int l) {
            group &= ~(choices_.choose(decision::member, 2) == 1 ? lane_mask{1} << l : 0);
        });
    }
    w.converge_as(group);
    emulated::for_each_lane(group, [&](int l) { actors_[a.warp->actors[static_cast<std::size_t>(l)]]->is = state::ready; });
    trace_.mix(a.id);
    trace_.mix(group);
    if (settings_.keep_trace) {
        trace_.add({verdict_.points, now_ns_, a.name, "converge", absl::StrFormat("lanes 0x%08x", group), "", "",
                    w.wait_of(a.lane).at.where});
    }
}

/// Whether a lane waits in a collective for one that was stopped, or for one that does.
bool simulation::held_by_stopped(const actor& a) const {
    const emulated::warp& w = a.warp->lanes;
    lane_mask held = 0;
    emulated::for_each_lane(w.present(), [&](int l) {
        held |= actors_[a.warp->actors[static_cast<std::size_t>(l)]]->is == state::stopped ? lane_mask{1} << l : 0;
    });
    if (held == 0) {
        return false;
    }
    for (lane_mask before = 0; before != held;) {
        before = held;
        emulated::for_each_lane(w.meeting_lanes(), [&](int l) {
            held |= (w.wait_of(l).at.mask & ~w.companions_of(l) & held) != 0 ? lane_mask{1} << l : 0;
        });
    }
    return (held >> a.lane & 1) != 0;
}

std::string simulation::who_is_where() const {
    static constexpr const char* names[] = {"ready", "pausing", "in converge", "waiting for lanes", "waiting for a word", "ended", "stopped"};
    std::string text;
    for (const auto& a : actors_) {
        if (a->is == state::ended) {
            continue;
        }
        absl::StrAppendFormat(&text, "  %-9s %-18s at %s (%s)", a->name, names[static_cast<int>(a->is)], a->doing,
                              text_of(a->where));
        if (a->is == state::meeting) {
            const emulated::warp& w = a->warp->lanes;
            absl::StrAppendFormat(&text, ", mask 0x%08x, missing 0x%08x", w.wait_of(a->lane).at.mask,
                                  w.wait_of(a->lane).at.mask & ~w.companions_of(a->lane));
        } else if (a->is == state::waiting) {
            absl::StrAppend(&text, ", ", trace_.names.name_of(a->waits_for, 0));
        } else if (a->is == state::sleeping) {
            absl::StrAppendFormat(&text, ", for %d ns more", a->wakes_at > now_ns_ ? a->wakes_at - now_ns_ : 0);
        }
        text += '\n';
    }
    return text;
}

// --- what the seam calls ---

namespace {

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

const char* name_of(order o) {
    switch (o) {
        case order::relaxed: return "relaxed";
        case order::acquire: return "acquire";
        case order::release: return "release";
        case order::acq_rel: break;
    }
    return "acq_rel";
}

/// Tells operations apart in the hash.
std::uint32_t sum_of(const char* what) {
    std::uint32_t sum = 0;
    for (; *what != 0; ++what) {
        sum = sum * 31 + static_cast<unsigned char>(*what);
    }
    return sum;
}

const char* name_of(scope s) {
    return s == scope::block ? "block" : s == scope::device ? "device" : "system";
}

}  // namespace

void simulation::note_access(const shared_access& a, const char* what) {
    const sighting& seen = memory_.last();
    trace_.mix(std::uint64_t{current_} << 32 | seen.word);
    trace_.mix(std::uint64_t{seen.back} << 32 | sum_of(what));
    trace_.mix(trace_.names.portable(seen.before));
    trace_.mix(trace_.names.portable(seen.after));
    if (!settings_.keep_trace) {
        return;
    }
    const std::string before = trace_.names.text_of_value(seen.before);
    const std::string after = trace_.names.text_of_value(seen.after);
    std::string sees;
    if (seen.back != 0) {
        absl::StrAppend(&sees, seen.back, " of ", seen.versions, " back");
    }
    if (seen.from_writer && seen.acquired) {
        absl::StrAppend(&sees, sees.empty() ? "" : ", ", "acquires ", actors_[seen.writer]->name);
    }
    std::string knows;
    for (const auto& other : actors_) {
        if (other->id != current_ && memory_.knows(current_, other->id) != 0) {
            absl::StrAppend(&knows, knows.empty() ? "" : " ", other->name, ":", memory_.knows(current_, other->id));
        }
    }
    const bool wrote = what[0] != 'l' && before != after;
    trace_.add({verdict_.points, now_ns_, me().name,
                a.is_plain ? absl::StrCat(what, " plain") : absl::StrCat(what, " ", name_of(a.ordered), " ", name_of(a.within)),
                trace_.names.name_of(a.word, seen.word), wrote ? absl::StrCat(before, " -> ", after) : before,
                absl::StrCat(sees.empty() ? "" : sees + "; ", "knows ", knows.empty() ? "nobody" : knows), a.where});
}

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

std::uint64_t simulation::load(const shared_access& a) {
    if (!simulated()) {
        return 0;
    }
    point("load", a.where);
    count(emulated::access::load, a.within);
    const std::uint64_t value = memory_.load(current_, a);
    note_access(a, "load");
    return value;
}

void simulation::store(const shared_access& a, std::uint64_t value) {
    if (!simulated()) {
        return;
    }
    point("store", a.where);
    count(emulated::access::store, a.within);
    memory_.store(current_, a, value);
    note_access(a, "store");
}

std::uint64_t simulation::modify(const shared_access& a, modification what, std::uint64_t operand) {
    if (!simulated()) {
        return 0;
    }
    point(name_of(what), a.where);
    count(emulated::access::read_modify_write, a.within);
    const std::uint64_t before = memory_.modify(current_, a, what, operand);
    note_access(a, name_of(what));
    return before;
}

bool simulation::compare_exchange(const shared_access& a, order on_failure, std::uint64_t& expected,
                                  std::uint64_t desired) {
    if (!simulated()) {
        return true;
    }
    point("compare_exchange", a.where);
    count(emulated::access::read_modify_write, a.within);
    const bool done = memory_.compare_exchange(current_, a, on_failure, expected, desired);
    note_access(a, done ? "compare_exchange" : "compare_exchange failed");
    return done;
}

void simulation::fence(scope within, site where) {
    if (!simulated()) {
        return;
    }
    point("fence", where);
    memory_.fence(current_, within);
    trace_.mix(current_);
    if (settings_.keep_trace) {
        trace_.add({verdict_.points, now_ns_, me().name, absl::StrCat("fence ", name_of(within)), "", "", "", where});
    }
}

void simulation::wait_while(const shared_access& a, std::uint64_t old) {
    if (!simulated()) {
        return;
    }
    for (point("wait", a.where); memory_.newest(a) == old; switch_away()) {
        me().is = state::waiting;
        me().waits_for = a.word;
    }
    (void)memory_.load(current_, a);
    note_access(a, "load");
}

void simulation::notify(const volatile void* word) {
    if (!simulated()) {
        return;
    }
    for (const auto& a : actors_) {
        if (a->is == state::waiting && a->waits_for == word) {
            a->is = state::ready;
        }
    }
}

int simulation::lane_id() { return me().lane; }

thread_position simulation::position() { return me().at; }

std::uint64_t simulation::clock_ns() { return now_ns_; }

lane_mask simulation::converge(site where) {
    if (me().host || !simulated()) {
        return lane_mask{1} << me().lane;
    }
    point("converge", where);
    actor& a = me();
    a.warp->lanes.arrive_at_converge(a.lane, where);
    a.is = state::converging;
    switch_away();
    return static_cast<lane_mask>(a.warp->lanes.result_of(a.lane));
}

std::uint64_t simulation::meet(wait_kind kind, lane_mask mask, std::uint64_t operand, int source, site where) {
    if (me().host || !simulated()) {
        return kind == wait_kind::match ? 1 : operand;
    }
    point(emulated::name_of(kind), where);
    actor& a = me();
    emulated::warp& w = a.warp->lanes;
    const emulated::meeting at{kind, mask, where};
    const emulated::refusal why = w.check(a.lane, at, source);
    if (why != emulated::refusal::none) {
        fail(emulated::describe_refusal(why, w, at, source, a.at.block, a.at.thread));
    }
    const lane_mask released = w.arrive(a.lane, at, operand, source);
    if (released == 0) {
        a.is = state::meeting;
        switch_away();
        return w.result_of(a.lane);
    }
    ++verdict_.lane_costs.collectives;
    std::vector<actor_id> group;
    emulated::for_each_lane(released, [&](int l) { group.push_back(a.warp->actors[static_cast<std::size_t>(l)]); });
    for (actor_id id : group) {
        actors_[id]->is = state::ready;
    }
    if (kind == wait_kind::sync) {
        memory_.join(group);
    }
    trace_.mix(current_);
    trace_.mix(released);
    if (settings_.keep_trace) {
        trace_.add({verdict_.points, now_ns_, a.name, emulated::name_of(kind), absl::StrFormat("lanes 0x%08x", released), "", "", where});
    }
    return w.result_of(a.lane);
}

void simulation::pause(std::uint32_t nanoseconds, site where) {
    if (!simulated()) {
        return;
    }
    actor& a = me();
    a.doing = "pause";
    a.where = where;
    verdict_.lane_costs.pauses += a.host ? 0 : 1;
    if (++verdict_.points > settings_.most_points) {
        fail(absl::StrCat("livelock: no end after ", settings_.most_points, " operations\n", who_is_where()));
    }
    a.is = state::sleeping;
    a.wakes_at = now_ns_ + 1 + std::uint64_t{nanoseconds} * pause_stretch_;
    choices_.yielded(a.id);
    switch_away();
}

}  // namespace orchard::simt::explore
