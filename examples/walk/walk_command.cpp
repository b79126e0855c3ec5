// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard walk`: the random walk on a graph whose adjacency is allocated by the threads that insert it.
///
///     walk_command        declares the flags; checks that there is one graph
///       run_walk_command    opens the JSON file first, so that a long run does not end with an error about it
///         execute             load -> choose_device -> create_heap -> run_walk

#include "examples/walk/walk_command.hpp"

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "examples/graph/read_graph.hpp"
#include "examples/graph/rmat.hpp"
#include "examples/report/other_allocators.hpp"
#include "examples/walk/report.hpp"
#include "examples/walk/walk_run.hpp"
#include "runtime/cli/command_line.hpp"
#include "runtime/cli/options_cli.hpp"
#include "runtime/cli/program_heap.hpp"
#include "runtime/machine/machine_info.hpp"

namespace orchard::examples {

namespace {

/// Reads or generates the graph, and describes it in `source`.
absl::StatusOr<edge_list> load(const walk_arguments& a, std::string& source) {
    if (a.rmat_scale == 0) {
        source = a.file;
        return read_graph(a.file);
    }
    source = absl::StrFormat("rmat scale %d, edge factor %d, seed %u", a.rmat_scale, a.edge_factor, a.walk.seed);
    return generate_rmat({a.rmat_scale, a.edge_factor, a.walk.seed});
}

/// Checks that exactly one graph is named, a file or a scale, and that the allocator can do what is asked for.
absl::Status check_input(const walk_arguments& a) {
    if (a.file.empty() && a.rmat_scale == 0) {
        return absl::InvalidArgumentError("no graph given; name a file, or generate one with --rmat SCALE");
    }
    if (!a.file.empty() && a.rmat_scale != 0) {
        return absl::InvalidArgumentError(
            absl::StrFormat("both the file %s and --rmat %d given; give one of them", a.file, a.rmat_scale));
    }
    if (a.allocator != own_allocator) {
        if (!a.walk.dump.empty()) {
            return absl::InvalidArgumentError(absl::StrCat("--dump ", a.walk.dump, ": ", a.allocator,
                                                           " has no map; leave one of the two options out"));
        }
        return find_allocator<walk_in_allocator>(a.allocator).status();
    }
    return absl::OkStatus();
}

/// Runs the walk on the graph that was read; fills in the description for the report.
absl::StatusOr<walk_result> execute(walk_arguments& a, walk_description& what) {
    const stopwatch reading;
    absl::StatusOr<edge_list> graph = load(a, what.source);
    if (!graph.ok()) {
        return graph.status();
    }
    what.read_seconds = reading.seconds();
    what.vertices = graph->vertices;
    what.edges = graph->edges.size();
    what.entries = graph->entries;
    what.self_loops = graph->self_loops;
    what.duplicates = graph->duplicates;
    // A heap's default capacity may be too small for a large graph.
    if (!a.capacity_given) {
        a.heap.capacity = suggested_capacity(what.vertices, what.edges, a.walk);
    }
    const absl::StatusOr<device_choice> device = choose_device(a.heap.device);
    if (!device.ok()) {
        return device.status();
    }
    what.device = *device;
    what.walk = a.walk;
    what.heap = a.heap;
    command_line::progress bar(!a.quiet);
    if (a.allocator != own_allocator) {
        what.allocator = a.allocator;
        const auto run = find_allocator<walk_in_allocator>(a.allocator);
        const simt::executor on{.kind = device->kind, .workers = static_cast<unsigned>(a.heap.emulated_workers)};
        return run.ok() ? (*run)(on, a.heap.capacity, *graph, a.walk, bar) : run.status();
    }
    const stopwatch creating;
    absl::StatusOr<heap> h = command_line::create_heap(a.heap);
    if (!h.ok()) {
        return h.status();
    }
    what.heap_seconds = creating.seconds();
    return run_walk(*h, *graph, a.walk, bar);
}

/// Adds the flags of `orchard walk` alone, and those that `demo` has, too.
void declare(CLI::App& app, walk_arguments& a) {
    app.add_option("file", a.file, "The graph: MatrixMarket or an edge list, plain or gzip")->type_name("FILE");
    // The ranges are in the help texts: what CLI11 would print is its own notation.
    app.add_option("--rmat", a.rmat_scale, "Generate a Kronecker graph of 2^SCALE vertices instead (1 to 30)")
        ->type_name("SCALE")
        ->check(CLI::Range(1, 30).description(""));
    app.add_option("--edge-factor", a.edge_factor, "Edges a vertex of the generated graph (1 to 1,024)")
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(1, 1024).description(""));
    app.add_option("--allocator", a.allocator,
                   "The allocator of the lists; others than orchard are in the program of docs/arena.md, and take "
                   "--capacity alone of the heap's options")
        ->type_name("NAME")
        ->capture_default_str();
    add_walk_flags(app, a);
}

/// Returns the subcommand. The arguments live as long as it: CLI11 keeps references to them.
command_line::subcommand walk_command() {
    const auto arguments = std::make_shared<walk_arguments>();
    return {"walk", "Random walk on a graph whose lists live in the heap, checked against the host", "Examples",
            [arguments](CLI::App& app) { declare(app, *arguments); },
            [arguments] {
                const absl::Status input = check_input(*arguments);
                return input.ok() ? run_walk_command(*arguments, "") : command_line::exit_code(input);
            }};
}

const command_line::registrar walk_command_registered{walk_command};

}  // namespace

