// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The way in which the lanes of a warp access their arrays. A program can tell it to a heap, which chooses a layout by
/// it. The patterns are those of the model of the driver's paging: docs/uvm_traces.md.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace orchard {

/// The known pattern of the accesses.
enum class access_pattern : std::uint8_t {
    unknown,
    same_index,  ///< in each step all lanes access the same random index, each in its own array
    random,      ///< each lane accesses random elements
    sequential,  ///< each lane reads from the first element to the last, in step with the others
    strided,     ///< each lane reads every n-th element, in step with the others
    growth,      ///< each lane fills its array from the first element on, at its own pace
    graph_walk,  ///< each lane follows edges, in the memory of any lane
};

/// The patterns' names in text, in the order of the enumeration; all but the first are also names of `orchard uvm`.
inline constexpr std::array<std::string_view, 7> access_pattern_names{
    "unknown", "same-index", "random", "sequential", "strided", "growth", "graph-walk"};

/// Returns the pattern's name in text; `p` must be an enumerator.
constexpr std::string_view name_of(access_pattern p) { return access_pattern_names[static_cast<std::size_t>(p)]; }

}  // namespace orchard
