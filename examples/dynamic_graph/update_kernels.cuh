// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Updates by kernels instead of batches: each thread adds or removes edges by `graph_ref`.

#include <cstdint>
#include <orchard/graph.cuh>

#include "examples/dynamic_graph/analyses_kernels.cuh"

namespace orchard::examples {

/// What a kernel did, in directions; zero before.
struct update_counts {
    word64 taken;
    word64 duplicates;  ///< there already, or, to be removed, not there
    word64 left;        ///< found no memory
};

/// Adds or removes edges, each in both directions. Threads that add the same edge are possible: one of them adds it.
template <class Property, bool Insert, class Heap>
struct change_edges {
    graph_ref<Property, Heap> graph;
    const std::uint32_t* sources;
    const std::uint32_t* targets;
    const Property* properties;  ///< null if the edges have none
    std::uint64_t count;
    update_counts* counts;

    ORCHARD_FN edge_result change(std::uint32_t u, std::uint32_t v, std::uint64_t i) const {
        if constexpr (!Insert) {
            return graph.erase(u, v);
        } else {
            return graph.insert(u, v, properties == nullptr ? Property{} : properties[i]);
        }
    }
    ORCHARD_FN void operator()(simt::thread_position at) const {
        std::uint64_t taken = 0;
        std::uint64_t duplicates = 0;
        std::uint64_t left = 0;
        for (std::uint64_t i = at.global_thread(); i < count; i += at.threads()) {
            const std::uint32_t u = sources[i];
            const std::uint32_t v = targets[i];
            const edge_result there = change(u, v, i);
            const edge_result back = change(v, u, i);
            taken += (there == edge_result::done ? 1 : 0) + (back == edge_result::done ? 1 : 0);
            duplicates += (there == edge_result::no_change ? 1 : 0) + (back == edge_result::no_change ? 1 : 0);
            left += (there == edge_result::no_memory ? 1 : 0) + (back == edge_result::no_memory ? 1 : 0);
        }
        if (taken + duplicates + left != 0) {
            counts->taken.fetch_add<simt::order::relaxed>(taken);
            counts->duplicates.fetch_add<simt::order::relaxed>(duplicates);
            counts->left.fetch_add<simt::order::relaxed>(left);
        }
    }
};

}  // namespace orchard::examples
