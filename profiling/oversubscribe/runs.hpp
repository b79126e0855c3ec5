// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The runs of `orchard oversubscribe`: data of 0.5 to 8 times a device budget, read in several patterns and ways.
///
///     for each size of data, in ascending order
///       for each pattern and layout
///         for each way: threads allocate, write, and read in some passes; one row
///
/// Each way has a heap of its own, which all its rows of one size of data share: creating a host tier takes some
/// seconds, which each row would pay again. `stay` and `move` share none, since after a run of `move` the lowest
/// addresses need not be on the device any more. Which memory lies where stays for the next rows of `move`.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "device/simt/launch.cuh"
#include "profiling/apps/app.hpp"
#include "profiling/oversubscribe/patterns.cuh"
#include "runtime/options/options.hpp"
#include "uvm/geometry/layout.hpp"

namespace orchard::oversubscribe {

/// How data that exceeds the device's budget is reached.
enum class way : std::uint32_t {
    device,   ///< for comparison: all of it is on the device
    stay,     ///< elastic: what exceeds the budget stays on the host, and is read over the bus
    move,     ///< elastic: the same, with `heap::migrate` between passes
    managed,  ///< the UVM driver moves pages when they fault: by the model, or measured where that is allowed
};
inline constexpr std::string_view way_names[] = {"device", "stay", "move", "managed"};

/// The parameters of all runs. No list is empty.
struct plan {
    options heap;  ///< `capacity` is the device budget; `move_unit` 0 becomes a segment
    simt::device_kind device = simt::device_kind::emulated;
    std::vector<double> data{0.5, 1, 2, 4, 8};  ///< bytes of data, in device budgets
    std::vector<pattern> patterns;
    std::vector<apps::app> applications;  ///< of `orchard apps`, beside the patterns
    std::vector<layout> layouts{layout::linear()};
    std::vector<way> ways{way::device, way::stay, way::move, way::managed};
    std::uint64_t threads = 16384;
    int passes = 10;
    std::uint64_t accesses = 1024;    ///< of a thread in a pass; of sequential: all up to `part`
    std::uint64_t part = 8ull << 30;  ///< most bytes that a pass of sequential reads
    /// After which the threads of a pattern's kernel end, when they look at the time: such a row says so. Of an
    /// application: `apps::job::limit_s`.
    double kernel_seconds = 5;
    bool measures_managed = false;  ///< `allow_oversubscription`: runs the UVM driver beyond the GPU's memory
    /// Called once, from another thread, if such a run takes longer than `managed_patience`. A thread that waits for a
    /// page does not see the limit of its kernel, so that the process has to end to end it.
    std::function<void()> stuck = [] {};
    absl::Duration managed_patience = absl::Minutes(10);
};

using row = nlohmann::ordered_json;
/// The keys of a row that say what was run; the others are results.
inline constexpr std::string_view row_axes[] = {"pattern", "layout", "data", "way"};

/// Runs everything and calls `done(row)` after each run. `is_known(row)`: true for the axes of a row that need not be
/// run. Errors: those of heaps, launches and `done`; Internal if a value or a result is wrong: the row is the last one
/// then.
absl::Status run(const plan& p, const std::function<bool(const row&)>& is_known,
                 const std::function<absl::Status(const row&)>& done);

}  // namespace orchard::oversubscribe
