// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The state of one emulated warp and what its collectives compute. Knows neither stacks nor schedulers: which lane
/// runs when is decided elsewhere, so that every scheduler shares this.

#include <array>
#include <bit>
#include <cstdint>

#include "device/simt/config.cuh"

namespace orchard::simt::emulated {

/// What a lane can wait in.
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

/// The name of `kind` as kernels write it.
const char* name_of(wait_kind kind);

/// Two sites are the same where file and line are.
bool same_site(site a, site b);

/// What the lanes that meet must agree on.
struct meeting {
    wait_kind kind = wait_kind::none;
    lane_mask mask = 0;  ///< who takes part; unused by `converge` and `pause`
    site where{"", 0};

    friend bool operator==(const meeting& a, const meeting& b) {
        return a.kind == b.kind && a.mask == b.mask && same_site(a.where, b.where);
    }
};

/// What one lane brings to a collective and takes from it.
struct lane_wait {
    meeting at;
    std::uint64_t operand = 0;
    int source = 0;            ///< `shuffle`: the lane whose operand is wanted
    std::uint64_t result = 0;  ///< set when the lane is released
};

/// Calls `action(lane)` for each lane of `mask`, lowest first.
template <class Action>
void for_each_lane(lane_mask mask, Action action) {
    for (; mask != 0; mask &= mask - 1) {
        action(std::countr_zero(mask));
    }
}

/// Why a call of a collective is refused at once.
enum class refusal : std::uint8_t { none, caller_not_in_mask, source_not_in_mask, lane_absent, lane_ended };

/// Up to 32 lanes. Each lane that is present is in exactly one state: runnable, paused, meeting, converging or ended.
class warp {
public:
    /// Makes lanes 0 to `lanes - 1` present and runnable. @param lanes 1 to 32
    void reset(int lanes);

    [[nodiscard]] lane_mask present() const { return present_; }
    [[nodiscard]] lane_mask runnable() const { return runnable_; }      ///< may run now
    [[nodiscard]] lane_mask paused() const { return paused_; }          ///< in `pause`
    [[nodiscard]] lane_mask meeting_lanes() const { return meeting_; }  ///< in a collective that has a mask
    [[nodiscard]] lane_mask converging() const { return converging_; }  ///< in `converge`
    [[nodiscard]] lane_mask ended() const { return ended_; }
    [[nodiscard]] const lane_wait& wait_of(int lane) const { return waits_[static_cast<std::size_t>(lane)]; }
    [[nodiscard]] std::uint64_t result_of(int lane) const { return wait_of(lane).result; }

    /// Whether `lane` may call a collective so at all.
    [[nodiscard]] refusal check(int lane, const meeting& at, int source) const;

    /// A runnable `lane` arrives at a collective. When it is the last of its mask, all of them get their results,
    /// become runnable and are returned; otherwise it waits, and 0 is returned.
    lane_mask arrive(int lane, const meeting& at, std::uint64_t operand, int source);

    /// A runnable `lane` arrives at a `converge` and waits.
    void arrive_at_converge(int lane, site where);

    /// Releases lanes that wait in the same `converge`: they find each other there.
    void converge_as(lane_mask group);

    /// Releases every lane in `converge`, grouped by site: the fast scheduler's rule. @returns the lanes released
    lane_mask converge_by_site();

    void pause(int lane, site where);
    void unpause(int lane);
    void end(int lane);

    /// The lanes that wait for an ended lane.
    [[nodiscard]] lane_mask waiting_for_ended() const;

    /// The lanes in collectives that nothing can release any more: each waits for a lane that has ended or is itself
    /// stuck. Cost: O(lanes^2); not for the common path.
    [[nodiscard]] lane_mask stuck() const;

    /// The lanes that wait at the same collective as `lane`, with it.
    [[nodiscard]] lane_mask companions_of(int lane) const;

private:
    lane_wait& slot(int lane) { return waits_[static_cast<std::size_t>(lane)]; }
    void complete(const meeting& at);

    lane_mask present_ = 0;
    lane_mask runnable_ = 0;
    lane_mask paused_ = 0;
    lane_mask meeting_ = 0;
    lane_mask converging_ = 0;
    lane_mask ended_ = 0;
    std::array<lane_wait, warp_size> waits_{};
};

}  // namespace orchard::simt::emulated
