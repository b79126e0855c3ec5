// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The order of accesses: releases and acquires, fences, barriers, and the races that they leave.
///
///     writer                                       reader
///     store release     the version keeps now  ->  load acquire    now = now joined with it
///     fence             fenced = now
///     store relaxed     the version keeps          load relaxed    pending = pending joined with it
///                       fenced                 ->  fence           now = now joined with pending
///
/// `now`, `pending` and `fenced` are those of the actor (`weak_memory::actor`). The last two exist for each scope,
/// because a fence of a narrow scope orders nothing beyond it.
///
/// Scopes are compared as levels: block 0, device 1, system 2. A level includes two actors if it is at least `needed`.

#include <absl/strings/str_format.h>

#include <algorithm>

#include "device/simt/explore/trace.hpp"
#include "device/simt/explore/weak_memory.hpp"

namespace orchard::simt::explore {

namespace {

constexpr std::size_t level(scope s) { return static_cast<std::size_t>(s); }
constexpr bool acquires(order o) { return o == order::acquire || o == order::acq_rel; }
constexpr bool releases(order o) { return o == order::release || o == order::acq_rel; }

/// Returns the narrowest scope that includes both actors.
scope needed(const party& a, const party& b) {
    if (a.host || b.host) {
        return scope::system;
    }
    return a.block == b.block ? scope::block : scope::device;
}

/// Returns the knowledge of both. Released views are shared and never change, so that the union is a new one.
std::shared_ptr<const view> both(const std::shared_ptr<const view>& a, const std::shared_ptr<const view>& b) {
    if (a == b) {
        return a;
    }
    auto joined = std::make_shared<view>(*a);
    joined->join(*b);
    return joined;
}

}  // namespace

/// Returns whether the access and the version's store are morally strong: ordered within one thread, or both atomic,
/// each with a scope that includes both actors.
bool weak_memory::reaches(actor_id id, const shared_access& a, const version& v) const {
    if (v.initial || v.writer == id) {
        return true;
    }
    const std::size_t need = level(needed(actors_[id].of, actors_[v.writer].of));
    return !a.is_plain && !v.is_plain && level(a.within) >= need && level(v.within) >= need;
}

/// Returns whether the store of the version is ordered before the actor's current access. To have read the version is
/// not enough: a relaxed load orders nothing, so that it raises the view of the word, but not that of the writer's
/// accesses.
bool weak_memory::is_before(actor_id id, const version& v) const {
    return v.initial || actors_[id].now.at(actors_[v.writer].index) >= v.clock;
}

/// Gives the actor the knowledge that it gets by reading a version. @param o  the order of the access, which for a
/// failed compare-and-swap is not `a.ordered`
void weak_memory::observe(actor_id id, const shared_access& a, order o, const word& w, const version& v) {
    last_.before = v.value;
    last_.writer = v.writer;
    last_.from_writer = !v.initial;
    // Accesses that are not morally strong are not even coherent: the actor may read an older version next.
    if (!reaches(id, a, v)) {
        return;
    }
    actor& me = actors_[id];
    me.now.raise(w.index, v.time);
    // A release and this read must include each other's actors. If only a later fence can acquire, the knowledge waits
    // in `pending` for a fence that is wide enough.
    for (const release& r : v.released) {
        const std::size_t need = level(needed(me.of, r.by));
        if (level(r.within) < need) {
            continue;
        }
        if (acquires(o) && level(a.within) >= need) {
            me.now.join(*r.known);
            last_.acquired = true;
        } else {
            me.pending[need].join(*r.known);
        }
    }
}

/// Returns what a store of the actor releases by itself: a releasing store, all that the actor knows now; any store,
/// what the actor's fences released.
weak_memory::releases_of_version weak_memory::own_releases(const actor& me, const shared_access& a) {
    // From the widest scope to the narrowest. A fence writes the same view to all scopes that it includes; it is listed
    // once, by the widest. Plain stores release nothing.
    releases_of_version made;
    for (std::size_t l = levels; l-- != 0 && !a.is_plain;) {
        const bool by_itself = releases(a.ordered) && l == level(a.within);
        const snapshot known = by_itself ? std::make_shared<const view>(me.now) : me.fenced[l];
        if (known != nullptr && (made.empty() || made.back().known != known)) {
            made.push_back({me.of, static_cast<scope>(l), known});
        }
        if (by_itself) {  // it includes what any earlier fence released
            break;
        }
    }
    return made;
}

/// Adds the releases of the version that a read-modify-write took: it passes them on. Thus an acquire that reads the
/// last one of a chain of read-modify-writes is ordered after the release at its begin, whatever the orders in between
/// are.
void weak_memory::hand_on(const actor& me, const shared_access& a, const version& taken, releases_of_version& to) {
    for (const release& r : taken.released) {
        // Such a read-modify-write has acquired the release, and its own one includes it.
        const bool known_already =
            acquires(a.ordered) && releases(a.ordered) && r.by == me.of && level(r.within) <= level(a.within);
        if (known_already) {
            continue;
        }
        const auto same =
            std::ranges::find_if(to, [&r](const release& t) { return t.by == r.by && t.within == r.within; });
        if (same == to.end()) {
            to.push_back(r);
        } else {
            same->known = both(same->known, r.known);
        }
    }
}

/// A fence makes relaxed loads before it acquire, and relaxed stores after it release, at its scope and those within.
void weak_memory::fence(actor_id id, scope within) {
    ++accesses_;
    actor& me = actors_[id];
    me.now.raise(me.index, ++me.clock);
    for (std::size_t l = 0; l <= level(within); ++l) {
        me.now.join(me.pending[l]);
        me.pending[l] = {};
    }
    const auto all = std::make_shared<const view>(me.now);
    for (std::size_t l = 0; l <= level(within); ++l) {
        me.fenced[l] = all;
    }
}

// All actors leave with the union of their knowledge. The clocks advance, so that accesses after the barrier differ
// from those before.
void weak_memory::join(std::span<const actor_id> group) {
    view all;
    for (actor_id id : group) {
        actor& me = actors_[id];
        me.now.raise(me.index, ++me.clock);
        all.join(me.now);
    }
    for (actor_id id : group) {
        actors_[id].now = all;
    }
}

/// Throws a violation if the access conflicts with an earlier one that is not ordered before it, and one of the two is
/// plain. Of the stores, only the newest is compared (see the limits in the header); of the plain loads, the last of
/// each actor.
/// @param what  "load" or "store", for the text; a read-modify-write that stores is a store
void weak_memory::check_race(actor_id id, const shared_access& a, const word& w, const char* what) {
    const bool writes = what[0] == 's';
    const version& newest = w.versions.back();
    if ((a.is_plain || newest.is_plain) && !is_before(id, newest)) {
        throw violation{absl::StrFormat("a race: the %s%s at %s is not ordered after the %sstore at %s",
                                        a.is_plain ? "plain " : "", what, text_of(a.where),
                                        newest.is_plain ? "plain " : "", text_of(newest.where))};
    }
    for (const reading& r : w.plain_reads) {
        if (writes && actors_[id].now.at(actors_[r.id].index) < r.clock) {
            throw violation{absl::StrFormat("a race: the %s%s at %s is not ordered after the plain load at %s",
                                            a.is_plain ? "plain " : "", what, text_of(a.where), text_of(r.where))};
        }
    }
}

/// Notes a plain load, for the stores that follow. One for each actor suffices: a store that is ordered after the last
/// one is ordered after all of them.
void weak_memory::note_plain_load(actor_id id, const shared_access& a, word& w) {
    const auto mine = std::ranges::find(w.plain_reads, id, &reading::id);
    if (mine != w.plain_reads.end()) {
        *mine = {id, actors_[id].clock, a.where};
    } else {
        w.plain_reads.push_back({id, actors_[id].clock, a.where});
    }
}

}  // namespace orchard::simt::explore
