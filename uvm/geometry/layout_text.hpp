// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Layouts and lane orders as text, for options and messages. Host only. Each `text_of` has an inverse, which tries the
/// possible values one by one: they are few, and text and value then cannot differ.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "uvm/geometry/lane_order.hpp"
#include "uvm/geometry/layout.hpp"

namespace orchard {

/// Returns the size of a tile: "4", "512", "1K", "64K": bytes, or KiB.
inline std::string text_of(tile t) {
    const std::uint64_t bytes = bytes_of(t);
    return bytes < 1024 ? std::to_string(bytes) : std::to_string(bytes / 1024) + "K";
}

/// Returns "automatic", "linear", or "interleaved:" and the tile, such as "interleaved:4K".
inline std::string text_of(layout l) {
    switch (l.which) {
        case layout::choice::automatic: return "automatic";
        case layout::choice::linear: return "linear";
        case layout::choice::interleaved: break;
    }
    return "interleaved:" + text_of(l.turn);
}

/// Returns "ascending" or "prefetch_first".
inline std::string text_of(lane_order order) { return order == lane_order::ascending ? "ascending" : "prefetch_first"; }

/// Returns the layout for which `text_of` returns this text; none for any other text.
inline std::optional<layout> layout_from(std::string_view text) {
    for (const layout l : {layout::automatic(), layout::linear()}) {
        if (text == text_of(l)) {
            return l;
        }
    }
    for (std::uint32_t log = log_of(smallest_tile); log <= log_of(largest_tile); ++log) {
        const layout l = layout::interleaved(static_cast<tile>(log));
        if (text == text_of(l)) {
            return l;
        }
    }
    return std::nullopt;
}

/// Returns the lane order for which `text_of` returns this text; none for any other text.
inline std::optional<lane_order> lane_order_from(std::string_view text) {
    for (const lane_order order : {lane_order::ascending, lane_order::prefetch_first}) {
        if (text == text_of(order)) {
            return order;
        }
    }
    return std::nullopt;
}

}  // namespace orchard
