// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The check of a graph, and the generator of power-law graphs; see graph.hpp.
///
///     random_bits(seed, of_ends, 2 i)      one end of edge i  --skewed--> a rank --order--> a vertex
///     random_bits(seed, of_ends, 2 i + 1)  the other end
///
/// Ranks near 0 are drawn far more often than others. `order` spreads them over all vertices, so that a vertex's number
/// says nothing about its degree.

#include "uvm/model/graph.hpp"

#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"
#include "device/simt/random.hpp"

namespace orchard::uvm_model {

namespace {

// Streams of random numbers.
constexpr std::uint64_t of_order = 1;
constexpr std::uint64_t of_ends = 2;

/// Returns a number r < `n` with a probability proportional to (r + 1)^(-2/3): n times the cube of a uniform number.
/// Each `below` multiplies two numbers in [0, 1), given as fractions of 2^64.
std::uint64_t skewed(std::uint64_t bits, std::uint64_t n) {
    return simt::below64(simt::below64(simt::below64(bits, bits), bits), n);
}

/// Returns the vertex of each rank: a random permutation (Fisher-Yates).
std::vector<std::uint32_t> shuffled(std::uint64_t n, std::uint64_t seed) {
    std::vector<std::uint32_t> order(n);
    std::iota(order.begin(), order.end(), 0u);
    for (std::uint64_t i = n - 1; i > 0; --i) {
        std::swap(order[i], order[simt::below64(simt::random_bits(seed, of_order, i), i + 1)]);
    }
    return order;
}

}  // namespace

absl::Status validate(const csr& graph) {
    if (graph.to.empty() || graph.begin.size() < 2 || graph.begin.front() != 0 || graph.begin.back() != graph.edges()) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "a graph of %d vertices and %d edges whose lists do not cover them", graph.vertices(), graph.edges()));
    }
    // With the first and the last position right and all lists ascending, every position lies inside `to`.
    for (std::uint64_t v = 0; v < graph.vertices(); ++v) {
        if (graph.begin[v] > graph.begin[v + 1]) {
            return absl::InvalidArgumentError(absl::StrFormat("the list of vertex %d ends before it begins", v));
        }
    }
    for (std::uint64_t e = 0; e < graph.edges(); ++e) {
        if (graph.to[e] >= graph.vertices()) {
            return absl::InvalidArgumentError(
                absl::StrFormat("edge %d leads to vertex %d, and there are %d", e, graph.to[e], graph.vertices()));
        }
    }
    return absl::OkStatus();
}

absl::StatusOr<csr> power_law(std::uint64_t vertices, std::uint64_t edges, std::uint64_t seed) {
    if (vertices < 2 || vertices >= ~std::uint32_t{0}) {
        return absl::InvalidArgumentError(
            absl::StrFormat("a graph of %d vertices: 2 to 2^32 - 2 can be made", vertices));
    }
    if (edges < 2 || edges > max_generated_edges) {
        return absl::InvalidArgumentError(
            absl::StrFormat("a graph of %d edges: 2 to %d can be made; with larger "
                            "elements there are fewer",
                            edges, max_generated_edges));
    }
    const std::vector<std::uint32_t> order = shuffled(vertices, seed);
    // Returns the two ends of edge i. A vertex that was drawn for both is replaced by the next rank at one end.
    const auto ends_of = [&](std::uint64_t i) {
        const std::uint64_t from = skewed(simt::random_bits(seed, of_ends, 2 * i), vertices);
        const std::uint64_t to = skewed(simt::random_bits(seed, of_ends, 2 * i + 1), vertices);
        return std::pair{order[from], order[to != from ? to : (to + 1) % vertices]};
    };
    // Edges are drawn twice instead of being stored: once for the lengths of the lists, once to fill them.
    csr graph;
    graph.begin.assign(vertices + 1, 0);
    for (std::uint64_t i = 0; i < edges / 2; ++i) {
        const auto [a, b] = ends_of(i);
        ++graph.begin[a + std::uint64_t{1}];
        ++graph.begin[b + std::uint64_t{1}];
    }
    // The lengths, each one place late, become the beginnings of the lists.
    std::partial_sum(graph.begin.begin(), graph.begin.end(), graph.begin.begin());
    // next[v]: the first entry of the list of v that is not filled yet.
    std::vector<std::uint64_t> next(graph.begin.begin(), graph.begin.end() - 1);
    graph.to.resize(edges / 2 * 2);
    for (std::uint64_t i = 0; i < edges / 2; ++i) {
        const auto [a, b] = ends_of(i);
        graph.to[next[a]++] = b;
        graph.to[next[b]++] = a;
    }
    return graph;
}

}  // namespace orchard::uvm_model
