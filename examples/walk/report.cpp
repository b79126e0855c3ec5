// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The report of a walk; see report.hpp.
///
///     to_text    input_text     the graph, the device, the heap, the walk
///                phases_text    a line for each phase: seconds, kernel seconds, items, items a second
///                heap_text      counters of the heap
///                checks_text    of examples/report
///     json_of    the same numbers, all options and all statistics

#include "examples/walk/report.hpp"

#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/cli/json_output.hpp"
#include "runtime/options/byte_size.hpp"
#include "runtime/text/text_table.hpp"

namespace orchard::examples {

namespace {

/// Returns the word of the option `--dead-ends`.
const char* name_of(dead_end d) { return d == dead_end::stop ? "stop" : "restart"; }

/// Returns a number with a prefix: "12.3 M".
std::string scaled(double value) {
    for (const auto& [unit, prefix] : {std::pair{1e9, "G"}, std::pair{1e6, "M"}, std::pair{1e3, "K"}}) {
        if (value >= unit) {
            return absl::StrFormat("%.1f %s", value / unit, prefix);
        }
    }
    return absl::StrFormat("%.0f ", value);
}

/// Returns the part about the input and the settings of the run.
std::string input_text(const walk_description& w, const walk_result& r) {
    return absl::StrFormat(
        "graph    %s\n"
        "         %u vertices, %u edges, degree up to %u (%u entries; %u self-loops and %u duplicates dropped)\n"
        "device   %s (%s)\n"
        "%s %s of capacity\n"
        "walk     %u walkers, %u steps each, seed %u, %u edges a batch, dead ends %s\n\n",
        w.source, w.vertices, w.edges, r.max_degree, w.entries, w.self_loops, w.duplicates,
        orchard::name_of(w.device.kind), w.device.reason, w.allocator.empty() ? "heap    " : w.allocator,
        format_bytes(w.heap.capacity), w.walk.walkers, w.walk.steps, w.walk.seed, w.walk.batch_of(w.edges),
        name_of(w.walk.at_dead_end));
}

/// Returns the table of phases. Reading the graph and creating the heap have no kernels and no rate.
std::string phases_text(const walk_description& w, const walk_result& r) {
    std::vector<std::vector<std::string>> lines{{"phase", "seconds", "kernels", "items", "rate"}};
    for (const auto& [name, seconds] :
         {std::pair{"read the graph", w.read_seconds}, std::pair{"create the heap", w.heap_seconds}}) {
        lines.push_back({name, absl::StrFormat("%.3f", seconds)});
    }
    for (const phase& p : r.phases) {
        lines.push_back({p.name, absl::StrFormat("%.3f", p.seconds), absl::StrFormat("%.3f", p.kernel_seconds),
                         absl::StrCat(p.items), absl::StrFormat("%s%s/s", scaled(p.rate()), p.unit)});
    }
    return detail::in_columns(lines, "lrrrl") + "\n";
}

/// Returns the heap's counters, as of the end of the run: everything was freed.
std::string heap_text(const walk_result& r) {
    if (!r.at_end.has_value()) {
        return "";
    }
    const statistics& s = *r.at_end;
    const std::vector<std::vector<std::string>> lines = {
        {"  allocations", absl::StrFormat("%u, of %s", s.allocations, format_bytes(s.allocated_bytes))},
        {"  frees", absl::StrFormat("%u", s.frees)},
        {"  groups", absl::StrFormat("%u, %u of several lanes", s.groups, s.multi_lane_groups)},
        {"  reallocs", absl::StrFormat("%u, %u moved", s.reallocs, s.reallocs_moved)},
        {"  large requests", absl::StrFormat("%u", s.chunk_allocations)},
        {"  slabs", absl::StrFormat("%u published, %u given back", s.slabs_published, s.slabs_retired)},
        {"  host_requests", absl::StrFormat("%u (%u refills, %u returns)", s.host_requests, s.refills, s.returns)},
        // Segments as bytes.
        {"  granted at peak", format_bytes(s.peak_segments_granted * (2 * mib))},
        {"committed",
         absl::StrFormat("%s, at peak %s", format_bytes(s.committed_bytes), format_bytes(s.peak_committed_bytes))},
        {"  metadata", format_bytes(s.metadata_bytes)},
    };
    return absl::StrCat("heap\n", detail::in_columns(lines, "l"), "\n");
}

}  // namespace

std::string to_text(const walk_description& what, const walk_result& result) {
    return absl::StrCat(input_text(what, result), phases_text(what, result), heap_text(result),
                        checks_text(result.checks));
}

/// `ordered_json` keeps the members in this order.
nlohmann::ordered_json json_of(const walk_description& what, const walk_result& result) {
    using json = nlohmann::ordered_json;
    json phases = json::array();
    for (const phase& p : result.phases) {
        phases.push_back({{"name", p.name},
                          {"seconds", p.seconds},
                          {"kernel_seconds", p.kernel_seconds},
                          {"items", p.items},
                          {"unit", p.unit},
                          {"rate_per_second", p.rate()}});
    }
    json heap_options = json::object();
    // All options with the values of this run, so that it can be repeated.
    for (const option_info& o : option_table(what.heap)) {
        heap_options[o.name] = o.value;
    }
    const auto statistics_of = [](const std::optional<statistics>& s) {
        return s.has_value() ? command_line::json_of(*s) : json();
    };
    return {
        {"graph",
         {{"source", what.source},
          {"vertices", what.vertices},
          {"edges", what.edges},
          {"max_degree", result.max_degree},
          {"entries", what.entries},
          {"self_loops", what.self_loops},
          {"duplicates", what.duplicates}}},
        {"walk",
         {{"walkers", what.walk.walkers},
          {"steps", what.walk.steps},
          {"seed", what.walk.seed},
          {"batch", what.walk.batch_of(what.edges)},
          {"dead_ends", name_of(what.walk.at_dead_end)}}},
        {"allocator", what.allocator.empty() ? "orchard" : what.allocator},
        {"heap_options", heap_options},
        {"read_seconds", what.read_seconds},
        {"heap_seconds", what.heap_seconds},
        {"phases", phases},
        {"checks", json_of(result.checks)},
        {"passed", result.passed()},
        {"statistics_before_freeing", statistics_of(result.before_freeing)},
        {"statistics", statistics_of(result.at_end)},
    };
}

}  // namespace orchard::examples