/// The limits of the numbers keep a walker's list, of steps + 1 vertices, within 32 bits.
void add_walk_flags(CLI::App& app, walk_arguments& a) {
    constexpr std::uint64_t max_walkers = 1'000'000'000;
    constexpr std::uint32_t max_steps = 1'000'000'000;
    app.add_option("--walkers", a.walk.walkers, "Walkers (1 to 1,000,000,000)")
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(std::uint64_t{1}, max_walkers).description(""));
    app.add_option("--steps", a.walk.steps, "Steps of each walker (1 to 1,000,000,000)")
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(std::uint32_t{1}, max_steps).description(""));
    app.add_option("--seed", a.walk.seed, "Seed of the generated graph, the order of insertion and the walk")
        ->type_name("N")
        ->capture_default_str();
    app.add_option("--batch", a.walk.batch,
                   "Edges inserted by one launch (up to 1,073,741,824); 0 takes a sixteenth of them")
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 30).description(""));
    // CLI11 turns the word into the enumerator, and rejects other words.
    const std::map<std::string, dead_end> choices{{"stop", dead_end::stop}, {"restart", dead_end::restart}};
    app.add_option("--dead-ends", a.walk.at_dead_end, "What a walker does where there is no edge: stop or restart")
        ->transform(CLI::CheckedTransformer(choices).description(""))
        ->type_name("stop|restart");
    app.add_option("--dump", a.walk.dump, "Write the heap's map, as it is before all is freed, for `orchard map`")
        ->type_name("FILE");
    command_line::add_json(app, a.json, "Write the result");
    app.add_flag("--quiet", a.quiet, "Print the checks alone, and no progress bar");
    add_to(app, a.heap);
    // The option's own help, with the one difference that this command makes.
    app.get_option("--capacity")
        ->description(absl::StrCat(app.get_option("--capacity")->get_description(),
                                   "; here, unless given, what the graph needs"));
    app.callback([&app, &a] { a.capacity_given = given_options(app).contains("capacity"); });
}

/// Nothing is written to the JSON file if the run ends with an error.
int run_walk_command(walk_arguments& arguments, const std::string& explanation) {
    absl::StatusOr<command_line::json_output> out = command_line::json_output::open(arguments.json);
    if (!out.ok()) {
        return command_line::exit_code(out.status());
    }
    walk_description what;
    const absl::StatusOr<walk_result> result = execute(arguments, what);
    if (!result.ok()) {
        return command_line::exit_code(result.status());
    }
    // A check that failed is printed like one that passed, and gives the exit code 1 below.
    out->text() << (arguments.quiet ? checks_text(result->checks) : absl::StrCat(explanation, to_text(what, *result)));
    const absl::Status written = out->commit(command_line::device_json(what.device), json_of(what, *result));
    if (!written.ok()) {
        return command_line::exit_code(written);
    }
    return result->passed() ? 0 : 1;
}

}  // namespace orchard::examples
