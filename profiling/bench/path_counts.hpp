// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "runtime/heap/heap.hpp"

namespace orchard::bench {

/// Counts the paths that the kernels of a heap took between two readings; they explain times that differ unexpectedly.
class path_counts {
public:
    /// Adds the increase of each count since the previous call to `row`: groups, searches, their steps (`probes`),
    /// reservations, scans, slabs, requests to the host, refills, returns, and requests that were given up. Errors:
    /// those of the copy from the device. Cost: a copy of the heap's state.
    absl::Status add_to(nlohmann::ordered_json& row, heap& h);

private:
    std::map<std::string, std::uint64_t> before_;
};

}  // namespace orchard::bench
