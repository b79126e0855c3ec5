// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The texts of a simulation: where each actor is if a run ends early, and the events of the timeline.
///
///     b0.w1.l2  waiting for lanes  at ballot (search.cuh:61), mask 0x0000000f, missing 0x00000001
///     service   sleeping           at pause (service.cpp:30), for 480 ns more

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <string>
#include <utility>

#include "device/simt/explore/simulation.hpp"

namespace orchard::simt::explore {

namespace {

const char* name_of(order o) {
    switch (o) {
        case order::relaxed: return "relaxed";
        case order::acquire: return "acquire";
        case order::release: return "release";
        case order::acq_rel: break;
    }
    return "acq_rel";
}

const char* name_of(scope s) { return s == scope::block ? "block" : s == scope::device ? "device" : "system"; }

/// Returns a number that distinguishes operations in the hash. The text itself counts, since its address differs
/// between programs.
std::uint32_t sum_of(const char* what) {
    std::uint32_t sum = 0;
    for (; *what != 0; ++what) {
        sum = sum * 31 + static_cast<unsigned char>(*what);
    }
    return sum;
}

}  // namespace

/// Returns one line for each actor that has not ended, for the report of a deadlock or livelock.
std::string simulation::where_actors_are() const {
    std::string text;
    for (const auto& a : actors_) {
        if (a->is != state::ended) {
            absl::StrAppend(&text, "  ", where_is(*a), "\n");
        }
    }
    return text;
}

/// Returns where an actor is: its name, its state, and its last operation with the event that it waits for.
std::string simulation::where_is(const actor& a) const {
    // By `state`.
    static constexpr const char* names[] = {
        "ready", "sleeping", "in converge", "waiting for lanes", "waiting for a word", "waiting for a block", "ended"};
    std::string text =
        absl::StrFormat("%-9s %-18s", a.name, a.stopped ? "stopped for good" : names[static_cast<int>(a.is)]);
    // It has not come to any operation of the seam yet.
    if (a.where.line == 0) {
        absl::StrAppend(&text, a.started ? "" : " has not begun");
        return text;
    }
    absl::StrAppendFormat(&text, " at %s (%s)", a.doing, text_of(a.where));
    if (a.is == state::meeting) {
        const emulated::warp& w = a.warp->lanes;
        absl::StrAppendFormat(&text, ", mask 0x%08x, missing 0x%08x", w.wait_of(a.lane).at.mask,
                              w.wait_of(a.lane).at.mask & ~w.companions_of(a.lane));
    } else if (a.is == state::waiting) {
        absl::StrAppend(&text, ", ", trace_.names.name_of(a.waits_for, a.waits_for_number));
    } else if (a.is == state::sleeping) {
        absl::StrAppendFormat(&text, ", for %d ns more", a.wakes_at > now_ns_ ? a.wakes_at - now_ns_ : 0);
    }
    return text;
}

/// Records the access that the running actor has just made: in the hash, in the timeline if there is one, and for its
/// watcher.
/// @param what     the operation, such as "load"; only that of loads begins with l
/// @param outcome  not empty for a compare-and-swap that failed, which only reads
void simulation::note_access(const shared_access& a, const char* what, const char* outcome) {
    const sighting& seen = memory_.last();
    // The actor, the word, the version, the operation, the values. Words count by their number and values by
    // `portable`, so that no address is in the hash.
    trace_.mix(std::uint64_t{current_} << 32 | seen.word);
    trace_.mix(std::uint64_t{seen.back} << 32 | (sum_of(what) + sum_of(outcome)));
    trace_.mix(trace_.names.portable(seen.before, a.word));
    trace_.mix(trace_.names.portable(seen.after, a.word));
    const bool only_read = what[0] == 'l' || *outcome != 0;
    // Texts cost more than the access itself, so that they are made only if they are kept.
    if (settings_.keep_trace) {
        const std::string before = trace_.names.text_of_value(seen.before, a.word);
        const std::string after = trace_.names.text_of_value(seen.after, a.word);
        const std::string manner = a.is_plain ? "plain" : absl::StrCat(name_of(a.ordered), " ", name_of(a.within));
        trace_.add({verdict_.points, now_ns_, me().name, absl::StrCat(what, " ", manner),
                    trace_.names.name_of(a.word, seen.word),
                    only_read ? absl::StrCat(before, outcome) : absl::StrCat(before, " -> ", after), view_text(),
                    a.where});
    }
    tell_watcher(a, only_read);
}

/// Returns the last column of the timeline: "3 of 9 back, acquires b0.w0.l0, knows b0.w0.l0:34". docs/reliability.md
/// explains it.
std::string simulation::view_text() {
    const sighting& seen = memory_.last();
    std::string text;
    const auto add = [&text](std::string part) { absl::StrAppend(&text, text.empty() ? "" : ", ", part); };
    if (seen.back != 0) {
        add(absl::StrCat(seen.back, " of ", seen.versions, " back"));
    }
    if (seen.from_writer && seen.acquired && seen.writer != current_) {
        add(absl::StrCat("acquires ", actors_[seen.writer]->name));
    }
    // Only new knowledge: with many actors, the whole view would fill lines.
    std::string learnt;
    actor& a = me();
    a.shown.resize(actors_.size());  // actors may have been added since
    for (const auto& other : actors_) {
        const std::uint32_t known = memory_.knows(current_, other->id);
        if (other->id != current_ && known > a.shown[other->id]) {
            a.shown[other->id] = known;
            absl::StrAppend(&learnt, " ", other->name, ":", known);
        }
    }
    if (!learnt.empty()) {
        add(absl::StrCat("knows", learnt));
    }
    return text;
}

/// Records that lanes continue together: a group of a `converge`, or the lanes of a collective.
void simulation::note_lanes(const actor& a, const char* operation, lane_mask group, site where) {
    trace_.mix(a.id);
    trace_.mix(group);
    if (settings_.keep_trace) {
        trace_.add(
            {verdict_.points, now_ns_, a.name, operation, absl::StrFormat("lanes 0x%08x", group), "", "", where});
    }
}

/// Records an event of an actor that is neither an access nor a collective: a fence, a delay, a notification, a stop.
/// @param number  distinguishes events of one operation, such as the length of a delay
void simulation::note_event(const actor& a, const char* operation, std::uint64_t number) {
    trace_.mix(a.id);
    trace_.mix(std::uint64_t{sum_of(operation)} << 32 | number);
    if (settings_.keep_trace) {
        trace_.add({verdict_.points, now_ns_, a.name, operation, "", "", "", a.where});
    }
}

}  // namespace orchard::simt::explore
