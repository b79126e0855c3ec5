// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The parameters of a study, from text and as text. Tests hold both directions together.

#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "profiling/uvm/study.hpp"
#include "runtime/options/byte_size.hpp"
#include "uvm/geometry/layout_text.hpp"

namespace orchard::uvm_study {
namespace {

/// The layout that is not one of Orchard's own.
constexpr const char* sync_malloc = "sync_malloc";

/// Convert between the two types of views, which are different types in some builds of Abseil.
absl::string_view view(std::string_view text) { return {text.data(), text.size()}; }
std::string_view view(absl::string_view text) { return {text.data(), text.size()}; }

/// Returns the error for text that is no value of its kind: the text is escaped, since it may hold anything.
absl::Status refused(std::string_view text, const char* what, const char* allowed) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", absl::CEscape(view(text)), "\" is no ", what, "; give ", allowed));
}

}  // namespace

absl::StatusOr<arrangement> parse_arrangement(std::string_view text) {
    constexpr const char* allowed =
        "linear, or interleaved:TILE or interleaved:TILE:ORDER, with a tile from 4 B to 64KiB that is a power of two, "
        "and the order ascending or prefetch_first; or sync_malloc";
    if (text == "linear") {
        return arrangement{};
    }
    if (text == sync_malloc) {
        return arrangement{.by = uvm_model::placed_by::sync_malloc};
    }
    // "interleaved", the tile, and perhaps the order.
    const std::vector<absl::string_view> parts = absl::StrSplit(view(text), ':');
    if (parts.size() < 2 || parts.size() > 3 || parts[0] != "interleaved") {
        return refused(text, "layout", allowed);
    }
    arrangement a;
    // Named tiles first, then any number of bytes that is a tile.
    if (const auto known = layout_from(absl::StrCat("interleaved:", parts[1]))) {
        a.how = *known;
    } else if (const auto bytes = parse_bytes(view(parts[1])); bytes.ok() && is_tile(*bytes)) {
        a.how = layout::interleaved(tile_of(*bytes));
    } else {
        return refused(text, "layout", allowed);
    }
    if (parts.size() == 3) {
        const auto order = lane_order_from(view(parts[2]));
        if (!order) {
            return refused(text, "layout", allowed);
        }
        a.order = *order;
    }
    return a;
}

std::string text_of(const arrangement& a) {
    if (a.by == uvm_model::placed_by::sync_malloc) {
        return sync_malloc;
    }
    const std::string text = orchard::text_of(a.how);
    return a.order == lane_order::ascending ? text : absl::StrCat(text, ":", orchard::text_of(a.order));
}

absl::StatusOr<capacity> parse_capacity(std::string_view text) {
    constexpr const char* allowed = "a share such as 50%, bytes such as 4GiB (at least 2MiB), or unlimited";
    if (text == "unlimited") {
        return capacity{};
    }
    if (absl::string_view number = view(text); absl::ConsumeSuffix(&number, "%")) {
        double percent = 0;
        // Written so that NaN fails, too.
        if (!absl::SimpleAtod(number, &percent) || !(percent > 0) || percent > 1e6) {
            return refused(text, "capacity", allowed);
        }
        // More than 100 % is allowed: the threads' memory then fits with room to spare.
        return capacity{percent / 100, std::nullopt};
    }
    const auto bytes = parse_bytes(text);
    // A VA block is the model's unit of GPU memory.
    if (!bytes.ok() || *bytes < segment_bytes) {
        return refused(text, "capacity", allowed);
    }
    return capacity{std::nullopt, *bytes};
}

std::string text_of(const capacity& c) {
    return c.share ? absl::StrFormat("%g%%", *c.share * 100) : c.bytes ? format_bytes(*c.bytes) : "unlimited";
}

}  // namespace orchard::uvm_study
