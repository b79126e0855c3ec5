// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The batches; see graph_run.hpp.
///
///     run_graph_in     on the graph that the allocator makes
///       plan           the batches, as edges to add or to remove: graph_plan.cpp
///       apply          one batch: on the device, in the host's set, and the number of edges that changed compared
///       compare        the analyses, on the graph, on compressed sparse rows, and on the host or by invariants
///       open_snapshot, close_snapshot    a snapshot from the middle of insertion on, compared at the end

#include "examples/dynamic_graph/graph_run.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <span>

#include "absl/strings/str_cat.h"
#include "examples/dynamic_graph/analysis_runner.cuh"
#include "examples/dynamic_graph/graph_over.cuh"
#include "examples/dynamic_graph/graph_plan.hpp"
#include "examples/dynamic_graph/snapshot_kernels.cuh"
#include "examples/graph/host_graph.hpp"
#include "examples/graph/parallel.hpp"
#include "runtime/nvtx/phase.hpp"

namespace orchard::examples {
namespace {

/// An edge of the host's set; the weight is 0 if edges have none.
struct weighted_edge {
    edge ends;
    double weight = 0;
};

/// `Property`: none, or `double`, a weight.
template <class Property>
class graph_run {
    static constexpr bool has_weights = device::graph_layout<Property>::has_property;

public:
    graph_run(const simt::executor& on, any_graph<Property>& g, std::uint32_t vertices, const graph_options& options)
        : on_{on}, graph_{g}, vertices_{vertices}, options_{options} {
        for (const analysis what : options.chosen) {
            result_.analyses.emplace_back().what = what;
        }
    }

    absl::StatusOr<graph_result> run(const std::vector<planned_batch>& batches, const version_difference& change,
                                     command_line::progress& bar) {
        absl::Status s = graph_.reserve_vertices(vertices_);
        s.Update(s.ok() ? prepare() : s);
        std::uint64_t total = 0;
        std::vector<std::size_t> insertions;
        for (std::size_t i = 0; i < batches.size(); ++i) {
            total += batches[i].edges.size();
            if (batches[i].adds) {
                insertions.push_back(i);
            }
        }
        bar.begin("changing the graph", total);
        const bool every = vertices_ <= options_.every_batch_below;
        for (std::size_t i = 0; i < batches.size() && s.ok(); ++i) {
            s.Update(apply(batches[i]));
            if (s.ok() &&
                (every || i == 0 || i == batches.size() / 2 || i == insertions.back() || i + 1 == batches.size())) {
                s.Update(compare());
                s.Update(s.ok() ? ask(batches[i]) : s);
            }
            const bool opens = options_.snapshot && i == insertions[(insertions.size() - 1) / 2];  // the middle one
            s.Update(s.ok() && opens ? open_snapshot(i + 1) : s);
            bar.add(batches[i].edges.size());
        }
        bar.clear();
        s.Update(s.ok() && options_.mode == update_mode::then ? compare_second(change) : s);
        s.Update(s.ok() && options_.snapshot ? close_snapshot() : s);
        if (!s.ok()) {
            return s;
        }
        return std::move(result_);
    }

private:
    absl::Status prepare() {
        auto sources = device_array<std::uint32_t>::create(on_, options_.batch);
        auto targets = device_array<std::uint32_t>::create(on_, options_.batch);
        auto properties = device_array<Property>::create(on_, has_weights ? options_.batch : 0);
        auto runner = analysis_runner::create(on_, vertices_);
        for (const absl::Status& s : {sources.status(), targets.status(), properties.status(), runner.status()}) {
            if (!s.ok()) {
                return s;
            }
        }
        sources_ = *std::move(sources);
        targets_ = *std::move(targets);
        properties_ = *std::move(properties);
        runner_.emplace(*std::move(runner));
        return absl::OkStatus();
    }

