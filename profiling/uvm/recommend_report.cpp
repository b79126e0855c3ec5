// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The recommendations: for people, for programs, and as the table that heaps use.

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "profiling/uvm/recommend.hpp"
#include "profiling/uvm/text_table.hpp"
#include "runtime/cli/version.hpp"
#include "uvm/geometry/layout_text.hpp"

namespace orchard::uvm_study {
namespace {

using nlohmann::ordered_json;

const char* text_of(portion_policy p) { return p == portion_policy::packed ? "packed" : "padded"; }
const char* layout_name(layout how) { return how == layout::linear() ? "linear" : "interleaved"; }
std::string tile_name(layout how) {
    return how == layout::linear() ? "-" : how == layout::automatic() ? "element" : orchard::text_of(how.turn);
}
std::string short_name(const candidate& c) {
    const std::string how = c.how == layout::linear() ? "linear" : tile_name(c.how);
    return c.placed == portion_policy::packed ? how : absl::StrCat(how, " padded");
}
const char* capacity_name(const verdict& v) { return v.fits ? "fits" : "oversubscribed"; }

/// Returns the time of a candidate, relative to the recommended one.
double slower(const verdict& v, std::size_t c) { return v.seconds[c] / v.seconds[v.best]; }

std::string times(double factor) { return absl::StrFormat("x %.2f", factor); }

/// Returns the fastest other candidate whose time differs; the model sees no difference between candidates of equal
/// time.
std::size_t next_best(const verdict& v) {
    std::size_t next = v.best;
    for (std::size_t c = 0; c < candidates.size(); ++c) {
        const bool equal = std::abs(slower(v, c) - 1) < 1e-9;
        if (!equal && (next == v.best || v.seconds[c] < v.seconds[next])) {
            next = c;
        }
    }
    return next;
}

ordered_json row_of(const verdict& v) {
    ordered_json all = ordered_json::array();
    for (std::size_t c = 0; c < candidates.size(); ++c) {
        all.push_back({{"layout", layout_name(candidates[c].how)},
                       {"tile", tile_name(candidates[c].how)},
                       {"placement", text_of(candidates[c].placed)},
                       {"seconds", v.seconds[c]},
                       {"times_as_long", slower(v, c)}});
    }
    const candidate& best = candidates[v.best];
    return {{"pattern", std::string(name_of(v.pattern))},
            {"capacity", capacity_name(v)},
            {"layout", layout_name(best.how)},
            {"tile", tile_name(best.how)},
            {"placement", text_of(best.placed)},
            {"all", all}};
}

std::string cpp_of(const candidate& c) {
    std::string how = absl::StrCat("layout::", orchard::text_of(c.how), "()");
    if (c.how.which == layout::choice::interleaved) {
        const std::uint64_t bytes = bytes_of(c.how.turn);
        const std::string turn = bytes < 1024 ? absl::StrCat("b", bytes) : absl::StrCat("k", bytes / 1024);
        how = absl::StrCat("layout::interleaved(tile::", turn, ")");
    }
    return absl::StrCat("{", how, ", portion_policy::", text_of(c.placed), "}");
}

constexpr const char* header_begin = R"(// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What the model of the UVM driver's paging recommends where memory moves between host and GPU: docs/layouts.md.
///
/// Made by `orchard uvm --recommend --header`, for the machine %s; a test holds the two together.

#include <array>

#include "uvm/geometry/access_pattern.hpp"
#include "uvm/geometry/layout.hpp"
#include "uvm/geometry/portion.hpp"

namespace orchard {

/// How arrays of lanes are to lie, and how warps share VA blocks.
struct recommended_layout {
    layout arrays;  ///< `automatic`: in tiles of one element
    portion_policy portions;
};

/// Where all memory fits the GPU, and where it does not.
struct recommendation {
    recommended_layout fits;
    recommended_layout oversubscribed;
};

/// By pattern, in the order of `access_pattern`.
inline constexpr std::array<recommendation, access_pattern_names.size()> recommended_layouts{{
)";

constexpr const char* header_end = R"(}};

}  // namespace orchard
)";

}  // namespace

std::string to_table(const std::vector<verdict>& verdicts) {
    std::vector<std::vector<std::string>> lines{
        {"pattern", "capacity", "layout", "tile", "placement", "next best", "", "ms"}};
    for (const candidate& c : candidates) {
        if (c.placed == portion_policy::packed) {
            lines.front().push_back(short_name(c));
        }
    }
    lines.front().emplace_back("padded");
    for (const verdict& v : verdicts) {
        const candidate& best = candidates[v.best];
        const std::size_t next = next_best(v);
        lines.push_back({std::string(name_of(v.pattern)), capacity_name(v), layout_name(best.how), tile_name(best.how),
                         text_of(best.placed), short_name(candidates[next]), times(slower(v, next)),
                         absl::StrFormat("%.1f", v.seconds[v.best] * 1e3)});
        double padded = std::numeric_limits<double>::infinity();
        for (std::size_t c = 0; c < candidates.size(); ++c) {
            if (candidates[c].placed == portion_policy::packed) {
                lines.back().push_back(times(slower(v, c)));
            } else {
                padded = std::min(padded, slower(v, c));
            }
        }
        lines.back().push_back(times(padded));
    }
    constexpr std::size_t words = 6;
    return in_columns(lines, words);
}

std::string to_json(const grid& g, const std::vector<verdict>& verdicts, const std::string& command) {
    ordered_json rows = ordered_json::array();
    std::ranges::transform(verdicts, std::back_inserter(rows), row_of);
    const ordered_json document = {{"version", 1},
                                   {"program", std::string(version_text)},
                                   {"command", command},
                                   {"bytes", g.bytes},
                                   {"bytes_per_thread", g.bytes_per_thread},
                                   {"accesses_per_thread", g.accesses},
                                   {"element_bytes", grid_element_bytes},
                                   {"stride", g.stride},
                                   {"seed", g.seed},
                                   {"contents_before", g.contents == before::cpu ? "cpu" : "nowhere"},
                                   {"machine", uvm_model::to_text(g.machine)},
                                   {"recommendations", rows}};
    // A path may not be UTF-8: invalid bytes are replaced, so that they cause no exception.
    return document.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string to_header(const std::vector<verdict>& verdicts, std::string_view machine) {
    std::string text =
        absl::StrFormat(absl::ParsedFormat<'s'>(header_begin), absl::string_view(machine.data(), machine.size()));
    for (std::size_t p = 0; p < access_pattern_names.size(); ++p) {
        std::array<std::string, 2> of;
        for (const verdict& v : verdicts) {
            if (static_cast<std::size_t>(v.pattern) == p) {
                of[v.fits ? 0 : 1] = cpp_of(candidates[v.best]);
            }
        }
        constexpr std::size_t columns = 120;  // clang-format breaks longer lines
        const bool fits = of[0].size() + of[1].size() + std::string_view("    {, },").size() <= columns;
        absl::StrAppend(&text, "    // ", std::string(access_pattern_names[p]), "\n    {", of[0],
                        fits ? ", " : ",\n     ", of[1], "},\n");
    }
    return text + header_end;
}

}  // namespace orchard::uvm_study
