// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The pictures of `orchard map -o map.svg` and `map.png`.

#include <string>

#include "runtime/heap/heap_map.hpp"

namespace orchard::command_line {

/// Return the map as a picture of the segments up to the last one with memory, with a legend and totals: as SVG, or as
/// PNG (8 bits for each channel). A cell of the picture is one segment, or several if there are more than 6,144; it
/// then has the mean colour of these. Cost: at most 6,144 cells, and a look at each segment.
std::string map_svg(const heap_map& map);
std::string map_png(const heap_map& map);

}  // namespace orchard::command_line