    /// Copies a batch to the device.
    absl::Status upload(bool adds, const std::vector<weighted_edge>& edges) {
        std::vector<std::uint32_t> low(edges.size());
        std::vector<std::uint32_t> high(edges.size());
        parallel_for(edges.size(), [&](std::size_t i) {
            low[i] = edges[i].ends.low();
            high[i] = edges[i].ends.high();
        });
        absl::Status s = sources_.upload(low);
        s.Update(targets_.upload(high));
        if constexpr (has_weights) {
            std::vector<double> weights(edges.size());
            parallel_for(edges.size(), [&](std::size_t i) { weights[i] = edges[i].weight; });
            s.Update(adds ? properties_.upload(weights) : s);
        }
        return s;
    }
    /// Returns the sum of the marks of edges, of both directions.
    static std::uint64_t marks_of(const std::vector<weighted_edge>& edges) {
        constexpr std::size_t piece = 1 << 16;
        std::atomic<std::uint64_t> sum{0};
        parallel_for(
            (edges.size() + piece - 1) / piece,
            [&](std::size_t n) {
                std::uint64_t of_piece = 0;
                for (std::size_t i = n * piece; i < std::min(edges.size(), (n + 1) * piece); ++i) {
                    const weighted_edge& e = edges[i];
                    of_piece +=
                        mark_of(e.ends.low(), e.ends.high(), e.weight) + mark_of(e.ends.high(), e.ends.low(), e.weight);
                }
                sum.fetch_add(of_piece, std::memory_order_relaxed);  // the threads are joined before it is read
            },
            1);
        return sum.load(std::memory_order_relaxed);
    }
    /// Changes the host's set as a batch must change the graph: an edge that is there keeps its weight; of edges that
    /// are twice in the batch, the first counts.
    void change_set(bool adds, std::vector<weighted_edge> batch) {
        if (options_.check == graph_check::invariants) {
            const std::uint64_t marks = marks_of(batch);
            marks_ = adds ? marks_ + marks : marks_ - marks;
            count_ = adds ? count_ + batch.size() : count_ - batch.size();
            return;
        }
        constexpr auto ends = &weighted_edge::ends;
        std::ranges::stable_sort(batch, {}, ends);
        const auto twice = std::ranges::unique(batch, {}, ends);
        batch.erase(twice.begin(), twice.end());
        std::vector<weighted_edge> now;
        if (adds) {
            std::ranges::set_union(edges_, batch, std::back_inserter(now), {}, ends, ends);
        } else {
            std::ranges::set_difference(edges_, batch, std::back_inserter(now), {}, ends, ends);
        }
        edges_ = std::move(now);
        count_ = edges_.size();
    }
    /// Returns edges with their weights, of the first or of the second version.
    [[nodiscard]] std::vector<weighted_edge> with_weights(std::span<const edge> edges, bool second) const {
        std::vector<weighted_edge> all(edges.size());
        parallel_for(edges.size(), [&](std::size_t i) {
            const edge e = edges[i];
            all[i] = {e, !has_weights ? 0 : second ? options_.second.of(e) : options_.weights->of(e)};
        });
        return all;
    }

    /// Changes the graph and the host's set by a batch.
    absl::Status apply(const planned_batch& b) {
        std::vector<weighted_edge> edges = with_weights(b.edges, b.second);
        absl::Status ready = upload(b.adds, edges);
        ready.Update(graph_.forget_refusals());
        if (!ready.ok()) {
            return ready;
        }
        const nvtx::phase marked(b.adds ? nvtx::phase::allocate : nvtx::phase::free, b.edges.size());
        absl::StatusOr<batch_result> done;
        const double ms = milliseconds_of([&] {
            (void)(done = graph_.change(options_.by, b.adds,
                                        {sources_.data(), targets_.data(), b.edges.size(), properties_.data(), true}));
        });
        if (!done.ok()) {
            return done.status();
        }
        if (absl::Status s = done->left == 0 ? absl::OkStatus() : graph_.shortage(); !s.ok()) {
            return s;
        }
        result_.left += done->left;
        const std::uint64_t before = count_;
        change_set(b.adds, std::move(edges));
        const std::uint64_t changed = b.adds ? count_ - before : before - count_;
        const bool adds_up = done->taken + done->duplicates + done->left == 2 * b.edges.size();
        result_.wrong_counts += done->taken == 2 * changed && adds_up ? 0 : 1;
        const auto stats = graph_.stats();
        if (!stats.ok()) {
            return stats.status();
        }
        result_.wrong_counts += stats->edges == 2 * count_ ? 0 : 1;
        result_.batches.push_back({b.adds, 2 * b.edges.size(), done->taken, done->duplicates, done->left, ms,
                                   stats->edges, stats->row_bytes + stats->table_bytes});
        if (stats->edges > most_edges_) {
            most_edges_ = stats->edges;
            result_.bytes_per_edge = stats->bytes_per_edge();
            result_.csr_bytes_per_edge =
                4 + 8 * (static_cast<double>(vertices_) + 1) / static_cast<double>(stats->edges);
            if (options_.check == graph_check::host) {
                note_degrees();
            }
        }
        return absl::OkStatus();
    }

