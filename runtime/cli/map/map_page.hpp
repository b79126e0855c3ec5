// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The page of `orchard map -o map.html`.

#include <string>

#include "runtime/heap/heap_map.hpp"

namespace orchard::command_line {

/// Returns an HTML page that shows the map: a canvas to zoom and to move, details of the segment under the pointer, a
/// legend, and totals. It needs nothing but a browser: no network, no other file. When its script has run, the
/// attribute `data-ready` of the element `html` is "1". Behind `#segment=N` in its address, segment N is shown and
/// described.
std::string map_page(const heap_map& map);

}  // namespace orchard::command_line
