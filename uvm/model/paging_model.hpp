// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A model of the UVM driver's demand paging: the cost of a kernel's accesses to managed memory, computed without a
/// GPU. docs/uvm_model.md describes its extent, docs/uvm.md the rules.
///
///     access_source --steps--> gpu_warps --faults--> fault_buffer --batches--> paging_model
///                                ^   |                                           | services, block after block
///                                |   +--hits: states of pages--+                 v
///                                |                             +---------> managed_space --> prefetch_tree, chunk_list
///                                +--replay---------------------------------------+
///
/// Two kinds of clocks run: one for each resident warp, and the driver's. The driver's clock decides how far warps may
/// run; warps never change memory, so that they need no order among themselves between two services. (With access
/// counters they do: a warp unmaps what it brings. Warps then have the order of their slots.)
///
/// A policy other than the driver's (paging_policy.hpp) changes one thing each: which SMs run and how fast copies are
/// (`sm_throttle`), the threshold of the prefetcher (`fault_history`), or which accesses fault (`access_counters`).

#include <cstdint>
#include <memory>
#include <optional>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "uvm/model/access.hpp"
#include "uvm/model/access_counters.hpp"
#include "uvm/model/calibration.hpp"
#include "uvm/model/event_log.hpp"
#include "uvm/model/fault_buffer.hpp"
#include "uvm/model/fault_history.hpp"
#include "uvm/model/managed_space.hpp"
#include "uvm/model/paging_policy.hpp"
#include "uvm/model/result.hpp"
#include "uvm/model/sm_throttle.hpp"

namespace orchard::uvm_model {

/// The parameters of a model.
struct configuration {
    std::uint64_t bytes = 0;  ///< size of the managed space: whole OS pages, at most 32 TiB
    /// Bytes of GPU memory: whole 2 MiB chunks, at least one; empty: unlimited.
    std::optional<std::uint64_t> capacity = std::nullopt;
    calibration machine = {};  ///< `calibration_of`, `parse_calibration`
    paging_policy policy = paging_policy::driver;
};

/// Managed memory, one GPU and the driver between them.
///
///     absl::StatusOr<paging_model> model = paging_model::create({.bytes = 1ull << 30, .capacity = 512ull << 20,
///                                                                .machine = *calibration_of("h200")});
///     model->populate({0, 1ull << 30}, processor::cpu);   // written by the CPU before
///     absl::StatusOr<result> r = model->run(source);      // one kernel
///
/// Deterministic: the same calls give the same results, on every machine that rounds according to IEEE 754. Not
/// thread-safe. Pages keep their locations from run to run.
class paging_model {
public:
    /// Errors: `InvalidArgument` if bytes or capacity violate the conditions above, or a constant is out of range.
    static absl::StatusOr<paging_model> create(const configuration& c);

    /// As `managed_space::advise`. Takes no modelled time.
    absl::Status advise(byte_range range, advice what) { return space_->advise(range, what); }
    /// As `managed_space::prefetch`. Its time counts towards the next run.
    absl::Status prefetch(byte_range range, processor to);
    /// As `managed_space::discard`. Takes no modelled time.
    absl::Status discard(byte_range range) { return space_->discard(range); }
    /// As `managed_space::populate`. Only its evictions take modelled time.
    absl::Status populate(byte_range range, processor at);

    /// Runs a kernel to its end and returns all counts since the last run ended. Errors: `InvalidArgument` if the
    /// source's space is larger than the model's, or if an access lies outside it; `Aborted` after `max_idle_batches`
    /// batches without one step of any warp. After an error the model's memory is valid, but the counts belong to an
    /// incomplete run. Cost: the cost of the source, plus a few nanoseconds for each access that hits; for a batch
    /// about 10 us for each VA block, and a few nanoseconds for each page that any warp waits for.
    absl::StatusOr<result> run(access_source& source);

    /// Adds the events of later calls and runs to `log`; null ends that. `log` must outlive the model or the next call.
    /// Cost: 24 or 32 bytes and some ns for each event.
    void record(event_log* log);
    /// Returns the driver's clock: the time when the last run ended, 0 before the first one.
    [[nodiscard]] nanoseconds now() const { return now_; }

    /// Returns the state of the memory.
    [[nodiscard]] const managed_space& space() const { return *space_; }
    /// As `managed_space::validate`.
    [[nodiscard]] absl::Status validate() const { return space_->validate(); }
    /// Return the constants and the policy with which the model was created.
    [[nodiscard]] const calibration& machine() const { return machine_; }
    [[nodiscard]] paging_policy policy() const { return policy_; }

    /// The number of batches without progress after which `run` gives up. Without a limit, a step that needs more
    /// chunks than the GPU has would be serviced for ever: each service evicts the pages that the one before has
    /// brought.
    static constexpr std::uint64_t max_idle_batches = 100'000;

private:
    paging_model(const configuration& c, std::uint64_t chunks);

    // Each function is described at its definition.
    [[nodiscard]] double cost_of(const work& w) const;
    absl::Status serve_batch(class gpu_warps& warps);
    absl::Status serve_blocks(class gpu_warps& warps);
    void note_batch(nanoseconds begin, std::uint64_t services, std::uint64_t flushed);
    void stamp();

    calibration machine_;  ///< the constants
    paging_policy policy_;
    std::unique_ptr<managed_space> space_;       ///< the state of the memory; it stays from run to run
    fault_buffer buffer_;                        ///< empty between runs
    fault_batch batch_;                          ///< the batch in service; a member, so that its memory is reused
    nanoseconds now_ = 0;                        ///< the driver's clock
    std::unique_ptr<access_counters> counters_;  ///< of dynamic_act; else null
    std::optional<fault_history> history_;       ///< of early_adaptor
    std::optional<sm_throttle> throttle_;        ///< of throttling_fetch, made for each run
    event_log* log_ = nullptr;                   ///< where events go; null: nowhere
    double extra_ns_ = 0;                        ///< time of calls since the last run
    bool awake_ = false;                         ///< the driver has just replayed and checks again before it sleeps
};

}  // namespace orchard::uvm_model
