// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The GPU's side: resident warps that execute their steps, wait at page faults, and put faults into the buffer.

#include <array>
#include <cstdint>
#include <vector>

#include <absl/status/status.h>

#include "uvm/model/access.hpp"
#include "uvm/model/calibration.hpp"
#include "uvm/model/fault_buffer.hpp"
#include "uvm/model/managed_space.hpp"

namespace orchard::uvm_model {

/// The warps of one kernel.
///
/// There are sms x sm_warps slots, each with a clock of its own. Warps are assigned to slots in order, first to all
/// slots, then whenever one ends. Slots are assigned to SMs by blocks of `block_warps`, round robin, and SMs to
/// micro-TLBs likewise. Few blocks therefore use as many micro-TLBs as possible, as on the hardware.
///
/// A step whose accesses all succeed takes `step_ns`. Otherwise each distinct missing page becomes one raw fault, in
/// the order of the lanes, as long as the micro-TLB has room for it; further faults wait unseen. The warp continues
/// when a replay finds all its pages accessible; pages that are still missing fault again.
class gpu_warps {
public:
    gpu_warps(const calibration& machine, managed_space& space, fault_buffer& buffer, access_source& source,
              nanoseconds start);

    /// Returns true if any warp has not ended.
    [[nodiscard]] bool alive() const { return !running_.empty() || !waiting_.empty(); }
    /// Returns the time when the first of the running warps continues; `never` if all wait. Cost: O(slots).
    [[nodiscard]] nanoseconds next_ready() const;
    /// Returns the time when the last of the ended warps ended.
    [[nodiscard]] nanoseconds end() const { return end_; }

    /// Lets every warp that does not wait run up to `until`. Between services, warps do not affect each other, so they
    /// run one after another. Errors: `InvalidArgument` for an access outside the space.
    absl::Status advance(nanoseconds until);

    /// A replay at `now`: all waiting warps try again.
    void replay(nanoseconds now);

    /// Returns the number of completed steps so far.
    [[nodiscard]] std::uint64_t steps() const { return steps_; }
    /// Adds accesses, hits and steps.
    void add_to(result& r) const;

private:
    struct slot {
        std::uint32_t warp;
        std::uint32_t utlb;
        std::uint64_t step = 0;
        nanoseconds ready;
        std::uint32_t missing = 0;  ///< number of pages in missing_
    };
    struct utlb {
        std::uint32_t outstanding = 0;
        nanoseconds last = 0;  ///< time when its last entry arrives
    };
    /// A page that a waiting warp needs.
    struct need {
        std::uint64_t page;
        bool write;
    };
    using needs = std::array<need, max_lanes>;

    [[nodiscard]] bool run(std::uint32_t index, nanoseconds until, absl::Status& status);
    std::uint32_t attempt(slot& s, needs& missing, std::size_t lanes, absl::Status& status);
    static void add_missing(slot& s, needs& missing, std::uint64_t page, bool write);
    void send_faults(slot& s, const needs& missing, nanoseconds now);
    void finish_step(slot& s, nanoseconds now, std::uint32_t remote);
    [[nodiscard]] bool next_warp(slot& s);

    const calibration& machine_;
    managed_space& space_;
    fault_buffer& buffer_;
    access_source& source_;
    std::uint64_t pages_;
    nanoseconds step_ns_;

    std::vector<slot> slots_;
    std::vector<needs> missing_;          ///< indexed by slot
    std::vector<std::uint32_t> running_;  ///< slots whose warps do not wait
    std::vector<std::uint32_t> waiting_;  ///< slots whose warps wait
    std::vector<utlb> utlbs_;
    std::array<access, max_lanes> lanes_{};
    std::uint32_t next_warp_ = 0;
    nanoseconds end_ = 0;

    // The link to host memory, which all warps share: from `link_start_` on it is busy for `link_busy_`.
    double link_start_ = 0;
    double link_busy_ = 0;

    std::uint64_t steps_ = 0;
    std::uint64_t accesses_ = 0;
    std::uint64_t missed_ = 0;
    std::uint64_t remote_ = 0;
};

}  // namespace orchard::uvm_model
