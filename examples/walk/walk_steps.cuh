// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The phases of the walk, for any allocator; see walk_run.hpp.
///
///     run_walk_in
///       check_memory, load_kernels    before anything is allocated
///       insert_and_walk            phases insert, walk
///       check_all                  phases check adjacency, check walks: result.checks
///       free_and_check             phase free: result.checks, statistics
///
/// A check that fails is a result, and the run goes on. If the adjacency is wrong, the walks are not checked. An error
/// ends the run: it returns the error, with the heap's own report of its first failure.

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "examples/graph/host_memory.hpp"
#include "examples/graph/parallel.hpp"
#include "examples/walk/checks.hpp"
#include "examples/walk/walk_runner.cuh"
#include "runtime/cli/progress.hpp"
#include "runtime/heap/heap.hpp"
#include "runtime/heap/launch_status.hpp"
#include "runtime/nvtx/phase.hpp"

namespace orchard::examples {

/// Checks the host memory of the run: the edges in two orders, both adjacencies, the counts, and the memory that an
/// emulated device uses in addition to the heap.
inline absl::Status check_memory(const simt::executor& on, const edge_list& graph, const walk_options& options) {
    const std::uint64_t edges = graph.edges.size();
    const std::uint64_t vertices = graph.vertices;
    // Two orders of the edges; two adjacencies of two entries an edge; per vertex two offsets, a visit count of the
    // host and one of the device, and a working copy.
    std::uint64_t bytes = edges * (2 * sizeof(edge) + 4 * sizeof(std::uint32_t)) + vertices * 40;
    if (on.kind == simt::device_kind::emulated) {
        // On the emulated device the plain device memory is the host's, too.
        bytes += vertices * (sizeof(vertex_record) + 16) + options.walkers * sizeof(walker_record);
        bytes += edges * 2 * sizeof(std::uint32_t);
    }
    return check_host_memory(bytes, absl::StrFormat("the walk on %u vertices and %u edges with %u walkers", vertices,
                                                    edges, options.walkers));
}

/// Returns `status` with the heap's report of its first failure appended.
inline absl::Status explained(heap* h, const absl::Status& status) {
    const std::optional<failure> first = h == nullptr ? std::nullopt : h->first_failure();
    if (status.ok() || !first) {
        return status;
    }
    return absl::Status(status.code(), absl::StrCat(status.message(), "; ", to_text(*first)));
}

/// Loads the walk's kernels before memory is requested, so that loading is not part of the measured phases.
template <class View>
absl::Status load_kernels(const simt::executor& on) {
    absl::Status s;
    const auto load = [&]<class... Kernels>() { (s.Update(to_status(simt::preload<Kernels>(on))), ...); };
    load.template operator()<insert_edges<View>, walk_graph<View>, pack_adjacency, gather_walks<View>, free_logs<View>,
                             free_walks<View>, free_adjacency<View>>();
    return s;
}

/// Runs `body` as a phase, which is recorded in the result also if it fails. `body` gets the phase, to which it adds
/// the time of kernels and the number of items.
template <class Body>
absl::Status in_phase(walk_result& result, const char* name, const char* unit, const Body& body) {
    phase measured;
    measured.name = name;
    measured.unit = unit;
    const std::string_view called = name;
    const nvtx::phase marked(called == "insert" ? nvtx::phase::build
                             : called == "free" ? nvtx::phase::free
                                                : nvtx::phase::compute);
    const stopwatch time;
    absl::Status s = body(measured);
    measured.seconds = time.seconds();
    result.phases.push_back(std::move(measured));
    return s;
}

/// Moves the value of `made` into `value`, or returns its error.
template <class To, class T>
absl::Status keep(To& value, absl::StatusOr<T> made) {
    if (!made.ok()) {
        return made.status();
    }
    value = *std::move(made);
    return absl::OkStatus();
}

/// Inserts the edges in random order, and walks. The number of visits is read back as the walk's number of items.
template <class View>
absl::Status insert_and_walk(walk_runner<View>& device, const edge_list& graph, const walk_options& options,
                             command_line::progress& bar, walk_result& result) {
    absl::Status s = in_phase(result, "insert", "insertions",
                              [&](phase& p) { return device.insert(shuffled(graph.edges, options.seed), p, bar); });
    if (!s.ok()) {
        return s;
    }
    return in_phase(result, "walk", "visits", [&](phase& p) {
        absl::Status walked = device.walk(p, bar);
        std::vector<std::uint64_t> visits;
        walked.Update(keep(visits, device.copy_visits()));
        for (const std::uint64_t n : visits) {
            p.items += n;
        }
        return walked;
    });
}

/// Checks the adjacency, and then the walks. The second check needs the first one's copies: the input, sorted, tells
/// whether a step is an edge; the device's own lists, in their order, give the same walk on the host.
template <class View>
absl::Status check_all(walk_runner<View>& device, const edge_list& graph, command_line::progress& bar,
                       walk_result& result) {
    host_graph input;
    host_graph copied;
    absl::Status s = in_phase(result, "check adjacency", "neighbours", [&](phase& p) {
        absl::Status made = keep(input, make_host_graph(graph));
        if (made.ok()) {
            made.Update(keep(copied, device.copy_adjacency(p)));
        }
        if (made.ok()) {
            result.checks.push_back(check_adjacency(input, copied));
        }
        return made;
    });
    if (!s.ok() || !result.checks.back().passed) {
        return s;  // the lists that the walks followed are wrong
    }
    // Of the input, which equals the device's adjacency by now.
    result.max_degree = input.max_degree();
    return in_phase(result, "check walks", "visits", [&](phase& p) {
        walk_checker checker(input, copied, device.rule());
        absl::Status looked = device.for_each_slice(
            [&](const walk_slice& slice) {
                // The walks of a slice lie in host memory now: all cores check them.
                parallel_for(slice.walkers.size(), [&](std::uint64_t i) {
                    checker.add(slice.first + i, {slice.walks[i], slice.walkers[i].size});
                });
            },
            p, bar);
        std::vector<std::uint64_t> visits;
        looked.Update(keep(visits, device.copy_visits()));
        if (looked.ok()) {
            result.checks.push_back(checker.every_step_an_edge());
            result.checks.push_back(checker.visits_equal(visits));
        }
        return looked;
    });
}

/// Frees all lists. A heap is trimmed and checked: the trim retires empty slabs and returns all segments to the host.
/// @param h  null: the lists are in another allocator
template <class View>
absl::Status free_and_check(walk_runner<View>& device, heap* h, walk_result& result) {
    if (h == nullptr) {
        return in_phase(result, "free", "lists", [&](phase& p) { return device.free_all(p); });
    }
    if (absl::Status s = keep(result.before_freeing, h->stats()); !s.ok()) {
        return s;
    }
    absl::Status s = in_phase(result, "free", "lists", [&](phase& p) {
        absl::Status freed = device.free_all(p);
        if (freed.ok()) {
            freed.Update(h->trim());
        }
        return freed;
    });
    if (s.ok()) {
        s.Update(keep(result.at_end, h->stats()));
    }
    if (s.ok()) {
        for (check& c : check_heap(*result.at_end, h->validate())) {
            result.checks.push_back(std::move(c));
        }
    }
    return s;
}

/// Runs the walk in memory of the view's allocator. A graph without edges is an error of the caller: no walk would show
/// anything.
/// @param h  the heap of the view; null: another allocator, which has no statistics and no map
template <class View>
absl::StatusOr<walk_result> run_walk_in(const simt::executor& on, const View& view, heap* h, const edge_list& graph,
                                        const walk_options& options, command_line::progress& bar) {
    if (graph.edges.empty()) {
        return absl::InvalidArgumentError(
            absl::StrFormat("the graph of %u vertices has no edges to walk along; give one that has", graph.vertices));
    }
    // `Update` keeps the first error, and each phase runs only if all before it succeeded.
    absl::Status s = check_memory(on, graph, options);
    if (s.ok()) {
        s.Update(load_kernels<View>(on));
    }
    if (!s.ok()) {
        return s;
    }
    auto device = walk_runner<View>::create(on, view, graph.vertices, options);
    if (!device.ok()) {
        return device.status();
    }
    walk_result result;
    s.Update(insert_and_walk(*device, graph, options, bar, result));
    if (s.ok()) {
        s.Update(check_all(*device, graph, bar, result));
    }
    if (s.ok() && h != nullptr && !options.dump.empty()) {
        s.Update(h->dump(options.dump));
    }
    if (s.ok()) {
        s.Update(free_and_check(*device, h, result));
    }
    bar.clear();
    if (!s.ok()) {
        return explained(h, s);
    }
    return result;
}

}  // namespace orchard::examples
