// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The batches; see graph_run.hpp.
///
///     run_graph
///       plan           the batches, as edges to add or to remove
///       apply          one batch: on the device, in the host's set, and the number of edges that changed compared
///       compare        the analyses, on the graph, on compressed sparse rows, and on the host

#include "examples/dynamic_graph/graph_run.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "examples/dynamic_graph/analysis_runner.cuh"
#include "examples/dynamic_graph/graph_inputs.hpp"
#include "examples/graph/host_graph.hpp"
#include "runtime/nvtx/phase.hpp"

namespace orchard::examples {
namespace {

/// Edges to add or to remove.
struct planned_batch {
    bool adds = true;
    std::vector<edge> edges;
};

/// Returns the parts of `edges`, of a batch's size at most.
std::vector<std::vector<edge>> parts_of(const std::vector<edge>& edges, std::uint64_t batch) {
    std::vector<std::vector<edge>> parts;
    for (std::uint64_t first = 0; first < edges.size(); first += batch) {
        const auto begin = edges.begin() + static_cast<std::ptrdiff_t>(first);
        parts.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(std::min(batch, edges.size() - first)));
    }
    return parts;
}

/// What a second version of a graph has more than the first, and what it lacks.
struct version_difference {
    std::vector<edge> added;
    std::vector<edge> removed;
};

version_difference difference_of(std::vector<edge> first, const std::vector<edge>& second) {
    std::ranges::sort(first);
    version_difference d;
    std::ranges::set_difference(second, first, std::back_inserter(d.added));
    std::ranges::set_difference(first, second, std::back_inserter(d.removed));
    return d;
}

/// Errors: InvalidArgument if the second version needs more batches than there may be.
absl::StatusOr<std::vector<planned_batch>> plan(std::uint32_t vertices, const std::vector<edge>& edges,
                                                const version_difference& change, const graph_options& o) {
    const std::vector<std::vector<edge>> parts = parts_of(edges, o.batch);
    std::vector<planned_batch> all;
    std::uint64_t planned = 0;
    const auto add = [&](bool adds, const std::vector<edge>& part) {
        if (++planned <= o.most_batches) {
            all.push_back({adds, part});
        }
    };
    for (std::size_t i = 0; i < parts.size(); ++i) {
        add(true, parts[i]);
        if (o.mode == update_mode::window && i >= o.window) {
            add(false, parts[i - o.window]);
        }
    }
    switch (o.mode) {
        case update_mode::window: break;
        case update_mode::build:
            for (const auto& part : parts) {
                add(false, part);
            }
            break;
        case update_mode::reinsert:
            for (const auto& part : parts) {
                add(false, part);
                add(true, part);
            }
            break;
        case update_mode::pressure:
            for (std::uint64_t i = 0; i < 4; ++i) {
                const std::vector<edge> part =
                    pressure_edges(vertices, std::min<std::uint32_t>(1000, vertices), o.batch, o.seed + i);
                add(true, part);
                add(false, part);
            }
            break;
        case update_mode::then:
            for (const auto& part : parts_of(change.added, o.batch)) {
                add(true, part);
            }
            for (const auto& part : parts_of(change.removed, o.batch)) {
                add(false, part);
            }
            if (planned > o.most_batches) {
                return absl::InvalidArgumentError(
                    absl::StrFormat("the second version needs %d batches, and --batches is %d; raise it, or --batch",
                                    planned, o.most_batches));
            }
            break;
    }
    return all;
}

class graph_run {
public:
    graph_run(heap& h, orchard::graph<> g, std::uint32_t vertices, const graph_options& options)
        : heap_{h}, graph_{std::move(g)}, vertices_{vertices}, options_{options} {
        for (const analysis what : options.chosen) {
            result_.analyses.emplace_back().what = what;
        }
    }

