// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// What rows are about, and the rows that the model of the UVM driver predicts.

#include <algorithm>
#include <string>

#include "profiling/apps/model.hpp"
#include "profiling/oversubscribe/measure.hpp"
#include "profiling/uvm/study.hpp"
#include "uvm/geometry/layout_text.hpp"
#include "uvm/model/graph.hpp"

namespace orchard::oversubscribe {
namespace {

/// Returns the study of a pattern, and sets `*factor` to what its figures stand for.
uvm_study::study study_of_pattern(const plan& p, const row_subject& of, double* factor) {
    constexpr std::uint64_t scale = 16;
    const row_shape shape = shape_of(p, of);
    uvm_study::study s;
    s.patterns = {std::string(pattern_names[static_cast<std::size_t>(of.which)])};
    s.layouts = {uvm_study::arrangement{of.how}};
    s.bytes_per_thread = shape.elements * sizeof(word);
    s.accesses = shape.steps;
    s.stride = stride_bytes;
    // Data in budgets of what is accessed: of the working set, a quarter, segment by segment.
    const double data = of.which == pattern::working_set ? of.data / 4 : of.data;
    const std::uint64_t arrays = of.which == pattern::working_set ? shape.arrays / 4 : shape.arrays;
    s.threads = std::max<std::uint64_t>(max_lanes, arrays / scale);
    if (of.which == pattern::graph_walk) {  // an edge for each element: fewer threads where the graph cannot be made
        s.threads = std::clamp<std::uint64_t>(uvm_model::max_generated_edges / shape.elements, max_lanes, s.threads);
    }
    s.capacities = {data <= 1 ? uvm_study::capacity{} : uvm_study::capacity{1 / data, {}}};
    // A model that looks at each element of a scan would take minutes: one access of each 4 KiB meets the same pages.
    if (of.which == pattern::sequential || of.which == pattern::working_set) {
        s.patterns = {"strided"};
        s.stride = os_page_bytes;
        s.accesses = of.which == pattern::working_set
                         ? segment_bytes / os_page_bytes
                         : std::max<std::uint64_t>(1, s.accesses * sizeof(word) / os_page_bytes);
    }
    *factor = static_cast<double>(arrays) / static_cast<double>(s.threads);
    return s;
}

/// Returns the row of what the model predicts.
/// @param factor  what the figures stand for
row row_of_model(const plan& p, const row_subject& of, const uvm_model::result& counts, double factor) {
    const auto bytes = [&](std::uint64_t pages) {
        return static_cast<std::uint64_t>(static_cast<double>(pages * os_page_bytes) * factor);
    };
    row r = axes_of(of);
    r["by"] = "model";
    r["bytes"] = of.bytes;
    r["device_budget"] = p.heap.capacity;
    r["passes"] = 1;
    r["model_scale"] = factor;
    r["kernel_first_ms"] = counts.seconds * 1e3 * factor;
    r["moved_to_device_bytes"] = bytes(counts.demand_pages + counts.prefetched_pages);
    r["moved_to_host_bytes"] = bytes(counts.written_back_pages);
    return r;
}

}  // namespace

row axes_of(const row_subject& of) {
    return {{"pattern",
             of.application != nullptr ? of.application->name : pattern_names[static_cast<std::size_t>(of.which)]},
            {"layout", text_of(of.how)},
            {"data", of.data},
            {"way", way_names[static_cast<std::size_t>(of.by)]}};
}

row_shape shape_of(const plan& p, const row_subject& of) {
    if (of.which == pattern::working_set) {
        return {of.bytes / segment_bytes, segment_bytes / sizeof(word), 0};
    }
    const std::uint64_t elements = std::max<std::uint64_t>(1, of.bytes / p.threads / sizeof(word));
    const std::uint64_t part = std::max<std::uint64_t>(1, p.part / p.threads / sizeof(word));
    return {p.threads, elements, of.which == pattern::sequential ? std::min(elements, part) : p.accesses};
}

absl::StatusOr<row> model_row(const plan& p, const row_subject& of) {
    double factor = 0;
    uvm_study::study s = study_of_pattern(p, of, &factor);
    const auto machine = uvm_model::parse_calibration("h200");
    if (!machine.ok()) {
        return machine.status();
    }
    s.machine = *machine;
    const auto cells = uvm_study::run(s);
    if (!cells.ok()) {
        return cells.status();
    }
    return row_of_model(p, of, cells->front().counts, factor);
}

absl::StatusOr<row> model_row_of_application(heap& in, const plan& p, const row_subject& of) {
    const auto made = apps::run_and_predict(in, *of.application, job_of(p, of), p.heap.capacity);
    if (!made.ok()) {
        return made.status();
    }
    const uvm_model::result nothing;
    row r = row_of_model(p, of, made->counts ? *made->counts : nothing, 1);
    if (!made->counts) {
        r["kernel_first_ms"] = nullptr;
        r.erase("moved_to_device_bytes");
        r.erase("moved_to_host_bytes");
    }
    r["part"] = made->found.part;
    r["checked"] = made->found.checked;
    r["wrong"] = made->found.wrong;
    if (!made->found.error.ok()) {
        r["error"] = std::string(made->found.error.message());
    }
    return r;
}

}  // namespace orchard::oversubscribe
