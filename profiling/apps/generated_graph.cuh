// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A random graph as a function of the seed: any thread computes any neighbour, so that a graph of any size is made on
/// the device, and checked without reading what kernels have read.
///
/// Each vertex has eight neighbours, one in each of eight random matchings. Matching j pairs the vertices that are next
/// to each other in a random order of all vertices:
///
///     order of matching j      4 1 | 0 5 | 3 2         4 and 1 are neighbours, 0 and 5, 3 and 2
///     place(j, 5) = 3          neighbour(5, j) = at_place(j, 3 ^ 1) = 0
///
/// Edges thus lead both ways. If the number of vertices is odd, each matching leaves one vertex, which then is its own
/// neighbour. Two vertices may be neighbours several times. All lists have one length, unlike those of the recorded
/// applications' graphs, which are of a power law.

#include <cstdint>

#include "device/simt/random.hpp"
#include "profiling/apps/app_run.cuh"
#include "profiling/uvm/applications/graph_view.cuh"

namespace orchard::apps {

/// The graph, as kernels get it.
struct random_graph {
    static constexpr std::uint32_t degree = 8;

    std::uint64_t seed;
    std::uint64_t vertices;
    std::uint32_t half_bits;  ///< the orders are made by permutations of numbers of twice as many bits

    /// Returns the neighbour of `v` in matching `j`. Cost: 8 to 32 hashes.
    [[nodiscard]] ORCHARD_FN std::uint32_t neighbour(std::uint64_t v, std::uint32_t j) const {
        const std::uint64_t other = place(j, v) ^ 1;
        return static_cast<std::uint32_t>(other < vertices ? at_place(j, other) : v);
    }
    /// Return the place of a vertex in the order of matching `j`, and the vertex at a place.
    [[nodiscard]] ORCHARD_FN std::uint64_t place(std::uint32_t j, std::uint64_t v) const {
        // Until the number is one of a vertex: the cycle of `v` in the permutation leads back to `v` at the latest.
        do {
            v = permuted(j, v);
        } while (v >= vertices);
        return v;
    }
    [[nodiscard]] ORCHARD_FN std::uint64_t at_place(std::uint32_t j, std::uint64_t v) const {
        do {
            v = permuted_back(j, v);
        } while (v >= vertices);
        return v;
    }

private:
    static constexpr std::uint32_t rounds = 4;  // of a Feistel network

    [[nodiscard]] ORCHARD_FN std::uint64_t permuted(std::uint32_t j, std::uint64_t v) const {
        std::uint64_t left = v >> half_bits;
        std::uint64_t right = v & mask();
        for (std::uint32_t r = 0; r < rounds; ++r) {
            const std::uint64_t next = left ^ hash(j, r, right);
            left = right;
            right = next;
        }
        return left << half_bits | right;
    }
    [[nodiscard]] ORCHARD_FN std::uint64_t permuted_back(std::uint32_t j, std::uint64_t v) const {
        std::uint64_t left = v >> half_bits;
        std::uint64_t right = v & mask();
        for (std::uint32_t r = rounds; r-- > 0;) {
            const std::uint64_t before = right ^ hash(j, r, left);
            right = left;
            left = before;
        }
        return left << half_bits | right;
    }
    [[nodiscard]] ORCHARD_FN std::uint64_t hash(std::uint32_t j, std::uint32_t r, std::uint64_t half) const {
        return simt::mix64(seed + ((std::uint64_t{j} * rounds + r) << 32 | half)) >> 32 & mask();
    }
    [[nodiscard]] ORCHARD_FN std::uint64_t mask() const { return (std::uint64_t{1} << half_bits) - 1; }
};

// Initial values of the arrays of a graph.

/// Where the list of a vertex begins.
struct list_begin {
    std::uint64_t vertices;
    ORCHARD_FN std::uint64_t operator()(std::uint64_t v) const {
        return random_graph::degree * (v < vertices ? v : vertices);
    }
};
/// The neighbours of all vertices, list after list; 0 behind them.
struct list_entry {
    random_graph graph;
    ORCHARD_FN std::uint32_t operator()(std::uint64_t e) const {
        const std::uint64_t v = e / random_graph::degree;
        return v < graph.vertices ? graph.neighbour(v, static_cast<std::uint32_t>(e % random_graph::degree)) : 0;
    }
};

/// Bytes of a vertex in these arrays.
inline constexpr std::uint64_t list_bytes = 8 + 4 * random_graph::degree;

/// Returns the graph of `vertices`; records an error if they are too many for 32 bits.
inline random_graph make_graph(app_run& s, std::uint64_t vertices) {
    if (vertices >= ~std::uint32_t{0}) {
        s.fail(absl::InvalidArgumentError("too many vertices for 32 bits: fewer bytes"));
    }
    std::uint32_t half_bits = 1;
    while (std::uint64_t{1} << (2 * half_bits) < vertices && half_bits < 16) {
        ++half_bits;
    }
    return {simt::mix64(s.seed()), vertices, half_bits};
}

/// Returns the graph in the threads' memory.
inline applications::graph_view<std::uint64_t> deal_graph(app_run& s, const random_graph& graph) {
    return {s.array<wide>(graph.vertices + 1, 1, list_begin{graph.vertices}),
            s.array<index>(graph.vertices * random_graph::degree, random_graph::degree, list_entry{graph})};
}

}  // namespace orchard::apps
