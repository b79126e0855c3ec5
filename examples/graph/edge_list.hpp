// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A graph as a set of undirected edges: what the readers and the generator give, and the walk's device input.

#include <compare>
#include <cstdint>
#include <vector>

#include "device/simt/config.cuh"

namespace orchard::examples {

/// Most vertices of a graph: a vertex is a 32-bit number, and the last one is left free to mean "none".
inline constexpr std::uint64_t max_vertices = 0xffffffffull;

/// An undirected edge in one word, so that a list of them is sorted as integers and copied to the device as it is.
///
///     63            32 31             0
///     [  low vertex   |  high vertex  ]       low < high in an edge_list
struct edge {
    std::uint64_t key;

    /// The edge between `a` and `b`, in either order.
    static ORCHARD_FN constexpr edge between(std::uint32_t a, std::uint32_t b) {
        return a < b ? edge{(std::uint64_t{a} << 32) | b} : edge{(std::uint64_t{b} << 32) | a};
    }
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t low() const { return static_cast<std::uint32_t>(key >> 32); }
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t high() const { return static_cast<std::uint32_t>(key); }
    friend constexpr auto operator<=>(const edge&, const edge&) = default;
};

/// Vertices 0 to `vertices` - 1 and the edges between them: ascending, none twice, no self-loop.
struct edge_list {
    std::uint32_t vertices = 0;
    std::vector<edge> edges;
    std::uint64_t entries = 0;     ///< edges that the input named, before the next two were dropped
    std::uint64_t self_loops = 0;  ///< entries dropped because both ends were the same vertex
    std::uint64_t duplicates = 0;  ///< entries dropped because the edge was there already, in either direction
};

/// Makes the set of what an input named: drops self-loops and duplicates and counts them.
/// Every end of `edges` must be below `vertices`. Cost: a radix sort; time linear in the edges, memory twice theirs.
edge_list make_edge_list(std::uint32_t vertices, std::vector<edge> edges);

/// The same edges in an order that depends on `seed` alone.
std::vector<edge> shuffled(const std::vector<edge>& edges, std::uint64_t seed);

}  // namespace orchard::examples