    /// Asks for the edges of the batch that came last. Where the host has a set: also for pairs of an end of each edge
    /// and one of the next, most of which are no edges.
    absl::Status ask(const planned_batch& b) {
        const bool on_host = options_.check == graph_check::host;
        const std::uint64_t edges = b.edges.size();
        std::vector<std::uint8_t> answers(on_host ? 2 * edges - 1 : edges);
        auto found = device_array<std::uint8_t>::create(on_, answers.size());
        if (!found.ok()) {
            return found.status();
        }
        absl::Status s;
        const double ms = milliseconds_of([&] {
            s.Update(graph_.contains(sources_.data(), targets_.data(), edges, found->data()));
            if (s.ok() && answers.size() > edges) {
                s.Update(graph_.contains(sources_.data(), targets_.data() + 1, edges - 1, found->data() + edges));
            }
        });
        s.Update(s.ok() ? found->download(answers) : s);
        if (!s.ok()) {
            return s;
        }
        std::atomic<std::uint64_t> wrong{0};
        parallel_for(answers.size(), [&](std::size_t i) {
            const edge e =
                i < edges ? b.edges[i] : edge::between(b.edges[i - edges].low(), b.edges[i - edges + 1].high());
            const bool right = on_host ? std::ranges::binary_search(edges_, e, {}, &weighted_edge::ends) : b.adds;
            if ((answers[i] != 0) != right) {
                ++wrong;
            }
        });
        graph_questions& q = result_.questions;
        q.asked += answers.size();
        q.there += static_cast<std::uint64_t>(std::ranges::count(answers, std::uint8_t{1}));
        q.wrong += wrong;
        q.rate = std::max(q.rate, static_cast<double>(answers.size()) / std::max(1000 * ms, 1e-3));
        return absl::OkStatus();
    }

    /// Sorts the vertices by their degrees, for the picture.
    void note_degrees(const std::vector<std::uint64_t>& offsets) {
        result_.degrees.assign(34, 0);
        for (std::uint32_t u = 0; u < vertices_; ++u) {
            ++result_.degrees[static_cast<std::size_t>(std::bit_width(offsets[u + std::size_t{1}] - offsets[u]))];
        }
    }
    /// The same of the host's set.
    void note_degrees() {
        std::vector<std::uint64_t> offsets(std::size_t{vertices_} + 1);
        for (const weighted_edge& e : edges_) {
            ++offsets[e.ends.low() + std::size_t{1}];
            ++offsets[e.ends.high() + std::size_t{1}];
        }
        std::inclusive_scan(offsets.begin(), offsets.end(), offsets.begin());
        note_degrees(offsets);
    }

    /// The rows that the graph must have, and the weights of their edges.
    struct right_rows {
        host_graph graph;
        std::vector<double> weights;
    };
    /// Returns the rows of these edges, which ascend.
    [[nodiscard]] absl::StatusOr<right_rows> rows_of(const std::vector<weighted_edge>& edges) const {
        edge_list list;
        list.vertices = vertices_;
        for (const weighted_edge& e : edges) {
            list.edges.push_back(e.ends);
        }
        auto made = make_host_graph(list);
        if (!made.ok()) {
            return made.status();
        }
        right_rows rows{*std::move(made), {}};
        if (has_weights) {
            rows.weights.resize(rows.graph.neighbours.size());
            std::vector<std::uint64_t> place(rows.graph.offsets.begin(), rows.graph.offsets.end() - 1);
            for (const weighted_edge& e : edges) {  // in the order of `make_host_graph`
                rows.weights[place[e.ends.low()]++] = e.weight;
                rows.weights[place[e.ends.high()]++] = e.weight;
            }
        }
        return rows;
    }
    /// Returns whether rows on the device are those of a graph on the host, with the same weights.
    static absl::StatusOr<bool> are_equal(const csr_graph<Property>& csr, const right_rows& right) {
        std::vector<std::uint64_t> offsets(csr.offsets.size());
        std::vector<std::uint32_t> targets(csr.targets.size());
        absl::Status s = csr.offsets.download(offsets);
        s.Update(csr.targets.download(targets));
        bool equal = offsets == right.graph.offsets && targets == right.graph.neighbours;
        if constexpr (has_weights) {
            std::vector<double> weights(csr.properties.size());
            s.Update(csr.properties.download(weights));
            equal = equal && weights == right.weights;
        }
        return s.ok() ? absl::StatusOr<bool>(equal) : s;
    }

