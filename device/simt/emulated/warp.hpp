// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The state of one emulated warp, and the results of its collectives. This code knows neither stacks nor schedulers:
/// other code decides which lane runs when, so that all schedulers can share it.
///
///     runnable --arrive, not the last of its mask--> meeting ----the last one arrives----> runnable
///              --arrive_at_converge---> converging --converge_as, converge_by_site-------> runnable
///              --pause----------------> paused ------unpause-----------------------------> runnable
///              --end------------------> ended
///
/// Not thread-safe: one host thread runs all lanes of a warp.

#include <array>
#include <bit>
#include <cstdint>

#include "device/simt/config.cuh"

namespace orchard::simt::emulated {

/// The functions in which a lane can wait.
enum class wait_kind : std::uint8_t {
    none,
    converge,
    sync,
    ballot,
    shuffle,
    match,
    reduce_add,
    reduce_or,
    reduce_max,
    pause
};

/// Returns the name of `kind` in kernel code.
const char* name_of(wait_kind kind);

/// Returns whether two sites have the same file and line.
bool same_site(site a, site b);

/// What lanes that meet must agree on.
struct meeting {
    wait_kind kind = wait_kind::none;
    lane_mask mask = 0;  ///< the participating lanes; unused by `converge` and `pause`
    site where{"", 0};

    friend bool operator==(const meeting& a, const meeting& b) {
        return a.kind == b.kind && a.mask == b.mask && same_site(a.where, b.where);
    }
};

/// The input and the result of one lane in a collective.
struct lane_wait {
    meeting at;
    std::uint64_t operand = 0;
    int source = 0;            ///< `shuffle`: the lane whose operand this lane wants
    std::uint64_t result = 0;  ///< set when the lane is released
};

/// Calls `action(lane)` for each lane of `mask`, lowest first.
template <class Action>
void for_each_lane(lane_mask mask, Action action) {
    for (; mask != 0; mask &= mask - 1) {
        action(std::countr_zero(mask));
    }
}

/// The reasons for which a call of a collective fails at once, because its mask or its source can never be right.
enum class refusal : std::uint8_t { none, caller_not_in_mask, source_not_in_mask, lane_absent, lane_ended };

/// Up to 32 lanes. Each present lane is in exactly one state: runnable, paused, meeting, converging or ended.
class warp {
public:
    /// Makes lanes 0 to `lanes - 1` present and runnable. @param lanes 1 to 32
    void reset(int lanes);

    [[nodiscard]] lane_mask present() const { return present_; }
    [[nodiscard]] lane_mask runnable() const { return runnable_; }      ///< may run now
    [[nodiscard]] lane_mask paused() const { return paused_; }          ///< in `pause`
    [[nodiscard]] lane_mask meeting_lanes() const { return meeting_; }  ///< in a collective with a mask
    [[nodiscard]] lane_mask converging() const { return converging_; }  ///< in `converge`
    [[nodiscard]] lane_mask ended() const { return ended_; }
    [[nodiscard]] const lane_wait& wait_of(int lane) const { return waits_[static_cast<std::size_t>(lane)]; }
    [[nodiscard]] std::uint64_t result_of(int lane) const { return wait_of(lane).result; }

    /// Returns why `lane` may not call this collective; `none` if it may.
    [[nodiscard]] refusal check(int lane, const meeting& at, int source) const;

    /// Lets a runnable `lane` arrive at a collective. If it is the last of its mask, all lanes of the mask get their
    /// results and become runnable; returns these lanes. Otherwise the lane waits; returns 0.
    lane_mask arrive(int lane, const meeting& at, std::uint64_t operand, int source);

    /// Lets a runnable `lane` arrive at a `converge`, and wait there.
    void arrive_at_converge(int lane, site where);

    /// Releases lanes that wait in the same `converge`, as one group.
    void converge_as(lane_mask group);

    /// Releases every lane in `converge`, one group for each site: the rule of the fast scheduler. @returns the lanes
    /// released
    lane_mask converge_by_site();

    /// Let a runnable lane pause, a pausing lane continue, and a runnable lane end.
    void pause(int lane, site where);
    void unpause(int lane);
    void end(int lane);

    /// Returns the lanes that wait for an ended lane.
    [[nodiscard]] lane_mask waiting_for_ended() const;

    /// Returns the lanes in collectives that can never be released: each waits for a lane that has ended or is itself
    /// stuck. Cost: O(lanes^2); not for the common path.
    [[nodiscard]] lane_mask stuck() const;

    /// Returns the lanes that wait at the same collective as `lane`, including `lane`.
    [[nodiscard]] lane_mask companions_of(int lane) const;

private:
    // Each lane has one slot: it waits in one place at a time.
    lane_wait& slot(int lane) { return waits_[static_cast<std::size_t>(lane)]; }
    void complete(const meeting& at);

    // The lanes in each state. The last five sets are disjoint, and together they are `present_`, until a launch fails:
    // lanes may then end in any state.
    lane_mask present_ = 0;
    lane_mask runnable_ = 0;
    lane_mask paused_ = 0;
    lane_mask meeting_ = 0;
    lane_mask converging_ = 0;
    lane_mask ended_ = 0;
    std::array<lane_wait, warp_size> waits_{};
};

}  // namespace orchard::simt::emulated