    absl::StatusOr<graph_result> run(const std::vector<planned_batch>& batches, const version_difference& change,
                                     command_line::progress& bar) {
        absl::Status s = graph_.reserve_vertices(vertices_);
        s.Update(s.ok() ? prepare() : s);
        std::uint64_t total = 0;
        for (const planned_batch& b : batches) {
            total += b.edges.size();
        }
        bar.begin("changing the graph", total);
        const bool every = vertices_ <= options_.every_batch_below;
        for (std::size_t i = 0; i < batches.size() && s.ok(); ++i) {
            s.Update(apply(batches[i]));
            if (s.ok() && (every || i == 0 || i == batches.size() / 2 || i + 1 == batches.size())) {
                s.Update(compare());
            }
            bar.add(batches[i].edges.size());
        }
        bar.clear();
        if (s.ok() && options_.mode == update_mode::then) {
            s.Update(compare_second(change));
        }
        if (!s.ok()) {
            return s;
        }
        return std::move(result_);
    }

private:
    absl::Status prepare() {
        auto sources = device_array<std::uint32_t>::create(heap_.executor(), options_.batch);
        auto targets = device_array<std::uint32_t>::create(heap_.executor(), options_.batch);
        auto runner = analysis_runner::create(heap_.executor(), vertices_);
        for (const absl::Status& s : {sources.status(), targets.status(), runner.status()}) {
            if (!s.ok()) {
                return s;
            }
        }
        sources_ = *std::move(sources);
        targets_ = *std::move(targets);
        runner_.emplace(*std::move(runner));
        return absl::OkStatus();
    }

    /// Changes the graph and the host's set by a batch.
    absl::Status apply(const planned_batch& b) {
        std::vector<std::uint32_t> low;
        std::vector<std::uint32_t> high;
        for (const edge& e : b.edges) {
            low.push_back(e.low());
            high.push_back(e.high());
        }
        absl::Status s = sources_.upload(low);
        s.Update(targets_.upload(high));
        if (!s.ok()) {
            return s;
        }
        const edge_batch<> batch{sources_.data(), targets_.data(), b.edges.size(), nullptr, true};
        const nvtx::phase marked(b.adds ? nvtx::phase::allocate : nvtx::phase::free, b.edges.size());
        const auto began = std::chrono::steady_clock::now();
        const auto done = b.adds ? graph_.insert(batch) : graph_.erase(batch);
        const auto took = std::chrono::steady_clock::now() - began;
        if (!done.ok()) {
            return done.status();
        }
        result_.left += done->left;
        const std::size_t before = edges_.size();
        std::vector<edge> sorted = b.edges;
        std::ranges::sort(sorted);
        const auto twice = std::ranges::unique(sorted);
        sorted.erase(twice.begin(), twice.end());
        std::vector<edge> now;
        if (b.adds) {
            std::ranges::set_union(edges_, sorted, std::back_inserter(now));
        } else {
            std::ranges::set_difference(edges_, sorted, std::back_inserter(now));
        }
        edges_ = std::move(now);
        const std::size_t changed = b.adds ? edges_.size() - before : before - edges_.size();
        result_.wrong_counts += done->taken == 2 * changed ? 0 : 1;
        const auto stats = graph_.stats();
        if (!stats.ok()) {
            return stats.status();
        }
        result_.wrong_counts += stats->edges == 2 * edges_.size() ? 0 : 1;
        result_.batches.push_back({b.adds, 2 * b.edges.size(), done->taken,
                                   std::chrono::duration<double, std::milli>(took).count(), stats->edges,
                                   stats->row_bytes + stats->table_bytes});
        if (stats->edges > most_edges_) {
            most_edges_ = stats->edges;
            result_.bytes_per_edge = stats->bytes_per_edge();
            result_.csr_bytes_per_edge =
                4 + 8 * (static_cast<double>(vertices_) + 1) / static_cast<double>(stats->edges);
            note_degrees();
        }
        return s;
    }

    /// Sorts the host's vertices by their degrees, for the picture.
    void note_degrees() {
        std::vector<std::uint32_t> degree(vertices_);
        for (const edge& e : edges_) {
            ++degree[e.low()];
            ++degree[e.high()];
        }
        result_.degrees.assign(34, 0);
        for (const std::uint32_t d : degree) {
            ++result_.degrees[static_cast<std::size_t>(std::bit_width(d))];
        }
    }

    /// Returns the rows that the graph must have if these, which ascend, are its edges.
    [[nodiscard]] absl::StatusOr<host_graph> rows_of(const std::vector<edge>& edges) const {
        edge_list list;
        list.vertices = vertices_;
        list.edges = edges;
        return make_host_graph(list);
    }
    /// Returns whether rows on the device are those of a graph on the host.
    static absl::StatusOr<bool> are_equal(const csr_graph<>& csr, const host_graph& host) {
        std::vector<std::uint64_t> offsets(csr.offsets.size());
        std::vector<std::uint32_t> targets(csr.targets.size());
        absl::Status s = csr.offsets.download(offsets);
        s.Update(csr.targets.download(targets));
        return s.ok() ? absl::StatusOr<bool>(offsets == host.offsets && targets == host.neighbours) : s;
    }

