// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The collectives of an emulated warp; see warp.hpp.

#include "device/simt/emulated/warp.hpp"

#include <algorithm>
#include <cstring>

namespace orchard::simt::emulated {

namespace {

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
    present_ = static_cast<lane_mask>((std::uint64_t{1} << lanes) - 1);
    runnable_ = present_;
    paused_ = meeting_ = converging_ = ended_ = 0;
}

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
    complete(at);
    meeting_ &= ~at.mask;
    runnable_ |= at.mask;
    return at.mask;
}

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
        wait.result = common;
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

void warp::converge_as(lane_mask group) {
    for_each_lane(group, [&](int l) { slot(l).result = group; });
    converging_ &= ~group;
    runnable_ |= group;
}

lane_mask warp::converge_by_site() {
    const lane_mask released = converging_;
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
    slot(lane).at = {wait_kind::pause, 0, where};
    runnable_ &= ~bit(lane);
    paused_ |= bit(lane);
}

void warp::unpause(int lane) {
    paused_ &= ~bit(lane);
    runnable_ |= bit(lane);
}

void warp::end(int lane) {
    runnable_ &= ~bit(lane);
    ended_ |= bit(lane);
}

lane_mask warp::waiting_for_ended() const {
    lane_mask result = 0;
    for_each_lane(meeting_, [&](int l) { result |= (wait_of(l).at.mask & ended_) != 0 ? bit(l) : 0; });
    return result;
}

lane_mask warp::companions_of(int lane) const {
    lane_mask result = 0;
    for_each_lane(meeting_, [&](int l) { result |= wait_of(l).at == wait_of(lane).at ? bit(l) : 0; });
    return result;
}

lane_mask warp::stuck() const {
    // Starts with all lanes that wait, and removes those that wait only for lanes that can still come.
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
