// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The collectives of an emulated warp; see warp.hpp.
///
///     lane 0 arrives at ballot(0x7, true)      not complete: lanes 1 and 2 are missing
///     lane 2 arrives at ballot(0x7, false)     not complete: lane 1 is missing
///     lane 1 arrives at ballot(0x7, true)      complete: the result 0x3 for all three, which are runnable again
///
/// A lane of the mask that waits elsewhere counts as missing, also if it waits in a collective with the same mask:
/// kind, mask and place must agree (`meeting`).

#include "device/simt/emulated/warp.hpp"

#include <algorithm>
#include <cstring>

namespace orchard::simt::emulated {

namespace {

/// Returns the mask of one lane.
constexpr lane_mask bit(int lane) { return lane_mask{1} << lane; }

}  // namespace

const char* name_of(wait_kind kind) {
    switch (kind) {
        case wait_kind::converge: return "converge";
        case wait_kind::sync: return "sync";
        case wait_kind::ballot: return "ballot";
        case wait_kind::shuffle: return "shuffle";
        case wait_kind::match: return "match";
        case wait_kind::reduce_add: return "reduce_add";
        case wait_kind::reduce_or: return "reduce_or";
        case wait_kind::reduce_max: return "reduce_max";
        case wait_kind::pause: return "pause";
        case wait_kind::none: break;
    }
    return "nothing";
}

bool same_site(site a, site b) {
    // A header's file name may have a different address in each translation unit; hence the comparison of the texts.
    return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

void warp::reset(int lanes) {
    // In 64 bits, since 32 lanes would shift a 32-bit value by its width.
    present_ = static_cast<lane_mask>((std::uint64_t{1} << lanes) - 1);
    runnable_ = present_;
    paused_ = meeting_ = converging_ = ended_ = 0;
}

// The first reason counts. A mask without its caller comes first: that call could never be completed, whatever else is
// wrong with it.
refusal warp::check(int lane, const meeting& at, int source) const {
    if ((at.mask & bit(lane)) == 0) {
        return refusal::caller_not_in_mask;
    }
    if ((at.mask & ~present_) != 0) {
        return refusal::lane_absent;
    }
    if ((at.mask & ended_) != 0) {
        return refusal::lane_ended;
    }
    if (at.kind == wait_kind::shuffle && (source < 0 || source >= warp_size || (at.mask & bit(source)) == 0)) {
        return refusal::source_not_in_mask;
    }
    return refusal::none;
}

lane_mask warp::arrive(int lane, const meeting& at, std::uint64_t operand, int source) {
    // Before the comparison below, which includes the caller's own slot.
    slot(lane) = {at, operand, source, 0};
    const lane_mask here = meeting_ | bit(lane);
    // Checks the masks first, since they rarely agree too early; then the calls at which the lanes of the mask wait.
    bool all_here = (at.mask & ~here) == 0;
    for (lane_mask rest = at.mask; all_here && rest != 0; rest &= rest - 1) {
        all_here = slot(std::countr_zero(rest)).at == at;
    }
    if (!all_here) {
        meeting_ = here;
        runnable_ &= ~bit(lane);
        return 0;
    }
    // The caller was not in `meeting_` and is runnable already; the others of the mask become so.
    complete(at);
    meeting_ &= ~at.mask;
    runnable_ |= at.mask;
    return at.mask;
}

/// Sets the results of all lanes of a collective. All of them have arrived, so that all operands are known.
void warp::complete(const meeting& at) {
    std::uint64_t common = 0;  // the result, if it is the same for all lanes
    for_each_lane(at.mask, [&](int l) {
        const std::uint64_t operand = slot(l).operand;
        switch (at.kind) {
            case wait_kind::ballot: common |= operand != 0 ? bit(l) : 0; break;
            case wait_kind::reduce_add: common += operand; break;
            case wait_kind::reduce_or: common |= operand; break;
            case wait_kind::reduce_max: common = std::max(common, operand); break;
            default: break;
        }
    });
    for_each_lane(at.mask, [&](int l) {
        lane_wait& wait = slot(l);
        wait.result = common;  // a sync has none: 0
        if (at.kind == wait_kind::shuffle) {
            wait.result = slot(wait.source).operand;
        } else if (at.kind == wait_kind::match) {
            for_each_lane(at.mask,
                          [&](int other) { wait.result |= slot(other).operand == wait.operand ? bit(other) : 0; });
        }
    });
}

void warp::arrive_at_converge(int lane, site where) {
    slot(lane) = {{wait_kind::converge, 0, where}, 0, 0, 0};
    runnable_ &= ~bit(lane);
    converging_ |= bit(lane);
}

// The result of a `converge` is the group itself.
void warp::converge_as(lane_mask group) {
    for_each_lane(group, [&](int l) { slot(l).result = group; });
    converging_ &= ~group;
    runnable_ |= group;
}

lane_mask warp::converge_by_site() {
    const lane_mask released = converging_;
    // Takes the lowest lane that is left, and with it all lanes at the same site.
    for (lane_mask rest = released; rest != 0;) {
        const site where = slot(std::countr_zero(rest)).at.where;
        lane_mask group = 0;
        for_each_lane(rest, [&](int l) { group |= same_site(slot(l).at.where, where) ? bit(l) : 0; });
        converge_as(group);
        rest &= ~group;
    }
    return released;
}

void warp::pause(int lane, site where) {
    // Only reports read the slot of a pausing lane.
    slot(lane).at = {wait_kind::pause, 0, where};
    runnable_ &= ~bit(lane);
    paused_ |= bit(lane);
}

void warp::unpause(int lane) {
    paused_ &= ~bit(lane);
    runnable_ |= bit(lane);
}

// An ended lane stays present: masks that name it are errors of their own kind (`refusal::lane_ended`).
void warp::end(int lane) {
    runnable_ &= ~bit(lane);
    ended_ |= bit(lane);
}

lane_mask warp::waiting_for_ended() const {
    lane_mask result = 0;
    for_each_lane(meeting_, [&](int l) { result |= (wait_of(l).at.mask & ended_) != 0 ? bit(l) : 0; });
    return result;
}

// Searches `meeting_`, so that the result includes `lane` only if it waits in a collective.
lane_mask warp::companions_of(int lane) const {
    lane_mask result = 0;
    for_each_lane(meeting_, [&](int l) { result |= wait_of(l).at == wait_of(lane).at ? bit(l) : 0; });
    return result;
}

lane_mask warp::stuck() const {
    // Starts with all lanes that wait, and removes those that wait only for lanes that can still come. A removed lane
    // can still come itself, so that lanes that wait for it may be removed in the next round. At the end, every lane
    // that is left waits for an ended lane, or for another one that is left.
    //
    //     lane 0 waits for 1, lane 1 for 0, at different lines       stuck: both
    //     lane 2 waits for 3, which is runnable                      not stuck
    //     lane 4 waits for 5, which has ended; lane 6 waits for 4    stuck: 4 and 6
    lane_mask stuck = meeting_;
    for (bool changed = true; changed;) {
        changed = false;
        for_each_lane(stuck, [&](int l) {
            const lane_mask missing = wait_of(l).at.mask & ~companions_of(l);
            if ((missing & (ended_ | stuck)) == 0) {
                stuck &= ~bit(l);
                changed = true;
            }
        });
    }
    return stuck;
}

}  // namespace orchard::simt::emulated
