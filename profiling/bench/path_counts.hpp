// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Counts beside times: which paths the requests of a measurement took. A time alone does not say whether a launch was
/// slow because it asked the host, searched bitmaps or created slabs; the row holds these counts for that reason.

#include <map>
#include <string>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "runtime/heap/heap.hpp"

namespace orchard::bench {

/// Counts the paths that the kernels of a heap took between two readings; they explain times that differ unexpectedly.
class path_counts {
public:
    /// Adds the increase of each count since the previous call to `row`. No kernel may run.
    ///
    ///     groups           groups that asked for memory, pages and chunks
    ///     reclaims         reclaims that ended
    ///     searches         groups of small requests that found no page at their hint for some lane
    ///     probes           stages of these searches
    ///     reservations     reservations of fresh pages
    ///     scans            scans of all words of a class
    ///     slabs_published  segments that became slabs
    ///     host_requests    requests posted to the service; `refills` are those for the segment cache
    ///     returns          requests that returned segments
    ///     abandoned        requests that were given up by the group that waited
    ///
    /// Errors: those of the copy from the device. Cost: a copy of the heap's state.
    absl::Status add_to(nlohmann::ordered_json& row, heap& h);

private:
    /// The total of each count at the previous call; a missing one counts as 0.
    std::map<std::string, std::uint64_t> before_;
};

}  // namespace orchard::bench
