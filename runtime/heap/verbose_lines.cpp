// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "runtime/heap/verbose_lines.hpp"

#include "absl/strings/str_format.h"
#include "runtime/heap/failure.hpp"
#include "runtime/options/byte_size.hpp"
#include "uvm/geometry/geometry.hpp"

namespace orchard {
namespace {

memory_levels levels_of(const live_state& s) {
    return {s.counts.segments_granted << segment_shift,
            s.counts.committed_bytes,
            s.largest_free_bytes,
            s.device_budget_bytes,
            s.host_budget_bytes,
            false};
}

/// Adds a line for each reason for which requests have failed since: the newest of them.
void add_shortages(const live_state& before, const live_state& now, std::vector<std::string>& lines) {
    std::uint64_t all = 0;
    for (const auto& f : now.failures) {
        all += f ? f->number : 0;
    }
    for (std::uint32_t reason = 0; reason < failure_reasons; ++reason) {
        const auto& f = now.failures[reason];
        if (f && f->number != (before.failures[reason] ? before.failures[reason]->number : 0)) {
            const std::uint32_t page_class = f->page_class < class_count ? f->page_class : chunk_class;
            lines.push_back("shortage: " + to_text(failure{f->reason, f->bytes, page_class, f->at.block, f->at.thread,
                                                           f->time_ns, all, f->number, levels_of(now)}));
        }
    }
}

}  // namespace

/// Memory that was committed is what is there now and what was given up meanwhile, less what was there before.
std::vector<std::string> verbose_lines(const live_state& before, const live_state& now,
                                       const std::string& commit_error) {
    std::vector<std::string> lines;
    const statistics& a = before.counts;
    const statistics& b = now.counts;
    const std::uint64_t released = b.released_bytes - a.released_bytes;
    const std::uint64_t committed = b.committed_bytes + released - a.committed_bytes;
    const std::string levels =
        absl::StrFormat("%s committed now, of %s", format_bytes(b.committed_bytes), format_bytes(b.capacity_bytes));
    if (committed != 0) {
        lines.push_back(absl::StrFormat("growth: %s more, %s", format_bytes(committed), levels));
    }
    if (released != 0) {
        lines.push_back(absl::StrFormat("growth: %s given back, %s", format_bytes(released), levels));
    }
    if (now.failed_commits != before.failed_commits) {
        lines.push_back(absl::StrFormat("growth: %d commits failed, the last one: %s",
                                        now.failed_commits - before.failed_commits, commit_error));
    }
    const std::uint64_t to_device = b.moved_to_device_bytes - a.moved_to_device_bytes;
    const std::uint64_t to_host = b.moved_to_host_bytes - a.moved_to_host_bytes;
    if (to_device != 0 || to_host != 0) {
        lines.push_back(
            absl::StrFormat("moves: %s to the device, %s to the host", format_bytes(to_device), format_bytes(to_host)));
    }
    add_shortages(before, now, lines);
    return lines;
}

}  // namespace orchard