    /// Compares the graph with the second version, which the host's set has no part in.
    absl::Status compare_second(const version_difference& change) {
        const auto csr = graph_.to_csr();
        const auto host = rows_of(options_.second);
        if (!csr.ok() || !host.ok()) {
            return csr.ok() ? host.status() : csr.status();
        }
        const auto equal = are_equal(*csr, *host);
        if (equal.ok()) {
            result_.second = second_version_row{change.added.size(), change.removed.size(), *equal};
        }
        return equal.status();
    }

    /// Compares the graph's edges with the host's, and then the analyses.
    absl::Status compare() {
        auto csr = graph_.to_csr();
        if (!csr.ok()) {
            return csr.status();
        }
        const auto host = rows_of(edges_);
        if (!host.ok()) {
            return host.status();
        }
        const auto equal = are_equal(*csr, *host);
        if (!equal.ok()) {
            return equal.status();
        }
        if (!*equal) {
            ++result_.wrong_edges;
            return absl::OkStatus();  // the analyses would compare different graphs
        }
        // From a vertex with many neighbours, so that much is reached.
        std::uint32_t source = 0;
        for (std::uint32_t u = 0; u < vertices_; ++u) {
            source = host->degree(u) > host->degree(source) ? u : source;
        }
        for (graph_analysis_row& row : result_.analyses) {
            const auto on_graph = runner_->run(row.what, graph_rows{graph_.ref()}, source);
            const auto on_csr = runner_->run(row.what, csr_rows{csr->offsets.data(), csr->targets.data()}, source);
            if (!on_graph.ok() || !on_csr.ok()) {
                return on_graph.ok() ? on_csr.status() : on_graph.status();
            }
            ++row.times;
            row.graph_us = on_graph->kernel_us;
            row.csr_us = on_csr->kernel_us;
            const analysis_result right = analyse_on_host(row.what, *host, source);
            for (const auto* const found : {&*on_graph, &*on_csr}) {
                const std::string wrong = difference(row.what, *found, right);
                row.wrong += wrong.empty() ? 0 : 1;
                row.first_wrong = row.first_wrong.empty() ? wrong : row.first_wrong;
            }
        }
        return absl::OkStatus();
    }

    heap& heap_;
    orchard::graph<> graph_;
    std::uint32_t vertices_;
    graph_options options_;
    graph_result result_;
    std::vector<edge> edges_;  ///< those that the graph must have, ascending
    std::uint64_t most_edges_ = 0;
    device_array<std::uint32_t> sources_;
    device_array<std::uint32_t> targets_;
    std::optional<analysis_runner> runner_;
};

}  // namespace

absl::StatusOr<graph_result> run_graph(heap& h, std::uint32_t vertices, const std::vector<edge>& edges,
                                       const graph_options& options, command_line::progress& bar) {
    if (vertices == 0 || edges.empty()) {
        return absl::InvalidArgumentError("the graph has no edges; give one that has");
    }
    const version_difference change =
        options.mode == update_mode::then ? difference_of(edges, options.second) : version_difference{};
    const auto batches = plan(vertices, edges, change, options);
    if (!batches.ok()) {
        return batches.status();
    }
    // The graph ends with the run, and has then given back what it had.
    auto result = [&]() -> absl::StatusOr<graph_result> {
        auto g = orchard::graph<>::create(h);
        return g.ok() ? graph_run(h, *std::move(g), vertices, options).run(*batches, change, bar)
                      : absl::StatusOr<graph_result>(g.status());
    }();
    if (!result.ok()) {
        return result;
    }
    absl::Status s = h.trim();
    s.Update(s.ok() ? h.validate() : s);
    const auto stats = h.stats();
    if (!stats.ok()) {
        return stats.status();
    }
    result->at_end = *stats;
    result->is_valid = s.ok() && stats->pages_in_use == 0;
    result->fault = s.ok() ? absl::StrCat(stats->pages_in_use, " pages are in use after the graph's end")
                           : std::string(s.message());
    return result;
}

}  // namespace orchard::examples
