// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "examples/trees/tree_run.hpp"

#include "examples/report/kernel_steps.hpp"
#include "examples/trees/bump_memory.cuh"
#include "examples/trees/tree_steps.cuh"
#include "runtime/nvtx/phase.hpp"

namespace orchard::examples {

absl::StatusOr<search_tree_result> run_search_tree(heap& h, std::uint64_t bump_bytes, std::span<const key_pair> edges,
                                                   std::uint32_t keys, std::uint64_t threads, int repeats,
                                                   command_line::progress& bar) {
    const simt::executor on = timed(h.executor());
    search_tree_result result;
    absl::Status status;
    if (bump_bytes == 0) {
        status.Update(h.preload<build_search_tree<heap_ref>, free_search_tree<heap_ref>>());
        status.Update(repeat_search_tree(
            on, h.ref(), [] { return absl::OkStatus(); }, edges, keys, threads, repeats, bar, result));
    } else {
        auto memory = device_array<char>::create(on, bump_bytes);
        auto taken = device_array<simt::device_word<std::uint64_t>>::create(on, 1);
        status.Update(memory.status());
        status.Update(taken.status());
        if (status.ok()) {
            status.Update(repeat_search_tree(
                on, bump_memory{memory->data(), bump_bytes, taken->data()}, [&] { return taken->zero(); }, edges, keys,
                threads, repeats, bar, result));
        }
        result.times.free_us.clear();
    }
    return status.ok() ? absl::StatusOr<search_tree_result>(std::move(result)) : status;
}

absl::StatusOr<octree_result> run_octree(heap& h, std::span<const body> input, std::uint32_t threads, double opening,
                                         double softening, int repeats, command_line::progress& bar) {
    const simt::executor on = timed(h.executor());
    const auto count = static_cast<std::uint32_t>(input.size());
    device_array<body> bodies;
    device_array<octree> tree;
    device_array<std::uint32_t> same;
    device_array<octree_cell*> made;
    device_array<force> forces;
    absl::Status status = h.preload<build_octree<heap_ref>, sum_octree, pull_bodies, free_octree<heap_ref>>();
    status.Update(make(on, count, bodies));
    status.Update(make(on, 1, tree));
    status.Update(make(on, count, same));
    status.Update(make(on, threads, made));
    status.Update(make(on, count, forces));
    status.Update(status.ok() ? bodies.upload(input) : status);
    octree_result result;
    octree last{};
    bar.begin("building octrees", static_cast<std::uint64_t>(repeats));
    for (int i = 0; i < repeats && status.ok(); ++i) {
        status.Update(tree.zero());
        double build_us = 0;
        double free_us = 0;
        if (status.ok()) {
            const nvtx::phase marked(nvtx::phase::build, count);
            status.Update(run(
                on, simt::grid_for(threads),
                build_octree<heap_ref>{h.ref(), bodies.data(), count, threads, tree.data(), same.data(), made.data()},
                build_us));
        }
        if (i + 1 == repeats && status.ok()) {
            const nvtx::phase marked(nvtx::phase::compute, count);
            status.Update(run(on, simt::grid_for(count), sum_octree{bodies.data(), count, tree.data()}, result.sum_us));
            status.Update(
                run(on, simt::grid_for(count, 128),
                    pull_bodies{bodies.data(), count, tree.data(), same.data(), opening, softening, forces.data()},
                    result.force_us));
        }
        status.Update(status.ok() ? read(on, last, tree.data()) : status);
        if (status.ok()) {
            const nvtx::phase marked(nvtx::phase::free);
            status.Update(
                run(on, simt::grid_for(threads), free_octree<heap_ref>{h.ref(), made.data(), threads}, free_us));
        }
        result.times.build_us.push_back(build_us);
        result.times.free_us.push_back(free_us);
        bar.add(1);
    }
    bar.clear();
    result.forces.resize(count);
    status.Update(status.ok() ? forces.download(result.forces) : status);
    result.cells = last.cells.load<order::relaxed>();
    result.bodies = last.root.bodies.load<order::relaxed>();
    result.left_out = last.no_memory.load<order::relaxed>();
    for (const auto& n : last.at_depth) {
        result.at_depth.push_back(n.load<order::relaxed>());
    }
    return status.ok() ? absl::StatusOr<octree_result>(std::move(result)) : status;
}

}  // namespace orchard::examples
