// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard graph`: a dynamic graph that is built, changed and asked by batches, with analyses between them.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "examples/dynamic_graph/analyses_kernels.cuh"
#include "examples/dynamic_graph/graph_inputs.hpp"
#include "examples/dynamic_graph/graph_run.hpp"
#include "examples/report/checked_command.hpp"
#include "examples/report/other_allocators.hpp"
#include "runtime/cli/options_cli.hpp"
#include "runtime/cli/program_heap.hpp"
#include "runtime/options/byte_size.hpp"
#include "runtime/text/text_table.hpp"

namespace orchard::examples {
namespace {

using nlohmann::ordered_json;

/// Where the edges' properties come from.
enum class weight_source : std::uint8_t { none, input, random };

struct graph_arguments {
    std::string input = "rmat:10";
    std::string then;  ///< the second version; empty: none
    weight_source weights = weight_source::none;
    graph_options run;
    bool updates_given = false;
    edge_order order = edge_order::uniform;
    std::string analyses = "all";
    std::string allocator = own_allocator;
    bool capacity_given = false;
    options heap;
    command_line::json_option json;
    bool quiet = false;
};

struct graph_report {
    device_choice device;
    std::uint32_t vertices = 0;
    std::uint64_t edges = 0;
    graph_result result;
    std::vector<check> checks;
};

/// Reads the names of analyses. Errors: InvalidArgument with the name that is none.
absl::StatusOr<std::vector<analysis>> chosen(const std::string& names) {
    std::vector<analysis> all;
    for (const absl::string_view name : absl::StrSplit(names, ',', absl::SkipEmpty())) {
        if (name == "none" || name == "all") {
            for (int i = 0; i < analyses && name == "all"; ++i) {
                all.push_back(static_cast<analysis>(i));
            }
            continue;
        }
        const auto* const found = std::ranges::find(analysis_names, std::string_view(name.data(), name.size()));
        if (found == std::end(analysis_names)) {
            return absl::InvalidArgumentError(
                absl::StrCat("--analyses \"", name,
                             "\": give some of bfs, sssp, pagerank, components, triangles, "
                             "kcore, separated by commas; all, or none"));
        }
        all.push_back(static_cast<analysis>(found - std::begin(analysis_names)));
    }
    return all;
}

/// Returns a capacity with room to spare: six times the bytes of each direction, half as much again for the rows that a
/// snapshot keeps, and what the segment cache holds.
std::uint64_t capacity_for(std::uint64_t vertices, std::uint64_t edges, const graph_options& o) {
    const std::uint64_t halves = o.snapshot ? 3 : 2;
    return std::max<std::uint64_t>(gib, halves * (32 * vertices + edges * (o.weights ? 72 : 24)) + 256 * mib);
}

std::vector<check> checks_of(const graph_result& r, const graph_arguments& a) {
    const bool on_host = a.run.check == graph_check::host;
    std::uint64_t duplicates = 0;
    for (const graph_batch_row& b : r.batches) {
        duplicates += b.duplicates;
    }
    std::vector<check> all{
        {"batches", r.wrong_counts == 0 && r.left == 0,
         absl::StrFormat(
             "%d; %d took another number of edges than %s, %d directions were duplicates, %d found no memory",
             r.batches.size(), r.wrong_counts, on_host ? "the host's set" : "they had", duplicates, r.left)},
        {"edges", r.wrong_edges == 0,
         absl::StrFormat("%d comparisons differ from %s", r.wrong_edges,
                         on_host ? "the host's rows" : "the invariants of rows")}};
    all.push_back({"contains", r.questions.wrong == 0,
                   absl::StrFormat("%d questions, %d edges are there; %d answers differ from %s; %.1f M/s",
                                   r.questions.asked, r.questions.there, r.questions.wrong,
                                   on_host ? "the host's set" : "the batch", r.questions.rate)});
    if (r.second) {
        all.push_back({"second version", r.second->equal,
                       absl::StrFormat("%d edges added, %d removed; the rows are%s those of the second graph",
                                       r.second->added, r.second->removed, r.second->equal ? "" : " not")});
    }
    if (r.snapshot) {
        all.push_back({"snapshot", r.snapshot->equal,
                       absl::StrFormat("of batch %d, after all others it has%s exactly the %d directions of its moment",
                                       r.snapshot->batch, r.snapshot->equal ? "" : " not", r.snapshot->edges)});
    }
    for (const graph_analysis_row& row : r.analyses) {
        all.push_back({std::string(name_of(row.what)), row.wrong == 0 && row.times != 0,
                       row.wrong == 0
                           ? absl::StrFormat("%d times %s, on the graph and on rows", row.times,
                                             on_host ? "as on the host" : "by invariants")
                           : absl::StrFormat("%d of %d differ: %s", row.wrong, 2 * row.times, row.first_wrong)});
    }
    if (a.allocator == own_allocator) {
        all.push_back({"the heap is whole, and empty", r.is_valid, r.is_valid ? "after the graph's end" : r.fault});
    }
    return all;
}

/// Reads or makes a graph, with weights if the input's are asked for. Errors: InvalidArgument if it has none.
absl::StatusOr<edge_list> weighted_graph(const graph_arguments& a, const std::string& text) {
    const bool keeps = a.weights == weight_source::input;
    auto graph = graph_of(text, a.run.seed, keeps ? edge_weights::kept : edge_weights::dropped);
    if (graph.ok() && graph->edges.empty()) {
        return absl::InvalidArgumentError(absl::StrCat("graph \"", text, "\" has no edges; give one that has"));
    }
    if (graph.ok() && keeps && graph->weights.empty()) {
        return absl::InvalidArgumentError(
            absl::StrCat("graph \"", text, "\" has no weights; give --weights random, or a file that has"));
    }
    return graph;
}

/// The graph, and how many vertices and edges it has together with its second version.
struct graph_input {
    edge_list graph;
    std::uint32_t vertices = 0;
    std::uint64_t most_edges = 0;
};

/// Reads or makes the graph and its second version, whose edges are put into `a.run`.
absl::StatusOr<graph_input> input_of(graph_arguments& a) {
    auto graph = weighted_graph(a, a.input);
    if (!graph.ok()) {
        return graph.status();
    }
    graph_input in{*std::move(graph)};
    in.vertices = in.graph.vertices;
    in.most_edges = in.graph.edges.size();
    if (a.weights != weight_source::none) {
        a.run.weights = weight_table{a.weights == weight_source::input ? in.graph : edge_list(), a.run.seed};
    }
    if (!a.then.empty()) {
        if (a.updates_given) {
            return absl::InvalidArgumentError("--then says what the updates are; leave out --updates");
        }
        auto second = weighted_graph(a, a.then);
        if (!second.ok()) {
            return second.status();
        }
        a.run.mode = update_mode::then;
        in.vertices = std::max(in.vertices, second->vertices);
        in.most_edges += second->edges.size();
        a.run.second = {*std::move(second), a.run.seed};
    }
    return in;
}

absl::StatusOr<graph_report> execute(graph_arguments& a) {
    graph_in_allocator other;
    if (a.allocator != own_allocator) {
        auto found = find_allocator<graph_in_allocator>(a.allocator);
        if (!found.ok()) {
            return found.status();
        }
        other = *std::move(found);
    }
    const auto which = chosen(a.analyses);
    if (!which.ok()) {
        return which.status();
    }
    a.run.chosen = *which;
    const auto input = input_of(a);
    if (!input.ok()) {
        return input.status();
    }
    graph_report report;
    const auto device = choose_device(a.heap.device);
    if (!device.ok()) {
        return device.status();
    }
    report.device = *device;
    report.vertices = input->vertices;
    report.edges = input->graph.edges.size();
    if (!a.capacity_given) {
        a.heap.capacity = capacity_for(input->vertices, input->most_edges, a.run);
    }
    const std::vector<edge> edges = ordered(input->graph, a.order, a.run.seed);
    command_line::progress bar(!a.quiet);
    absl::StatusOr<graph_result> result = graph_result();
    if (a.allocator == own_allocator) {
        auto h = command_line::create_heap(a.heap);
        if (!h.ok()) {
            return h.status();
        }
        result = run_graph(*h, input->vertices, edges, a.run, bar);
    } else {
        const simt::executor on{.kind = device->kind, .workers = static_cast<unsigned>(a.heap.emulated_workers)};
        result = run_graph_in(other, on, a.heap.capacity, input->vertices, edges, a.run, bar);
    }
    if (!result.ok()) {
        return result.status();
    }
    report.result = *std::move(result);
    report.checks = checks_of(report.result, a);
    return report;
}

/// Returns millions of directions a second.
double rate(const graph_batch_row& b) {
    return b.milliseconds > 0 ? static_cast<double>(b.directions) / b.milliseconds * 1e-3 : 0;
}

std::string batches_text(const graph_result& r) {
    std::vector<std::vector<std::string>> lines{
        {"batch", "directions", "taken", "ms", "M/s", "edges", "memory", "memory by batch"}};
    std::uint64_t most = 1;
    for (const graph_batch_row& b : r.batches) {
        most = std::max(most, b.row_bytes);
    }
    constexpr std::size_t most_lines = 16;
    const std::size_t every = (r.batches.size() + most_lines - 1) / most_lines;
    for (std::size_t i = 0; i < r.batches.size(); ++i) {
        const graph_batch_row& b = r.batches[i];
        if (i % every == 0 || i + 1 == r.batches.size()) {
            lines.push_back({absl::StrFormat("%s %d", b.adds ? "+" : "-", i + 1), absl::StrCat(b.directions),
                             absl::StrCat(b.taken), absl::StrFormat("%.3f", b.milliseconds),
                             absl::StrFormat("%.2f", rate(b)), absl::StrCat(b.edges), format_bytes(b.row_bytes),
                             std::string(b.row_bytes * 30 / most, '#')});
        }
    }
    return detail::in_columns(lines, "rrrrrrrl");
}

std::string degrees_text(const graph_result& r) {
    std::uint64_t most = 1;
    for (const std::uint64_t n : r.degrees) {
        most = std::max(most, n);
    }
    std::vector<std::vector<std::string>> lines{{"degree", "vertices", ""}};
    for (std::size_t i = 0; i < r.degrees.size(); ++i) {
        if (r.degrees[i] != 0) {
            const std::uint64_t first = i == 0 ? 0 : std::uint64_t{1} << (i - 1);
            const std::uint64_t last = i == 0 ? 0 : (std::uint64_t{1} << i) - 1;
            lines.push_back({first == last ? absl::StrCat(first) : absl::StrFormat("%d to %d", first, last),
                             absl::StrCat(r.degrees[i]), std::string(r.degrees[i] * 40 / most, '#')});
        }
    }
    return detail::in_columns(lines, "rrl");
}

std::string to_text(const graph_arguments& a, const graph_report& r) {
    std::string text = absl::StrFormat(
        "graph    %s: %d vertices, %d edges in both directions\n"
        "device   %s (%s)\n"
        "memory   %s: %.2f B for a direction, %.2f in compressed sparse rows\n\n",
        a.input, r.vertices, r.edges, orchard::name_of(r.device.kind), r.device.reason, a.allocator,
        r.result.bytes_per_edge, r.result.csr_bytes_per_edge);
    absl::StrAppend(&text, batches_text(r.result), "\n", degrees_text(r.result), "\n");
    if (const auto& s = r.result.snapshot) {
        absl::StrAppendFormat(
            &text,
            "snapshot of batch %d, %d directions: opened in %.3f ms, closed in %.3f ms; at the end it "
            "kept %s of rows and %s of table\n\n",
            s->batch, s->edges, s->milliseconds, s->close_milliseconds, format_bytes(s->row_bytes),
            format_bytes(s->table_bytes));
    }
    if (!r.result.analyses.empty()) {
        std::vector<std::vector<std::string>> lines{{"analysis", "graph us", "rows us", "ratio"}};
        for (const graph_analysis_row& row : r.result.analyses) {
            lines.push_back({std::string(name_of(row.what)), absl::StrFormat("%.1f", row.graph_us),
                             absl::StrFormat("%.1f", row.csr_us),
                             absl::StrFormat("%.2f", row.csr_us > 0 ? row.graph_us / row.csr_us : 0)});
        }
        absl::StrAppend(&text, detail::in_columns(lines, "lrrr"), "\n");
    }
    return text;
}

/// Returns what an analysis said of each vertex: null for one that is not reached. The number of triangles alone.
ordered_json values_of(const graph_analysis_row& row) {
    if (row.what == analysis::triangles) {
        return row.last.count;
    }
    ordered_json values = ordered_json::array();
    for (const std::uint32_t word : row.last.words) {
        const bool is_level = row.what == analysis::bfs;
        values.push_back(is_level && word == unreached ? ordered_json() : ordered_json(word));
    }
    for (const double value : row.last.values) {
        values.push_back(std::isinf(value) ? ordered_json() : ordered_json(value));
    }
    return values;
}

/// Returns the members of the document, without the checks.
ordered_json members(const graph_arguments& a, const graph_report& r) {
    ordered_json batches = ordered_json::array();
    for (const graph_batch_row& b : r.result.batches) {
        batches.push_back({{"adds", b.adds},
                           {"directions", b.directions},
                           {"taken", b.taken},
                           {"duplicates", b.duplicates},
                           {"left", b.left},
                           {"ms", b.milliseconds},
                           {"edges", b.edges},
                           {"bytes", b.row_bytes}});
    }
    ordered_json rows = ordered_json::array();
    for (const graph_analysis_row& row : r.result.analyses) {
        rows.push_back({{"analysis", std::string(name_of(row.what))},
                        {"times", row.times},
                        {"wrong", row.wrong},
                        {"graph_us", row.graph_us},
                        {"csr_us", row.csr_us}});
        if (a.run.keeps_values) {
            rows.back()["source"] = row.source;
            rows.back()["values"] = values_of(row);
        }
    }
    const bool in_heap = a.allocator == own_allocator;
    ordered_json document{{"graph", a.input},
                          {"allocator", a.allocator},
                          {"vertices", r.vertices},
                          {"edges", r.edges},
                          {"batch", a.run.batch},
                          {"by", a.run.by == update_way::kernels ? "kernels" : "batches"},
                          {"weights", a.run.weights.has_value()},
                          {"check", a.run.check == graph_check::host ? "host" : "invariants"},
                          {"bytes_per_edge", r.result.bytes_per_edge},
                          {"csr_bytes_per_edge", r.result.csr_bytes_per_edge},
                          {"degrees", r.result.degrees},
                          {"batches", std::move(batches)},
                          {"contains",
                           {{"asked", r.result.questions.asked},
                            {"there", r.result.questions.there},
                            {"wrong", r.result.questions.wrong},
                            {"m_per_s", r.result.questions.rate}}},
                          {"analyses", std::move(rows)},
                          {"statistics", in_heap ? command_line::json_of(r.result.at_end) : ordered_json()}};
    if (r.result.second) {
        document["then"] = {
            {"graph", a.then}, {"added", r.result.second->added}, {"removed", r.result.second->removed}};
    }
    if (const auto& s = r.result.snapshot) {
        document["snapshot"] = {{"batch", s->batch},          {"edges", s->edges},
                                {"open_ms", s->milliseconds}, {"close_ms", s->close_milliseconds},
                                {"row_bytes", s->row_bytes},  {"table_bytes", s->table_bytes},
                                {"equal", s->equal}};
    }
    return document;
}

void declare(CLI::App& app, graph_arguments& a) {
    app.add_option("graph", a.input,
                   "A file (MatrixMarket, METIS as *.metis, or an edge list), or rmat:SCALE[,FACTOR], "
                   "er:VERTICES,EDGES, grid:WIDTHxHEIGHT[,PERCENT of holes], rgg:VERTICES,DEGREE")
        ->type_name("GRAPH")
        ->capture_default_str();
    app.add_option("--batch", a.run.batch, "Edges of a batch (1 to 268,435,456)")
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 28).description(""));
    const std::map<std::string, update_mode> modes{{"build", update_mode::build},
                                                   {"window", update_mode::window},
                                                   {"reinsert", update_mode::reinsert},
                                                   {"pressure", update_mode::pressure}};
    app.add_option(
           "--updates", a.run.mode,
           "build: add all, remove all; window: remove a batch some batches after it came; reinsert: remove and "
           "add each again; pressure: edges of 1,000 vertices come and go")
        ->transform(CLI::CheckedTransformer(modes).description(""))
        ->type_name("build|window|reinsert|pressure");
    app.add_option(
           "--then", a.then,
           "A second version of the graph: after all of the first, what it lacks is removed and what is new added")
        ->type_name("GRAPH");
    const std::map<std::string, update_way> ways{{"batches", update_way::batches}, {"kernels", update_way::kernels}};
    app.add_option("--by", a.run.by,
                   "batches: graph::insert and erase; kernels: each thread changes edges by graph_ref")
        ->transform(CLI::CheckedTransformer(ways).description(""))
        ->type_name("batches|kernels");
    const std::map<std::string, weight_source> sources{
        {"none", weight_source::none}, {"input", weight_source::input}, {"random", weight_source::random}};
    app.add_option("--weights", a.weights,
                   "Properties of the edges, which sssp uses: none; input: the file's weights, from 0; random: 1 to 64")
        ->transform(CLI::CheckedTransformer(sources).description(""))
        ->type_name("none|input|random");
    app.add_option("--window", a.run.window, "Batches that are there at once, with --updates window (1 to 1,000,000)")
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000}).description(""));
    const std::map<std::string, edge_order> orders{{"uniform", edge_order::uniform}, {"skewed", edge_order::skewed}};
    app.add_option("--order", a.order, "uniform: random; skewed: by vertex, so that a batch changes few")
        ->transform(CLI::CheckedTransformer(orders).description(""))
        ->type_name("uniform|skewed");
    app.add_option("--batches", a.run.most_batches, "Most batches (1 to 1,000,000)")
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000}).description(""));
    app.add_option("--allocator", a.allocator,
                   "The allocator of the edges; others than orchard are in the program of docs/arena.md, and take "
                   "--capacity alone of the heap's options")
        ->type_name("NAME")
        ->capture_default_str();
    app.add_option("--analyses", a.analyses, "Some of bfs, sssp, pagerank, components, triangles, kcore; all, or none")
        ->type_name("NAMES")
        ->capture_default_str();
    const std::map<std::string, graph_check> kinds{{"host", graph_check::host},
                                                   {"invariants", graph_check::invariants}};
    app.add_option(
           "--check", a.run.check,
           "host: against a set and programs on the host; invariants: by what must hold of any graph, for large "
           "ones")
        ->transform(CLI::CheckedTransformer(kinds).description(""))
        ->type_name("host|invariants");
    app.add_flag("--snapshot", a.run.snapshot,
                 "Open a snapshot in the middle of insertion, and compare it after the last batch with the edges of "
                 "its moment; batches take longer beside it, and memory is kept for it");
    app.add_option("--rank-steps", a.run.rank_steps, "Steps of pagerank (1 to 10,000)")
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(1, 10'000).description(""));
    app.add_flag("--values", a.run.keeps_values,
                 "Write into the document what the analyses said of each vertex, the last time");
    app.add_option("--seed", a.run.seed, "Seed of the graph and of the order of its edges")
        ->type_name("N")
        ->capture_default_str();
    command_line::add_json(app, a.json, "Write the result");
    app.add_flag("--quiet", a.quiet, "Print the checks alone, and no progress bar");
    add_to(app, a.heap);
    app.footer("Unless given, the capacity is what the graph needs, and 1 GiB at least.");
    app.parse_complete_callback([&app, &a] {
        a.capacity_given = given_options(app).contains("capacity");
        a.updates_given = app.count("--updates") != 0;
    });
}

command_line::subcommand graph_command() {
    const auto a = std::make_shared<graph_arguments>();
    return {"graph", "A dynamic graph that is built, changed and analysed by batches", "Examples",
            [a](CLI::App& app) { declare(app, *a); }, [a] { return run_checked(*a, execute, to_text, members); }};
}

const command_line::registrar graph_command_registered{graph_command};

}  // namespace
}  // namespace orchard::examples
