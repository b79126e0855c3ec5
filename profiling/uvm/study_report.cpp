// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Tables and JSON of a study. The table has the counts that explain a time; the JSON has all of them.

#include "profiling/uvm/study_report.hpp"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "runtime/text/text_table.hpp"

namespace orchard::uvm_study {
namespace {

using nlohmann::ordered_json;

/// 10^6 bytes: the unit of moved bytes.
constexpr double mb = 1e6;

/// Returns the line of a cell in the table.
std::vector<std::string> line_of(const outcome& o) {
    const uvm_model::result& r = o.counts;
    // In the order of the titles in `to_table`.
    return {o.source,
            o.how,
            o.placement,
            o.memory,
            o.policy,
            absl::StrFormat("%.2f", r.seconds * 1e3),
            absl::StrFormat("%d", r.raw_faults),
            absl::StrFormat("%d", r.batches),
            absl::StrFormat("%d", r.block_services),
            absl::StrFormat("%.1f", static_cast<double>(r.bytes_in()) / mb),
            absl::StrFormat("%.1f", static_cast<double>(r.bytes_out()) / mb),
            absl::StrFormat("%.0f%%", 100 * r.useful_pages()),
            absl::StrFormat("%.0f%%", 100 * r.useful_big_pages()),
            absl::StrFormat("%d", r.peak_active_blocks),
            absl::StrFormat("%d", r.evictions)};
}

/// Returns a cell as JSON: all its names and counts.
ordered_json row_of(const outcome& o) {
    const uvm_model::result& r = o.counts;
    return {{"source", o.source},
            {"layout", o.how},
            {"placement", o.placement},
            {"capacity", o.memory},
            {"policy", o.policy},
            {"capacity_bytes", o.capacity},
            {"bytes", o.bytes},
            {"seconds", r.seconds},
            {"accesses", r.accesses},
            {"remote_accesses", r.remote_accesses},
            {"remote_bytes", r.remote_bytes},
            {"faults", r.raw_faults},
            {"distinct_faults", r.distinct_faults},
            {"flushed_faults", r.flushed_faults},
            {"batches", r.batches},
            {"block_services", r.block_services},
            {"bytes_in", r.bytes_in()},
            {"bytes_out", r.bytes_out()},
            {"useful_page_share", r.useful_pages()},
            {"useful_big_page_share", r.useful_big_pages()},
            {"prefetched_pages", r.prefetched_pages},
            {"prefetched_used_pages", r.tree_used_pages},
            {"peak_active_blocks", r.peak_active_blocks},
            {"touched_blocks", r.touched_blocks},
            {"touched_pages", r.touched_pages},
            {"evictions", r.evictions}};
}

}  // namespace

std::string to_table(const std::vector<outcome>& cells) {
    std::vector<std::vector<std::string>> lines{{"pattern", "layout", "placement", "capacity", "policy", "ms", "faults",
                                                 "batches", "services", "MB in", "MB out", "useful 4K", "useful 64K",
                                                 "blocks", "evictions"}};
    for (const outcome& o : cells) {
        lines.push_back(line_of(o));
    }
    return detail::in_columns(lines, "lllllr");
}

std::vector<outcome> fastest(const std::vector<outcome>& cells) {
    std::vector<outcome> best;
    for (const outcome& o : cells) {
        // The fastest cell so far of this pattern, capacity and policy; of equal times, the first one stays.
        const auto same = std::ranges::find_if(best, [&](const outcome& b) {
            return b.source == o.source && b.memory == o.memory && b.policy == o.policy;
        });
        if (same == best.end()) {
            best.push_back(o);
        } else if (o.counts.seconds < same->counts.seconds) {
            *same = o;
        }
    }
    return best;
}

nlohmann::ordered_json json_of(const study& s, const std::vector<outcome>& cells) {
    ordered_json rows = ordered_json::array();
    for (const outcome& o : cells) {
        rows.push_back(row_of(o));
    }
    return {{"threads", s.threads},
            {"bytes_per_thread", s.bytes_per_thread},
            {"accesses_per_thread", s.accesses},
            {"element_bytes", s.element_bytes},
            {"stride", s.stride},
            {"scale", s.scale},
            {"tails", s.tails == tail_policy::adjacent ? "adjacent" : "pooled"},
            {"seed", s.seed},
            {"contents_before", s.contents == before::cpu ? "cpu" : "nowhere"},
            {"machine", uvm_model::to_text(s.machine)},
            {"rows", rows}};
}

}  // namespace orchard::uvm_study
