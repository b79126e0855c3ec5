// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The builds of a search tree, in any memory.

#include "examples/report/kernel_steps.hpp"
#include "examples/trees/tree_run.hpp"
#include "runtime/nvtx/phase.hpp"

namespace orchard::examples {

/// Copies one object from device memory. Words of the device are copied as the numbers in them.
template <class T>
absl::Status read(const simt::executor& on, T& to, const T* from) {
    return copy_to_host(on, &to, from, sizeof(T));
}

/// Builds, reads and frees the tree, `repeats` times. `before` makes the memory empty.
template <class Memory, class Before>
absl::Status repeat_search_tree(const simt::executor& on, const Memory& memory, const Before& before,
                                std::span<const key_pair> input, std::uint32_t keys, std::uint64_t threads, int repeats,
                                command_line::progress& bar, search_tree_result& result) {
    device_array<key_pair> edges;
    device_array<search_tree> tree;
    device_array<search_node*> made;
    device_array<key_record> records;
    absl::Status status;
    status.Update(make(on, input.size(), edges));
    status.Update(make(on, 1, tree));
    status.Update(make(on, threads, made));
    status.Update(make(on, keys, records));
    status.Update(status.ok() ? edges.upload(input) : status);
    bar.begin("building search trees", static_cast<std::uint64_t>(repeats));
    for (int i = 0; i < repeats && status.ok(); ++i) {
        status.Update(before());
        status.Update(tree.zero());
        double build_us = 0;
        double free_us = 0;
        double other_us = 0;
        if (status.ok()) {
            const nvtx::phase marked(nvtx::phase::build, input.size());
            status.Update(
                run(on, simt::grid_for(threads),
                    build_search_tree<Memory>{memory, edges.data(), input.size(), threads, tree.data(), made.data()},
                    build_us));
        }
        if (status.ok()) {
            const nvtx::phase marked(nvtx::phase::compute, keys);
            status.Update(run(on, simt::grid_for(keys), read_search_tree{tree.data(), keys, records.data()}, other_us));
        }
        if (status.ok()) {
            const nvtx::phase marked(nvtx::phase::free);
            status.Update(
                run(on, simt::grid_for(threads), free_search_tree<Memory>{memory, threads, made.data()}, free_us));
        }
        result.times.build_us.push_back(build_us);
        result.times.free_us.push_back(free_us);
        bar.add(1);
    }
    bar.clear();
    search_tree last{};
    result.keys.resize(keys);
    status.Update(status.ok() ? read(on, last, tree.data()) : status);
    status.Update(status.ok() ? records.download(result.keys) : status);
    result.nodes = last.nodes.load<order::relaxed>();
    result.edges = last.edges.load<order::relaxed>();
    result.spared = last.spared.load<order::relaxed>();
    result.left_out = last.no_memory.load<order::relaxed>();
    return status;
}

}  // namespace orchard::examples
