// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Loads and stores of the weak memory; see weak_memory.hpp. weak_memory_order.cpp decides what is ordered.
///
///     load                 store                 modify, compare_exchange
///       find                 find                  find              the word, made at its first access
///       begin                begin                 begin             the actor's clock
///       check_race           check_race            taken_by          the version that it takes
///       read                 place_for             check_race
///         choose a version     choose a place      observe           the taken version
///         observe            insert                insert            right behind it
///
/// Times of a word's versions after three stores and one placed between the second and the third:
///
///     0 (initial)    1024    2048    2560    3072
///
/// A time has 32 bits, so that a word can take 4 million stores. The default of `settings::most_points` ends a run
/// before.

#include "device/simt/explore/weak_memory.hpp"

#include <absl/strings/str_format.h>

#include <algorithm>
#include <limits>

#include "device/simt/explore/trace.hpp"

namespace orchard::simt::explore {

namespace {

// Distance of the times of consecutive versions: room for stores that are placed between them.
constexpr std::uint32_t time_step = 1024;
// The number of versions from which on old ones are forgotten, in batches.
constexpr std::size_t versions_before_forgetting = 64;

/// Returns the value in the real memory, where it is 4 or 8 bytes long.
std::uint64_t read_memory(const volatile void* at, std::uint8_t bytes) {
    return bytes == 4 ? *static_cast<const volatile std::uint32_t*>(at)
                      : *static_cast<const volatile std::uint64_t*>(at);
}

/// Sets the value in the real memory. Only a word's newest version is there.
void write_memory(const volatile void* at, std::uint8_t bytes, std::uint64_t value) {
    auto* to = const_cast<volatile void*>(at);
    if (bytes == 4) {
        *static_cast<volatile std::uint32_t*>(to) = static_cast<std::uint32_t>(value);
    } else {
        *static_cast<volatile std::uint64_t*>(to) = value;
    }
}

/// Returns the value after a read-modify-write. It may exceed the word; `cut` drops the rest.
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

/// Returns the bits of a value that a word of `bytes` bytes keeps.
std::uint64_t cut(std::uint8_t bytes, std::uint64_t value) {
    return bytes == 4 ? static_cast<std::uint32_t>(value) : value;
}

}  // namespace

actor_id weak_memory::add_actor(party of, std::span<const actor_id> after) {
    actor made;
    made.of = of;
    made.index = indices_++;
    // It may read no version older than those that the others must read, and may touch plain data that they wrote.
    for (actor_id other : after) {
        made.now.join(actors_[other].now);
    }
    actors_.push_back(std::move(made));
    return static_cast<actor_id>(actors_.size() - 1);
}

void weak_memory::pass_on(std::span<const actor_id> from, actor_id to) {
    for (actor_id other : from) {
        if (other != to) {
            actors_[to].now.join(actors_[other].now);
        }
    }
}

/// Returns a version that no actor has written. Every access is ordered after it, and every scope reaches it.
weak_memory::version weak_memory::initial_version(std::uint64_t value, std::uint32_t time) {
    version made;
    made.value = value;
    made.time = time;
    made.initial = true;
    return made;
}

void weak_memory::take_up_outside_changes() {
    for (const auto& w : words_) {
        const version& newest = w->versions.back();
        const std::uint64_t value = read_memory(w->address, w->bytes);
        if (value == newest.value) {
            continue;  // not changed, or to the same value: old versions stay readable
        }
        const std::uint32_t time = newest.time + time_step;
        w->versions.clear();
        w->versions.push_back(initial_version(value, time));
        w->plain_reads.clear();
        for (actor& a : actors_) {
            a.now.raise(w->index, time);
        }
    }
}

/// Returns the word that is accessed; makes it at its first access, with the value in memory as the initial version.
/// Throws a violation if it was accessed by another size before.
weak_memory::word& weak_memory::find(const shared_access& a) {
    const auto [it, fresh] = numbers_.try_emplace(a.word, static_cast<std::uint32_t>(words_.size()));
    if (fresh) {
        auto made = std::make_unique<word>();
        made->address = a.word;
        made->bytes = a.bytes;
        made->number = it->second;
        made->index = indices_++;
        made->versions.push_back(initial_version(read_memory(a.word, a.bytes), 0));
        words_.push_back(std::move(made));
    }
    word& w = *words_[it->second];
    if (w.bytes != a.bytes) {
        throw violation{
            absl::StrFormat("a word of %d bytes is accessed as one of %d, at %s", w.bytes, a.bytes, text_of(a.where))};
    }
    return w;
}

/// Begins an access: counts it, and lets the actor know of it, so that an actor that acquires from it later knows, too.
void weak_memory::begin(actor_id id, const word& w) {
    ++accesses_;
    actor& me = actors_[id];
    me.now.raise(me.index, ++me.clock);
    last_ = {};
    last_.word = w.number;
}

/// Returns the index of the oldest version that the actor may read: that of its view, or a newer one if those before it
/// were replaced too long ago.
std::size_t weak_memory::oldest_readable(actor_id id, const word& w) const {
    const std::uint32_t passed = actors_[id].now.at(w.index);
    // From the newest version back, as long as the one before is not older than the view, and was not replaced too long
    // ago.
    std::size_t i = w.versions.size() - 1;
    while (i != 0 && w.versions[i].time > passed && w.versions[i - 1].time >= passed &&
           w.versions[i - 1].replaced_at + patience_ > accesses_) {
        --i;
    }
    return i;
}

/// Performs a load, and returns the value of the version that it sees.
std::uint64_t weak_memory::read(actor_id id, const shared_access& a, order o, word& w) {
    const std::size_t oldest = oldest_readable(id, w);
    last_.versions = static_cast<std::uint32_t>(w.versions.size() - oldest);
    last_.back = choices_.choose(decision::version, last_.versions);
    const std::size_t chosen = w.versions.size() - 1 - last_.back;
    // A thread does not see its own later store; the version before takes its place, if it is readable.
    const bool own_promise = w.versions[chosen].promised && w.versions[chosen].writer == id;
    const version& v = w.versions[own_promise && chosen > oldest ? chosen - 1 : chosen];
    observe(id, a, o, w, v);
    // See the header: later stores come after a version that the host has read.
    if (actors_[id].of.host && a.within == scope::system) {
        w.arrived = std::max(w.arrived, v.time);
    }
    last_.after = w.versions.back().value;
    return v.value;
}

/// Returns the version before which a store is placed; the number of versions if it comes last.
std::size_t weak_memory::place_for(actor_id id, const shared_access& a, const word& w) {
    const std::size_t end = w.versions.size();
    const std::uint32_t passed = std::max(actors_[id].now.at(w.index), w.arrived);
    // Each step passes a version that the writer has not seen. It stops at a read-modify-write, which must stay right
    // behind the version that it took, and where no time is left between two versions. No store comes before the first
    // version.
    std::size_t first = end;
    while (!a.is_plain && first > 1 && w.versions[first - 1].time > passed && !w.versions[first - 1].glued &&
           has_room_before(w, first - 1)) {
        --first;
    }
    return end - choices_.choose(decision::place, static_cast<std::uint32_t>(end - first + 1));
}

/// Returns whether a time lies between version `i` and the one before. Each placement halves the gap: at least 10 fit
/// into one.
bool weak_memory::has_room_before(const word& w, std::size_t i) {
    return w.versions[i].time - w.versions[i - 1].time >= 2;
}

/// Adds a version at `place`. @param modified  for a read-modify-write, the version that it took
void weak_memory::insert(actor_id id, const shared_access& a, word& w, std::uint64_t value, std::size_t place,
                         const version* modified) {
    actor& me = actors_[id];
    version made;
    made.value = cut(a.bytes, value);
    made.clock = me.clock;
    made.writer = id;
    made.is_plain = a.is_plain;
    made.glued = modified != nullptr;
    made.within = a.within;
    made.where = a.where;
    if (place == w.versions.size()) {
        made.time = w.versions.back().time + time_step;
        w.versions.back().replaced_at = accesses_;
        write_memory(w.address, w.bytes, made.value);
    } else {
        // A newer version exists: this one counts as replaced from the begin, and the real memory keeps the newer
        // value.
        made.time = w.versions[place - 1].time + (w.versions[place].time - w.versions[place - 1].time) / 2;
        made.replaced_at = accesses_;
    }
    // The writer's own view first, so that a release passes this version on, too.
    me.now.raise(w.index, made.time);
    made.released = own_releases(me, a);
    if (modified != nullptr && reaches(id, a, *modified)) {
        hand_on(me, a, *modified, made.released);
    }
    last_.after = made.value;
    w.versions.insert(w.versions.begin() + static_cast<std::ptrdiff_t>(place), std::move(made));
    forget_old(w);
}

/// Drops the older half of a word's versions, if it is large and no actor reads it any more. Half at a time, so that
/// the cost for each store stays constant on average.
void weak_memory::forget_old(word& w) {
    const std::size_t half = w.versions.size() / 2;
    if (half < versions_before_forgetting / 2 || w.versions[half].replaced_at + patience_ > accesses_) {
        return;
    }
    w.versions.erase(w.versions.begin(), w.versions.begin() + static_cast<std::ptrdiff_t>(half));
}

std::uint64_t weak_memory::load(actor_id id, const shared_access& a) {
    word& w = find(a);
    begin(id, w);
    if (races_are_violations_) {
        check_race(id, a, w, "load");
        // A plain load that passed the check is ordered after the newest version, and can see no other one.
        if (a.is_plain) {
            note_plain_load(id, a, w);
            last_.versions = 1;
            last_.before = last_.after = w.versions.back().value;
            return last_.before;
        }
    }
    return read(id, a, a.ordered, w);
}

void weak_memory::store(actor_id id, const shared_access& a, std::uint64_t value) {
    word& w = find(a);
    begin(id, w);
    last_.before = w.versions.back().value;
    if (races_are_violations_) {
        check_race(id, a, w, "store");
    }
    if (a.is_plain) {
        // This store is ordered after all of these loads. A later access that is ordered after the store is thereby
        // ordered after them; any other one races with the store.
        w.plain_reads.clear();
    }
    if (promises_ != 0 && keep_promise(id, a, w, value)) {
        return;
    }
    insert(id, a, w, value, place_for(id, a, w), nullptr);
}

/// Returns the version that a read-modify-write takes and follows: the newest one, if it and the read-modify-write are
/// morally strong. Otherwise any readable version that is followed by no version with which atomicity is required.
std::size_t weak_memory::taken_by(actor_id id, const shared_access& a, const word& w) {
    if (a.within == scope::system && !actors_[id].of.host) {
        throw violation{
            absl::StrFormat("the device does a read-modify-write of host-visible memory, at %s", text_of(a.where))};
    }
    const std::size_t newest = w.versions.size() - 1;
    // Each step passes a version that is not morally strong with the read-modify-write: its writer may come between the
    // read and the write of this one.
    std::size_t first = newest;
    if (!reaches(id, a, w.versions[newest])) {
        const std::size_t oldest = oldest_readable(id, w);
        while (first > oldest && !reaches(id, a, w.versions[first]) && has_room_before(w, first)) {
            --first;
        }
    }
    last_.versions = static_cast<std::uint32_t>(newest - first + 1);
    last_.back = choices_.choose(decision::version, last_.versions);
    return newest - last_.back;
}

std::uint64_t weak_memory::modify(actor_id id, const shared_access& a, modification what, std::uint64_t operand) {
    word& w = find(a);
    begin(id, w);
    const std::size_t i = taken_by(id, a, w);
    const std::uint64_t before = w.versions[i].value;
    if (races_are_violations_) {
        check_race(id, a, w, "store");
    }
    // First the acquire, then the store: its release then includes the knowledge just acquired.
    observe(id, a, a.ordered, w, w.versions[i]);
    insert(id, a, w, applied(what, before, operand), i + 1, &w.versions[i]);
    return before;
}

bool weak_memory::compare_exchange(actor_id id, const shared_access& a, order on_failure, std::uint64_t& expected,
                                   std::uint64_t desired) {
    word& w = find(a);
    begin(id, w);
    const std::size_t i = taken_by(id, a, w);
    const std::uint64_t before = w.versions[i].value;
    // A failure is a load of the version that a success would have taken.
    const bool equal = before == cut(a.bytes, expected);
    if (races_are_violations_) {
        check_race(id, a, w, equal ? "store" : "load");
    }
    observe(id, a, equal ? a.ordered : on_failure, w, w.versions[i]);
    if (equal) {
        insert(id, a, w, desired, i + 1, &w.versions[i]);
    } else {
        last_.after = w.versions.back().value;
        expected = before;
    }
    return equal;
}

// The version is the newest one, with the releases that its writer's fences have made so far. Its clock is larger than
// any that an actor can know, so that no access counts as ordered after it until it is kept.
void weak_memory::promise(actor_id id, const shared_access& a, std::uint64_t value) {
    word& w = find(a);
    version made;
    made.value = cut(a.bytes, value);
    made.time = w.versions.back().time + time_step;
    made.clock = std::numeric_limits<std::uint32_t>::max();
    made.writer = id;
    made.within = a.within;
    made.where = a.where;
    made.promised = true;
    made.released = own_releases(actors_[id], a);
    w.versions.back().replaced_at = accesses_;
    write_memory(w.address, w.bytes, made.value);
    w.versions.push_back(std::move(made));
    ++promises_;
}

/// Returns whether the store keeps a promise of its actor. A fence in between, or a read of the promised version or a
/// later one, would order the store differently than promised; such a promise stays open.
bool weak_memory::keep_promise(actor_id id, const shared_access& a, word& w, std::uint64_t value) {
    actor& me = actors_[id];
    const auto v = std::ranges::find_if(w.versions, [id](const version& p) { return p.promised && p.writer == id; });
    if (v == w.versions.end() || a.is_plain || a.ordered != order::relaxed || a.within != v->within ||
        v->value != cut(a.bytes, value) || me.now.at(w.index) >= v->time ||
        !std::ranges::equal(v->released, own_releases(me, a), {}, &release::known, &release::known)) {
        return false;
    }
    v->promised = false;
    v->clock = me.clock;
    me.now.raise(w.index, v->time);
    last_.after = v->value;
    --promises_;
    return true;
}

}  // namespace orchard::simt::explore
