// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The parameters of the walk, and the heap that it needs.

#include <cstdint>
#include <string>

#include "examples/walk/walk_rule.hpp"
#include "uvm/geometry/geometry.hpp"

namespace orchard::examples {

/// The parameters of a walk.
struct walk_options {
    std::uint64_t walkers = 1000;
    std::uint32_t steps = 40;  ///< steps of each walker
    std::uint64_t seed = 1;    ///< determines the order of insertion and the walk
    std::uint64_t batch = 0;   ///< edges of one launch; 0: a sixteenth of all edges, but 4 Ki to 4 Mi
    dead_end at_dead_end = dead_end::stop;
    std::string dump{};  ///< file for the heap's map before all is freed (`heap::dump`); empty: none
    std::uint64_t log_bytes = segment_bytes;  ///< of a log, in which a warp gathers walks for the host

    /// Returns the edges of one launch if there are `edges` in total.
    [[nodiscard]] std::uint64_t batch_of(std::uint64_t edges) const;
};

/// Returns a heap size in bytes with which the walk fits, with room to spare: lists at twice their entries (capacities
/// are powers of two), the same again for the shorter lists that they grew from, whose slabs may not be empty, the
/// logs, and the segment cache. At least 1 GiB.
std::uint64_t suggested_capacity(std::uint32_t vertices, std::uint64_t edges, const walk_options& options);

}  // namespace orchard::examples
