// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "examples/graph/edge_list.hpp"

namespace orchard::examples::test {

/// 0 - 1 - 2 - ... - (vertices - 1).
inline edge_list path(std::uint32_t vertices) {
    std::vector<edge> edges;
    for (std::uint32_t v = 0; v + 1 < vertices; ++v) {
        edges.push_back(edge::between(v, v + 1));
    }
    return make_edge_list(vertices, std::move(edges));
}

/// Vertex 0 joined with each other one; then `alone` vertices without an edge.
inline edge_list star(std::uint32_t leaves, std::uint32_t alone = 0) {
    std::vector<edge> edges;
    for (std::uint32_t v = 1; v <= leaves; ++v) {
        edges.push_back(edge::between(0, v));
    }
    return make_edge_list(leaves + 1 + alone, std::move(edges));
}

}  // namespace orchard::examples::test
