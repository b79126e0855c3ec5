// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The GPU's side: resident warps that execute their steps, wait at page faults, and put faults into the buffer.
///
///     running --all accesses of a step succeed: step_ns later--> running
///        |                                                          |
///        |  a page is missing                                       |  the source has no further step
///        v                                                          v
///     waiting --a replay finds all its pages--> running          the slot takes the next warp, or is empty
///        ^  |
///        |  | a replay finds a page missing: faults again
///        +--+
///
/// Times are model time. `paging_model` decides how far the warps may run (`advance`) and when the driver replays.

#include <array>
#include <cstdint>
#include <vector>

#include <absl/status/status.h>

#include "uvm/model/access.hpp"
#include "uvm/model/access_counters.hpp"
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
///
/// An SM that may not run (`allow`) begins no step. Its warps that wait for pages go on to the end of their step: the
/// replay is the memory's.
class gpu_warps {
public:
    /// Assigns the first warps to slots; they begin at `start`. All arguments must outlive the object. `space` is
    /// changed: an access that succeeds marks its page as used.
    /// @param counters  they count each access to host memory; null: none
    gpu_warps(const calibration& machine, managed_space& space, fault_buffer& buffer, access_source& source,
              access_counters* counters, nanoseconds start);

    /// Returns true if any warp has not ended.
    [[nodiscard]] bool alive() const { return !running_.empty() || !waiting_.empty(); }
    /// Returns the time when the first of the running warps continues; `never` if all wait, or are on SMs that may not
    /// run. Cost: O(slots).
    [[nodiscard]] nanoseconds next_ready() const;
    /// Returns the time when the last of the ended warps ended.
    [[nodiscard]] nanoseconds end() const { return end_; }

    /// Lets every warp that does not wait run until its clock passes `until`. Between services no warp affects another
    /// one, so that they run one after another. A warp begins no step later than `until`, but its last step may end
    /// later. Errors: `InvalidArgument` for an access outside the space.
    absl::Status advance(nanoseconds until);

    /// A replay at `now`: all waiting warps try again the pages that they miss. Warps that still miss pages send faults
    /// in the order in which the model saw them begin to wait, as far as their micro-TLBs have room.
    void replay(nanoseconds now);

    /// Returns the number of SMs that have warps.
    [[nodiscard]] std::uint32_t sms() const;
    /// Lets the first `sms` SMs run from `now` on, and no others. Initially all may.
    void allow(std::uint32_t sms, nanoseconds now);

    /// Returns the number of completed steps so far.
    [[nodiscard]] std::uint64_t steps() const { return steps_; }
    /// Adds the counts of accesses, hits, steps and remote accesses to `r`. Called once, at the end of a run.
    void add_to(result& r) const;

private:
    /// Room for one resident warp, and the state of the warp that is in it.
    struct slot {
        std::uint32_t warp;         ///< number of the warp in the source
        std::uint32_t sm;           ///< the slot's SM
        std::uint32_t utlb;         ///< the micro-TLB of that SM
        std::uint64_t step = 0;     ///< the step that the warp executes or waits in
        nanoseconds ready;          ///< the warp's clock: when its next step begins
        std::uint32_t missing = 0;  ///< pages of this step that it misses; not 0: it waits
        std::uint32_t remote = 0;   ///< accesses to host memory of the step in which it waits
    };
    /// A micro-TLB: it limits the number of faults of its SMs that are outstanding at the same time.
    struct utlb {
        std::uint32_t outstanding = 0;  ///< faults sent since the last replay
        nanoseconds last = 0;           ///< time when its last entry arrives
    };
    /// A page that a waiting warp needs.
    struct need {
        std::uint64_t page;
        bool write;
    };
    /// A step has at most one access a lane, so that a warp misses at most 32 distinct pages.
    using needs = std::array<need, max_lanes>;

    // Each of these is described at its definition.
    [[nodiscard]] bool held(const slot& s) const { return s.sm >= allowed_; }
    [[nodiscard]] bool run(std::uint32_t index, nanoseconds until, absl::Status& status);
    std::uint32_t attempt(slot& s, needs& missing, std::size_t lanes, absl::Status& status);
    static void add_missing(slot& s, needs& missing, std::uint64_t page, bool write);
    void send_faults(slot& s, const needs& missing, nanoseconds now);
    void finish_step(slot& s, nanoseconds now, std::uint32_t remote);
    [[nodiscard]] bool next_warp(slot& s);

    const calibration& machine_;
    managed_space& space_;       ///< states of the pages, for hits and misses
    fault_buffer& buffer_;       ///< receives the faults
    access_source& source_;      ///< the accesses of all warps
    access_counters* counters_;  ///< null: accesses to host memory are not counted one by one
    std::uint64_t pages_;        ///< OS pages of the space
    nanoseconds step_ns_;        ///< `calibration::step_ns`, rounded

    std::vector<slot> slots_;
    std::vector<needs> missing_;             ///< indexed by slot
    std::vector<std::uint32_t> running_;     ///< slots whose warps do not wait
    std::vector<std::uint32_t> waiting_;     ///< slots whose warps wait
    std::vector<utlb> utlbs_;                ///< indexed by `slot::utlb`
    std::array<access, max_lanes> lanes_{};  ///< accesses of the step being executed
    std::uint32_t next_warp_ = 0;            ///< the next warp without a slot
    std::uint32_t allowed_;                  ///< SMs from this one on begin no step
    nanoseconds end_ = 0;                    ///< when the last of the ended warps ended

    // The link to host memory, which all warps share: from `link_start_` on it is busy for `link_busy_`.
    double link_start_ = 0;
    double link_busy_ = 0;

    std::uint64_t steps_ = 0;     ///< completed steps
    std::uint64_t accesses_ = 0;  ///< of lanes, each counted once however often it was tried
    std::uint64_t missed_ = 0;    ///< those of them that did not succeed at once
    std::uint64_t remote_ = 0;    ///< accesses that reached host memory
};

}  // namespace orchard::uvm_model
