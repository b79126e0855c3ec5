// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The colours of maps. The page and the pictures take them from here, so that both look alike.

#include <cstdint>

#include "runtime/heap/heap_map.hpp"

namespace orchard::command_line {

/// A colour: 0xrrggbb.
using colour = std::uint32_t;

namespace map_colours {

inline constexpr colour background = 0xffffff;
inline constexpr colour text = 0x222222;
inline constexpr colour faint_text = 0x6b6b6b;
inline constexpr colour on_host = 0xb3202a;  ///< the strip below segments whose memory is on the host
inline constexpr colour interleaved = 0xb5432f;

/// Returns the colour of a use. Slabs have that of their class, and chunks of arrays `interleaved`.
colour of(segment_use use);
/// Returns the colour of leaves.
colour of(portion_use use);
colour of(map_tier tier);
/// Returns the colour of a class, from dark blue for small pages to green for large ones.
colour of_class(std::uint32_t page_class);

/// Returns the colour between `from` (`share` 0) and `to` (1).
colour mixed(colour from, colour to, double share);
/// Returns the colour of a part that is not in use of something that has the colour `full`.
colour unused(colour full);
/// Returns the colour of something that is in use in part.
colour filled(colour full, double share);
/// Returns the colour of a share of memory in use, for maps that show only that.
colour of_share(double share);

}  // namespace map_colours
}  // namespace orchard::command_line
