// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard tree`: two trees that many threads build at once, node by node: KMA's search tree of a graph, and a
/// Barnes-Hut octree, whose forces are compared with those of all pairs.

#include <CLI/CLI.hpp>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "examples/report/checked_command.hpp"
#include "examples/report/other_allocators.hpp"
#include "examples/report/repetitions.hpp"
#include "examples/trees/tree_inputs.hpp"
#include "examples/trees/tree_run.hpp"
#include "runtime/cli/options_cli.hpp"
#include "runtime/cli/program_heap.hpp"
#include "runtime/options/byte_size.hpp"
#include "runtime/text/text_table.hpp"

namespace orchard::examples {
namespace {

using nlohmann::ordered_json;

struct tree_arguments {
    std::uint64_t edges = 65'536;
    std::uint32_t nodes = 10'000;
    std::uint64_t threads = 0;  ///< 0: by the device
    std::uint32_t bodies = 0;
    double opening = 0.4;
    int repeats = 10;
    std::uint64_t seed = 1;
    std::string allocator = own_allocator;  ///< another one builds the search tree once more
    options heap;
    command_line::json_option json;
    bool quiet = false;
};

/// Of the octree: a hundred-thousandth of the space's width.
constexpr double softening = 1e-5;
/// Bodies whose forces are computed by all pairs.
constexpr std::size_t compared = 1024;

struct tree_runs {
    device_choice device;
    search_tree_result in_heap;
    search_tree_result in_array;
    std::optional<search_tree_result> in_other;  ///< of `--allocator`
    octree_result octree;
    double error = 0;
    statistics at_end;
    std::vector<check> checks;
};

void choose_sizes(tree_arguments& a, simt::device_kind device) {
    const bool cuda = device == simt::device_kind::cuda;
    a.threads = a.threads != 0 ? a.threads : cuda ? 16'384 : 256;
    a.bodies = a.bodies != 0 ? a.bodies : cuda ? 1u << 20 : 4096;
}

bool operator==(const key_record& a, const key_record& b) {
    return a.is_there == b.is_there && a.edges == b.edges && a.sum == b.sum;
}

/// Compares a search tree with the input.
check check_search_tree(const char* name, const search_tree_result& r, const tree_arguments& a,
                        const std::vector<key_record>& right) {
    std::uint64_t keys = 0;
    std::uint64_t wrong = 0;
    for (std::size_t k = 0; k < right.size(); ++k) {
        keys += right[k].is_there;
        wrong += r.keys[k] == right[k] ? 0 : 1;
    }
    return {name, wrong == 0 && r.nodes == keys && r.edges == a.edges && r.left_out == 0,
            absl::StrFormat("%d nodes of %d keys, %d of %d edges; %d keys with other edges than the input", r.nodes,
                            keys, r.edges, a.edges, wrong)};
}

absl::StatusOr<tree_runs> execute(tree_arguments& a) {
    tree_runs r;
    tree_in_allocator other;
    if (a.allocator != own_allocator) {
        auto found = find_allocator<tree_in_allocator>(a.allocator);
        if (!found.ok()) {
            return found.status();
        }
        other = *std::move(found);
    }
    const auto device = choose_device(a.heap.device);
    if (!device.ok()) {
        return device.status();
    }
    r.device = *device;
    choose_sizes(a, device->kind);
    if (absl::Status fits = check_tree_memory(a.edges, a.nodes, a.bodies, device->kind); !fits.ok()) {
        return fits;
    }
    auto h = command_line::create_heap(a.heap);
    if (!h.ok()) {
        return h.status();
    }
    command_line::progress bar(!a.quiet);
    const std::vector<key_pair> edges = random_edges(a.edges, a.nodes, a.seed);
    const std::vector<key_record> right = expected_keys(edges, a.nodes);
    const std::uint64_t most = search_tree_bytes(a.edges);
    for (const auto& [bytes, into] : {std::pair{std::uint64_t{0}, &r.in_heap}, std::pair{most, &r.in_array}}) {
        auto run = run_search_tree(*h, bytes, edges, a.nodes, a.threads, a.repeats, bar);
        if (!run.ok()) {
            return run.status();
        }
        *into = *std::move(run);
    }
    if (other) {
        // As the array, and as much again for what the allocator adds to its blocks.
        auto run = other(h->executor(), std::max<std::uint64_t>(2 * most, 64 * mib), edges, a.nodes, a.threads,
                         a.repeats, bar);
        if (!run.ok()) {
            return run.status();
        }
        r.in_other = *std::move(run);
    }
    const std::vector<body> bodies = random_bodies(a.bodies, a.seed);
    auto octree = run_octree(*h, bodies, static_cast<std::uint32_t>(std::min<std::uint64_t>(a.threads, a.bodies)),
                             a.opening, softening, a.repeats, bar);
    if (!octree.ok()) {
        return octree.status();
    }
    r.octree = *std::move(octree);
    r.error = force_error(bodies, r.octree.forces, softening, compared);
    absl::Status valid = h->trim();
    valid.Update(valid.ok() ? h->validate() : valid);
    const auto stats = h->stats();
    if (!stats.ok()) {
        return stats.status();
    }
    r.at_end = *stats;
    r.checks = {check_search_tree("search tree, in the heap", r.in_heap, a, right),
                check_search_tree("search tree, in an array", r.in_array, a, right),
                {"octree: every body once", r.octree.bodies == a.bodies && r.octree.left_out == 0,
                 absl::StrFormat("%d of %d bodies in %d cells; %d left out", r.octree.bodies, a.bodies, r.octree.cells,
                                 r.octree.left_out)},
                // A hundredth: what Barnes and Hut report for an opening of 1 in typical distributions.
                {"octree: forces as by all pairs", r.error < 0.01,
                 absl::StrFormat("relative error %.2g (root mean square of %d bodies), opening %g", r.error,
                                 std::min<std::size_t>(compared, a.bodies), a.opening)},
                {"the heap is whole, and empty", valid.ok() && r.at_end.pages_in_use == 0,
                 valid.ok() ? absl::StrFormat("%d allocations, %d frees", r.at_end.allocations, r.at_end.frees)
                            : std::string(valid.message())}};
    if (r.in_other.has_value()) {
        r.checks.push_back(
            check_search_tree(absl::StrCat("search tree, in ", a.allocator).c_str(), *r.in_other, a, right));
    }
    return r;
}

std::string depths_text(const octree_result& r) {
    const std::uint64_t most = *std::ranges::max_element(r.at_depth);
    std::string text = "bodies by the depth of their cell\n";
    for (std::size_t depth = 0; depth < r.at_depth.size(); ++depth) {
        if (r.at_depth[depth] != 0) {
            absl::StrAppendFormat(&text, "  %2d  %9d  %s\n", depth, r.at_depth[depth],
                                  std::string(r.at_depth[depth] * 40 / most, '#'));
        }
    }
    return text;
}

std::string to_text(const tree_arguments& a, const tree_runs& r) {
    std::string text = absl::StrFormat(
        "search tree   %d edges between %d vertices, %d threads\n"
        "octree        %d bodies, opening %g\n"
        "device        %s (%s)\n\n",
        a.edges, a.nodes, a.threads, a.bodies, a.opening, name_of(r.device.kind), r.device.reason);
    std::vector<std::vector<std::string>> lines{
        {"microseconds", "build: first / 3rd / 10th / settled", "free: the same"},
        {"search tree, in the heap", repetitions_text(r.in_heap.times.build_us),
         repetitions_text(r.in_heap.times.free_us)},
        {"search tree, in an array", repetitions_text(r.in_array.times.build_us), "-"}};
    if (r.in_other.has_value()) {
        lines.push_back({absl::StrCat("search tree, in ", a.allocator), repetitions_text(r.in_other->times.build_us),
                         repetitions_text(r.in_other->times.free_us)});
    }
    lines.push_back(
        {"octree, in the heap", repetitions_text(r.octree.times.build_us), repetitions_text(r.octree.times.free_us)});
    absl::StrAppend(&text, detail::in_columns(lines, "lrr"));
    absl::StrAppendFormat(&text, "octree: sums %.1f, forces %.1f\n\n%s\n", r.octree.sum_us, r.octree.force_us,
                          depths_text(r.octree));
    return text;
}

ordered_json json_of(const build_times& t) { return {{"build_us", t.build_us}, {"free_us", t.free_us}}; }

ordered_json json_of(const search_tree_result& r) {
    return {{"nodes", r.nodes},
            {"edges", r.edges},
            {"spared", r.spared},
            {"left_out", r.left_out},
            {"times", json_of(r.times)}};
}

/// Returns the members of the document, without the checks.
ordered_json members(const tree_arguments& a, const tree_runs& r) {
    ordered_json other;
    if (r.in_other.has_value()) {
        other = json_of(*r.in_other);
    }
    return {{"edges", a.edges},
            {"nodes", a.nodes},
            {"threads", a.threads},
            {"bodies", a.bodies},
            {"opening", a.opening},
            {"seed", a.seed},
            {"search_tree_in_heap", json_of(r.in_heap)},
            {"search_tree_in_array", json_of(r.in_array)},
            {"allocator", a.allocator},
            {"search_tree_in_allocator", other},
            {"octree",
             {{"cells", r.octree.cells},
              {"at_depth", r.octree.at_depth},
              {"sum_us", r.octree.sum_us},
              {"force_us", r.octree.force_us},
              {"force_error", r.error},
              {"times", json_of(r.octree.times)}}},
            {"statistics", command_line::json_of(r.at_end)}};
}

void declare(CLI::App& app, tree_arguments& a) {
    app.add_option("--edges", a.edges, "Edges of the search tree's graph (1 to 1,073,741,824)")
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 30).description(""));
    app.add_option("--nodes", a.nodes, "Vertices of that graph (1 to 268,435,456)")
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(std::uint32_t{1}, std::uint32_t{1} << 28).description(""));
    app.add_option("--threads", a.threads,
                   "Threads that build (1 to 16,777,216); 256 on the emulated device, 16,384 on a GPU")
        ->type_name("N")
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 24).description(""));
    app.add_option("--bodies", a.bodies,
                   "Bodies of the octree (2 to 268,435,456); 4,096 on the emulated device, 1,048,576 on a GPU")
        ->type_name("N")
        ->check(CLI::Range(std::uint32_t{2}, std::uint32_t{1} << 28).description(""));
    app.add_option("--opening", a.opening,
                   "Width over distance below which a cell counts as one mass (0 to 0.5); 0: none does")
        ->type_name("RATIO")
        ->capture_default_str()
        ->check(CLI::Range(0.0, 0.5).description(""));
    app.add_option("--repeats", a.repeats, "Builds of each tree (1 to 10,000)")
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(1, 10'000).description(""));
    app.add_option("--allocator", a.allocator,
                   "An allocator in which the search tree is built, too; others than orchard are in the program of "
                   "docs/arena.md")
        ->type_name("NAME")
        ->capture_default_str();
    app.add_option("--seed", a.seed, "Seed of the edges and of the bodies")->type_name("N")->capture_default_str();
    command_line::add_json(app, a.json, "Write the result");
    app.add_flag("--quiet", a.quiet, "Print the checks alone, and no progress bar");
    add_to(app, a.heap);
}

command_line::subcommand tree_command() {
    const auto a = std::make_shared<tree_arguments>();
    return {"tree", "A search tree and an octree that threads build node by node", "Examples",
            [a](CLI::App& app) { declare(app, *a); }, [a] { return run_checked(*a, execute, to_text, members); }};
}

const command_line::registrar tree_command_registered{tree_command};

}  // namespace
}  // namespace orchard::examples