    /// Compares the graph with the second version, which the host's set has no part in.
    absl::Status compare_second(const version_difference& change) {
        const auto csr = graph_.to_csr();
        const auto right = rows_of(with_weights(options_.second.input.edges, true));
        if (!csr.ok() || !right.ok()) {
            return csr.ok() ? right.status() : csr.status();
        }
        const auto equal = are_equal(*csr, *right);
        if (equal.ok()) {
            result_.second = second_version_row{change.added.size(), change.removed.size(), *equal};
        }
        return equal.status();
    }

    /// Opens a snapshot after batch `number`, and keeps what it must have.
    absl::Status open_snapshot(std::uint64_t number) {
        const auto stats = graph_.stats();
        if (!stats.ok()) {
            return stats.status();
        }
        absl::StatusOr<std::unique_ptr<any_snapshot<Property>>> open;
        const double ms = milliseconds_of([&] { (void)(open = graph_.snapshot()); });
        if (open.ok()) {
            snapshot_ = {*std::move(open), edges_, count_, marks_};
            // Its table has the segments of the graph's.
            result_.snapshot = snapshot_row{number, stats->edges, ms, stats->table_bytes};
        }
        return open.status();
    }
    /// Compares the snapshot with the edges of its moment, counts the memory that it keeps, and closes it.
    absl::Status close_snapshot() {
        auto bytes = device_array<word64>::create(on_, 1);
        const auto equal = is_snapshot_equal();
        if (!bytes.ok() || !equal.ok()) {
            return bytes.ok() ? equal.status() : bytes.status();
        }
        const bool cuda = on_.kind == simt::device_kind::cuda;
        const count_kept<Property> kernel{row_blocks<Property>(snapshot_.open->view()),
                                          row_blocks<Property>(graph_.view()), vertices_, bytes->data()};
        absl::Status s = to_status(simt::launch(on_, cuda ? simt::grid{1056, 256} : simt::grid{8, 64}, kernel));
        snapshot_row& row = *result_.snapshot;
        s.Update(s.ok() ? copy_to_host(on_, &row.row_bytes, bytes->data(), sizeof(row.row_bytes)) : s);
        row.close_milliseconds = milliseconds_of([&] { snapshot_.open.reset(); });
        row.equal = *equal;
        return s;
    }
    /// Returns whether the snapshot has the edges of its moment: those of the host's set, or by invariants.
    absl::StatusOr<bool> is_snapshot_equal() {
        if (options_.check == graph_check::invariants) {
            const auto sums = runner_->check(graph_rows<Property>{snapshot_.open->view()}, has_weights);
            return sums.ok() ? absl::StatusOr<bool>(sums->wrong == 0 && sums->edges == 2 * snapshot_.count &&
                                                    sums->marks == snapshot_.marks)
                             : sums.status();
        }
        const auto csr = snapshot_.open->to_csr();
        const auto right = rows_of(snapshot_.edges);
        if (!csr.ok() || !right.ok()) {
            return csr.ok() ? right.status() : csr.status();
        }
        return are_equal(*csr, *right);
    }

