// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "device/simt/explore/weak_memory.hpp"

#include <absl/strings/str_format.h>

#include <algorithm>
#include <limits>

#include "device/simt/explore/trace.hpp"

namespace orchard::simt::explore {

namespace {

constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();
// Between the times of two versions that follow each other: room for stores that come in between.
constexpr std::uint32_t time_step = 1024;
// Versions are forgotten in batches.
constexpr std::size_t versions_before_forgetting = 64;

constexpr std::size_t level(scope s) { return static_cast<std::size_t>(s); }
constexpr bool acquires(order o) { return o == order::acquire || o == order::acq_rel; }
constexpr bool releases(order o) { return o == order::release || o == order::acq_rel; }

std::uint64_t read_memory(const volatile void* at, std::uint8_t bytes) {
    return bytes == 4 ? *static_cast<const volatile std::uint32_t*>(at)
                      : *static_cast<const volatile std::uint64_t*>(at);
}

void write_memory(const volatile void* at, std::uint8_t bytes, std::uint64_t value) {
    auto* to = const_cast<volatile void*>(at);
    if (bytes == 4) {
        *static_cast<volatile std::uint32_t*>(to) = static_cast<std::uint32_t>(value);
    } else {
        *static_cast<volatile std::uint64_t*>(to) = value;
    }
}

std::uint64_t applied(modification what, std::uint64_t old, std::uint64_t operand) {
    switch (what) {
        case modification::add: return old + operand;
        case modification::subtract: return old - operand;
        case modification::bit_or: return old | operand;
        case modification::bit_and: return old & operand;
        case modification::exchange: break;
    }
    return operand;
}

std::shared_ptr<const view> both(const std::shared_ptr<const view>& a, const std::shared_ptr<const view>& b) {
    if (a == nullptr || b == nullptr || a == b) {
        return a == nullptr ? b : a;
    }
    auto joined = std::make_shared<view>(*a);
    joined->join(*b);
    return joined;
}

}  // namespace

actor_id weak_memory::add_actor(party of, std::span<const actor_id> after) {
    actor made;
    made.of = of;
    made.index = indices_++;
    for (actor_id other : after) {
        made.now.join(actors_[other].now);
    }
    actors_.push_back(std::move(made));
    return static_cast<actor_id>(actors_.size() - 1);
}

void weak_memory::take_up_outside_changes() {
    for (const auto& w : words_) {
        const version& newest = w->versions.back();
        const std::uint64_t value = read_memory(w->address, w->bytes);
        if (value == newest.value) {
            continue;
        }
        const std::uint32_t time = newest.time + time_step;
        w->versions.clear();
        w->versions.push_back({value, time, 0, 0, true, false, false, scope::system, never, {}, {"", 0}});
        w->plain_reads.clear();
        for (actor& a : actors_) {
            a.now.raise(w->index, time);
        }
    }
}

weak_memory::word& weak_memory::find(const shared_access& a) {
    const auto [it, fresh] = numbers_.try_emplace(a.word, static_cast<std::uint32_t>(words_.size()));
    if (fresh) {
        auto made = std::make_unique<word>();
        made->address = a.word;
        made->bytes = a.bytes;
        made->number = it->second;
        made->index = indices_++;
        made->versions.push_back({read_memory(a.word, a.bytes), 0, 0, 0, true, false, false, scope::system, never, {}, {"", 0}});
        words_.push_back(std::move(made));
    }
    word& w = *words_[it->second];
    if (w.bytes != a.bytes) {
        throw violation{absl::StrFormat("a word of %d bytes is accessed as one of %d, at %s", w.bytes, a.bytes, text_of(a.where))};
    }
    return w;
}

void weak_memory::begin(actor_id who, const shared_access&, const word& w) {
    ++accesses_;
    actor& me = actors_[who];
    me.now.raise(me.index, ++me.clock);
    last_ = {};
    last_.word = w.number;
}

scope weak_memory::needed(actor_id who, actor_id other) const {
    const party& a = actors_[who].of;
    const party& b = actors_[other].of;
    if (a.host || b.host) {
        return scope::system;
    }
    return a.block == b.block ? scope::block : scope::device;
}

/// Whether the access and the version's store are morally strong: each names a scope that holds both actors.
bool weak_memory::reaches(actor_id who, scope within, const version& v) const {
    if (v.initial || v.writer == who) {
        return true;
    }
    const std::size_t need = level(needed(who, v.writer));
    return !v.is_plain && level(within) >= need && level(v.within) >= need;
}

/// Whether what wrote the version is ordered before what the actor does now.
bool weak_memory::is_before(actor_id who, const version& v) const {
    return v.initial || actors_[who].now.at(actors_[v.writer].index) >= v.clock;
}

std::size_t weak_memory::oldest_readable(actor_id who, const word& w) const {
    const std::uint32_t passed = actors_[who].now.at(w.index);
    std::size_t i = w.versions.size() - 1;
    while (i != 0 && w.versions[i].time > passed && w.versions[i - 1].time >= passed &&
           w.versions[i - 1].replaced_at + patience_ > accesses_) {
        --i;
    }
    return i;
}

void weak_memory::observe(actor_id who, const shared_access& a, order o, const word& w, const version& v) {
    last_.before = v.value;
    last_.writer = v.writer;
    last_.from_writer = !v.initial;
    if (!reaches(who, a.within, v)) {
        return;
    }
    actor& me = actors_[who];
    me.now.raise(w.index, v.time);
    if (v.initial) {
        return;
    }
    // A version of its own may pass on what it was made from: as far as the access itself reaches.
    const std::size_t need = level(v.writer == who ? a.within : needed(who, v.writer));
    if (v.released[need] == nullptr) {
        return;
    }
    if (acquires(o)) {
        me.now.join(*v.released[need]);
        last_.acquired = true;
    } else {
        me.pending[need].join(*v.released[need]);
    }
}

std::uint64_t weak_memory::read(actor_id who, const shared_access& a, order o, word& w) {
    const std::size_t oldest = oldest_readable(who, w);
    last_.versions = static_cast<std::uint32_t>(w.versions.size() - oldest);
    last_.back = choices_.choose(decision::version, last_.versions);
    const version& v = w.versions[w.versions.size() - 1 - last_.back];
    observe(who, a, o, w, v);
    last_.after = w.versions.back().value;
    return v.value;
}

/// In front of which version a store comes; the number of versions where behind all.
std::size_t weak_memory::place_for(actor_id who, const shared_access& a, const word& w) {
    const std::size_t end = w.versions.size();
    const std::uint32_t passed = actors_[who].now.at(w.index);
    std::size_t first = end;
    while (!a.is_plain && first > 1 && w.versions[first - 1].time > passed && !w.versions[first - 1].glued &&
           w.versions[first - 1].time - w.versions[first - 2].time >= 2) {
        --first;
    }
    return end - choices_.choose(decision::place, static_cast<std::uint32_t>(end - first + 1));
}

void weak_memory::append(actor_id who, const shared_access& a, word& w, std::uint64_t value,
                         const version* modified) {
    actor& me = actors_[who];
    version made{value, 0, me.clock, who, false, a.is_plain, modified != nullptr, a.within, never, {}, a.where};
    const std::size_t place = modified != nullptr ? w.versions.size() : place_for(who, a, w);
    if (place == w.versions.size()) {
        made.time = w.versions.back().time + time_step;
        w.versions.back().replaced_at = accesses_;
        write_memory(w.address, w.bytes, value);
    } else {
        made.time = w.versions[place - 1].time + (w.versions[place].time - w.versions[place - 1].time) / 2;
        made.replaced_at = accesses_;
    }
    me.now.raise(w.index, made.time);
    if (!a.is_plain) {
        snapshot all;
        for (std::size_t l = 0; l <= level(a.within); ++l) {
            if (releases(a.ordered)) {
                all = all == nullptr ? std::make_shared<const view>(me.now) : all;
                made.released[l] = all;
            } else {
                made.released[l] = me.fenced[l];
            }
            if (modified != nullptr) {
                made.released[l] = both(made.released[l], modified->released[l]);
            }
        }
    }
    last_.after = value;
    w.versions.insert(w.versions.begin() + static_cast<std::ptrdiff_t>(place), std::move(made));
    forget_old(w);
}

void weak_memory::forget_old(word& w) {
    if (w.versions.size() < versions_before_forgetting) {
        return;
    }
    std::size_t n = 0;
    while (n + 1 < w.versions.size() && w.versions[n].replaced_at + patience_ <= accesses_) {
        ++n;
    }
    w.versions.erase(w.versions.begin(), w.versions.begin() + static_cast<std::ptrdiff_t>(n));
}

void weak_memory::check_plain_load(actor_id who, const shared_access& a, word& w) {
    const version& newest = w.versions.back();
    if (!is_before(who, newest)) {
        throw violation{absl::StrFormat("a race: the plain load at %s is not ordered after the store at %s",
                                        text_of(a.where), text_of(newest.where))};
    }
    for (reading& r : w.plain_reads) {
        if (r.who == who) {
            r = {who, actors_[who].clock, a.where};
            return;
        }
    }
    w.plain_reads.push_back({who, actors_[who].clock, a.where});
}

void weak_memory::check_plain_store(actor_id who, const shared_access& a, const word& w) {
    const version& newest = w.versions.back();
    if (!is_before(who, newest)) {
        throw violation{absl::StrFormat("a race: the plain store at %s is not ordered after the store at %s",
                                        text_of(a.where), text_of(newest.where))};
    }
    for (const reading& r : w.plain_reads) {
        if (actors_[who].now.at(actors_[r.who].index) < r.clock) {
            throw violation{absl::StrFormat("a race: the plain store at %s is not ordered after the load at %s",
                                            text_of(a.where), text_of(r.where))};
        }
    }
}

std::uint64_t weak_memory::load(actor_id who, const shared_access& a) {
    word& w = find(a);
    begin(who, a, w);
    if (a.is_plain && races_are_violations_) {
        check_plain_load(who, a, w);
        last_.versions = 1;
        last_.before = last_.after = w.versions.back().value;
        return last_.before;
    }
    return read(who, a, a.ordered, w);
}

void weak_memory::store(actor_id who, const shared_access& a, std::uint64_t value) {
    word& w = find(a);
    begin(who, a, w);
    last_.before = w.versions.back().value;
    if (a.is_plain) {
        if (races_are_violations_) {
            check_plain_store(who, a, w);
        }
        w.plain_reads.clear();
    }
    append(who, a, w, value, nullptr);
}

/// What a read-modify-write takes: the newest version, where the scopes reach each other; otherwise any readable one.
const weak_memory::version& weak_memory::modified_version(actor_id who, const shared_access& a, word& w) {
    if (a.within == scope::system && !actors_[who].of.host) {
        throw violation{absl::StrFormat("the device does a read-modify-write of host-visible memory, at %s", text_of(a.where))};
    }
    last_.versions = 1;
    if (!reaches(who, a.within, w.versions.back())) {
        last_.versions = static_cast<std::uint32_t>(w.versions.size() - oldest_readable(who, w));
        last_.back = choices_.choose(decision::version, last_.versions);
    }
    return w.versions[w.versions.size() - 1 - last_.back];
}

std::uint64_t weak_memory::modify(actor_id who, const shared_access& a, modification what, std::uint64_t operand) {
    word& w = find(a);
    begin(who, a, w);
    const version& v = modified_version(who, a, w);
    const version taken = v;
    observe(who, a, a.ordered, w, taken);
    append(who, a, w, applied(what, taken.value, operand), &taken);
    return taken.value;
}

bool weak_memory::compare_exchange(actor_id who, const shared_access& a, order on_failure, std::uint64_t& expected,
                                   std::uint64_t desired) {
    word& w = find(a);
    begin(who, a, w);
    const version taken = modified_version(who, a, w);
    const bool equal = taken.value == expected;
    observe(who, a, equal ? a.ordered : on_failure, w, taken);
    if (equal) {
        append(who, a, w, desired, &taken);
    } else {
        last_.after = w.versions.back().value;
        expected = taken.value;
    }
    return equal;
}

void weak_memory::fence(actor_id who, scope within) {
    ++accesses_;
    actor& me = actors_[who];
    me.now.raise(me.index, ++me.clock);
    for (std::size_t l = 0; l <= level(within); ++l) {
        me.now.join(me.pending[l]);
    }
    const auto all = std::make_shared<const view>(me.now);
    for (std::size_t l = 0; l <= level(within); ++l) {
        me.fenced[l] = all;
    }
}

void weak_memory::join(std::span<const actor_id> group) {
    view all;
    for (actor_id who : group) {
        actor& me = actors_[who];
        me.now.raise(me.index, ++me.clock);
        all.join(me.now);
    }
    for (actor_id who : group) {
        actors_[who].now = all;
    }
}

}  // namespace orchard::simt::explore
