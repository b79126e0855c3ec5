// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A graph as a set of undirected edges: the result of the readers and of the generator, and the input of the walk on
/// the device.

#include <compare>
#include <cstdint>
#include <vector>

#include "device/simt/config.cuh"

namespace orchard::examples {

/// The largest number of vertices of a graph. A vertex is a 32-bit number, and the largest number means "none".
inline constexpr std::uint64_t max_vertices = 0xffffffffull;

/// An undirected edge in one word, so that a list of them is sorted as integers and copied to the device as it is.
///
///     63            32 31             0
///     [  low vertex   |  high vertex  ]       low < high in an edge_list
struct edge {
    std::uint64_t key;

    /// Returns the edge between `a` and `b`, which may be in either order.
    static ORCHARD_FN constexpr edge between(std::uint32_t a, std::uint32_t b) {
        return a < b ? edge{(std::uint64_t{a} << 32) | b} : edge{(std::uint64_t{b} << 32) | a};
    }
    /// Return the two ends, the lower one first.
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t low() const { return static_cast<std::uint32_t>(key >> 32); }
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t high() const { return static_cast<std::uint32_t>(key); }
    friend constexpr auto operator<=>(const edge&, const edge&) = default;
    // By itself: nvcc loses the one that the line above implies.
    friend constexpr bool operator==(const edge& a, const edge& b) { return a.key == b.key; }
};

/// Vertices 0 to `vertices` - 1 and the edges between them: in ascending order, without duplicates and self-loops.
struct edge_list {
    std::uint32_t vertices = 0;    ///< also those without edges
    std::vector<edge> edges;       ///< ascending by (low, high)
    std::vector<double> weights;   ///< of the edges; empty if the input has none, or they were not asked for
    std::uint64_t entries = 0;     ///< edges in the input, including those that are counted below
    std::uint64_t self_loops = 0;  ///< entries dropped because both ends were the same vertex
    std::uint64_t duplicates = 0;  ///< entries dropped because the edge was there already, in either direction
};

/// Returns the set of the edges of an input: drops self-loops and duplicates and counts them. Every end of `edges` must
/// be below `vertices`. Cost: a sort, on all cores from a million edges on; it takes twice their memory.
edge_list make_edge_list(std::uint32_t vertices, std::vector<edge> edges);

/// The same of edges with weights, as many or none. Of duplicates, the first one's weight counts. Cost with weights: a
/// stable sort.
edge_list make_edge_list(std::uint32_t vertices, std::vector<edge> edges, const std::vector<double>& weights);

/// Returns the edges in a random order that depends on `seed` alone. The walk inserts them so: in the order of the
/// list, all edges of a vertex would meet at its list at the same time. Cost: a second list of the same length; all
/// cores from a million edges on.
std::vector<edge> shuffled(const std::vector<edge>& edges, std::uint64_t seed);

}  // namespace orchard::examples