    /// Compares the graph's edges with what they must be, and then the analyses.
    absl::Status compare() {
        const auto csr = graph_.to_csr();
        if (!csr.ok()) {
            return csr.status();
        }
        csr_rows rows{csr->offsets.data(), csr->targets.data()};
        if constexpr (has_weights) {
            rows.weights = csr->properties.data();
        }
        return options_.check == graph_check::host ? compare_with_host(*csr, rows) : check_invariants(*csr, rows);
    }
    absl::Status compare_with_host(const csr_graph<Property>& csr, const csr_rows& rows) {
        const auto right = rows_of(edges_);
        if (!right.ok()) {
            return right.status();
        }
        const auto equal = are_equal(csr, *right);
        if (!equal.ok() || !*equal) {
            result_.wrong_edges += equal.ok() ? 1 : 0;
            return equal.status();  // the analyses would compare different graphs
        }
        const analysis_settings settings = settings_of(right->graph.offsets);
        for (graph_analysis_row& row : result_.analyses) {
            const auto on_graph = runner_->run(row.what, graph_rows<Property>{graph_.view()}, settings);
            const auto on_csr = runner_->run(row.what, rows, settings);
            if (!on_graph.ok() || !on_csr.ok()) {
                return on_graph.ok() ? on_csr.status() : on_graph.status();
            }
            const analysis_result on_host = analyse_on_host(row.what, right->graph, settings, right->weights);
            note(row, settings, *on_graph, *on_csr, difference(row.what, *on_graph, on_host),
                 difference(row.what, *on_csr, on_host));
        }
        return absl::OkStatus();
    }
    absl::Status check_invariants(const csr_graph<Property>& csr, const csr_rows& rows) {
        const graph_rows<Property> of_graph{graph_.view()};
        const auto in_graph = runner_->check(of_graph, has_weights);
        const auto in_csr = runner_->check(rows, has_weights);
        std::vector<std::uint64_t> offsets(csr.offsets.size());
        absl::Status s = csr.offsets.download(offsets);
        s.Update(in_graph.status());
        s.Update(in_csr.status());
        if (!s.ok()) {
            return s;
        }
        for (const auto* const sums : {&*in_graph, &*in_csr}) {
            if (sums->wrong != 0 || sums->edges != 2 * count_ || sums->marks != marks_) {
                ++result_.wrong_edges;
                return absl::OkStatus();
            }
        }
        if (2 * count_ == most_edges_) {
            note_degrees(offsets);
        }
        const analysis_settings settings = settings_of(offsets);
        for (graph_analysis_row& row : result_.analyses) {
            const auto on_graph = runner_->run(row.what, of_graph, settings);
            if (!on_graph.ok()) {
                return on_graph.status();
            }
            const auto wrong = fault_of(row.what, *on_graph, of_graph, settings, offsets);
            const auto on_csr = runner_->run(row.what, rows, settings);
            if (!wrong.ok() || !on_csr.ok()) {
                return wrong.ok() ? on_csr.status() : wrong.status();
            }
            note(row, settings, *on_graph, *on_csr, *wrong, difference(row.what, *on_csr, *on_graph));
        }
        return absl::OkStatus();
    }
    /// Returns what is wrong, by invariants, with the result of the last analysis; empty if nothing is.
    absl::StatusOr<std::string> fault_of(analysis what, const analysis_result& found, const graph_rows<Property>& rows,
                                         const analysis_settings& settings, const std::vector<std::uint64_t>& offsets) {
        if (what == analysis::pagerank) {
            std::uint64_t isolated = 0;
            for (std::uint32_t u = 0; u < vertices_; ++u) {
                isolated += offsets[u] == offsets[u + std::size_t{1}] ? 1 : 0;
            }
            return wrong_ranks(found.values, isolated, settings.rank_steps);
        }
        const auto violations = runner_->violations(what, rows, settings);
        if (!violations.ok() || *violations != 0) {
            return violations.ok() ? absl::StatusOr<std::string>(absl::StrCat(*violations, " invariants do not hold"))
                                   : violations.status();
        }
        if (what == analysis::components) {
            // Labels that are equal along edges may be equal beyond a component: not beyond that of the source.
            const auto levels = runner_->run(analysis::bfs, rows, settings);
            if (!levels.ok()) {
                return levels.status();
            }
            for (std::uint32_t u = 0; u < vertices_; ++u) {
                if ((levels->words[u] != unreached) != (found.words[u] == found.words[settings.source])) {
                    return absl::StrFormat("vertex %d has label %d, and the search from vertex %d %s it", u,
                                           found.words[u], settings.source,
                                           levels->words[u] != unreached ? "reaches" : "does not reach");
                }
            }
        }
        return std::string();
    }
    /// Begins at a vertex with many neighbours, so that much is reached.
    [[nodiscard]] analysis_settings settings_of(const std::vector<std::uint64_t>& offsets) const {
        analysis_settings settings{0, options_.rank_steps};
        std::uint64_t most = 0;
        for (std::uint32_t u = 0; u < vertices_; ++u) {
            const std::uint64_t degree = offsets[u + std::size_t{1}] - offsets[u];
            settings.source = degree > most ? u : settings.source;
            most = std::max(most, degree);
        }
        return settings;
    }
    /// Notes an analysis and what was wrong with it.
    void note(graph_analysis_row& row, const analysis_settings& settings, const analysis_result& on_graph,
              const analysis_result& on_csr, const std::string& wrong_on_graph, const std::string& wrong_on_csr) {
        ++row.times;
        if (count_ >= row.edges) {
            row.edges = count_;
            row.graph_us = on_graph.kernel_us;
            row.csr_us = on_csr.kernel_us;
        }
        row.source = settings.source;
        if (options_.keeps_values) {
            row.last = on_graph;
        }
        for (const std::string& wrong : {wrong_on_graph, wrong_on_csr}) {
            row.wrong += wrong.empty() ? 0 : 1;
            row.first_wrong = row.first_wrong.empty() ? wrong : row.first_wrong;
        }
    }

    simt::executor on_;
    any_graph<Property>& graph_;
    std::uint32_t vertices_;
    const graph_options& options_;
    graph_result result_;
    std::vector<weighted_edge> edges_;  ///< those that the graph must have, ascending; empty with invariants
    std::uint64_t count_ = 0;           ///< edges that the graph must have
    std::uint64_t marks_ = 0;           ///< sum of their marks, of both directions
    std::uint64_t most_edges_ = 0;
    /// An open snapshot, with `edges_`, `count_` and `marks_` of its moment.
    struct {
        std::unique_ptr<any_snapshot<Property>> open;
        std::vector<weighted_edge> edges;
        std::uint64_t count = 0;
        std::uint64_t marks = 0;
    } snapshot_;
    device_array<std::uint32_t> sources_;
    device_array<std::uint32_t> targets_;
    device_array<Property> properties_;
    std::optional<analysis_runner> runner_;
};

/// The memory of a graph in a heap. A shortage is a result, of which the heap has the reason.
struct heap_memory {
    const heap* of;
    [[nodiscard]] heap_ref ref() const { return of->ref(); }
    [[nodiscard]] static absl::Status shortage() { return absl::OkStatus(); }
    [[nodiscard]] static absl::Status forget_refusals() { return absl::OkStatus(); }
};

/// Returns what the run found in the graph that was made; the graph's error if it was not. The graph ends with the
/// run, and has then given back its memory.
template <class Property>
absl::StatusOr<graph_result> run_with(graph_in_allocator::made<Property> g, const simt::executor& on,
                                      std::uint32_t vertices, const std::vector<planned_batch>& batches,
                                      const version_difference& change, const graph_options& options,
                                      command_line::progress& bar) {
    return g.ok() ? graph_run<Property>(on, **g, vertices, options).run(batches, change, bar)
                  : absl::StatusOr<graph_result>(g.status());
}

}  // namespace

absl::StatusOr<graph_result> run_graph_in(const graph_in_allocator& allocator, const simt::executor& on,
                                          std::uint64_t bytes, std::uint32_t vertices, const std::vector<edge>& edges,
                                          const graph_options& options, command_line::progress& bar) {
    if (vertices == 0 || edges.empty()) {
        return absl::InvalidArgumentError("the graph has no edges; give one that has");
    }
    if (options.check == graph_check::invariants && options.mode == update_mode::pressure) {
        return absl::InvalidArgumentError(
            "the edges of pressure may be there already, which invariants cannot tell; give --check host");
    }
    const version_difference change =
        options.mode == update_mode::then ? difference_of(edges, options) : version_difference{};
    const auto batches = plan(vertices, edges, change, options);
    if (!batches.ok()) {
        return batches.status();
    }
    return options.weights
               ? run_with<double>(allocator.weighted(on, bytes), on, vertices, batches->batches, change, options, bar)
               : run_with<no_property>(allocator.plain(on, bytes), on, vertices, batches->batches, change, options,
                                       bar);
}

absl::StatusOr<graph_result> run_graph(heap& h, std::uint32_t vertices, const std::vector<edge>& edges,
                                       const graph_options& options, command_line::progress& bar) {
    const graph_in_allocator in_heap{[&h](const simt::executor& on, std::uint64_t) {
                                         return graph_over<no_property, heap_memory>::create(on, heap_memory{&h});
                                     },
                                     [&h](const simt::executor& on, std::uint64_t) {
                                         return graph_over<double, heap_memory>::create(on, heap_memory{&h});
                                     }};
    auto result = run_graph_in(in_heap, h.executor(), 0, vertices, edges, options, bar);
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
