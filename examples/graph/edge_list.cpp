// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// From the entries of an input to a set of edges: sorted, without self-loops and duplicates; see edge_list.hpp.
///
///     input      2-1   0-0   0-2   1-2
///     entries    (1,2) (0,0) (0,2) (1,2)      `edge::between` puts the lower end first
///     sorted     (0,2) (1,2) (1,2)            the self-loop is dropped before the sort
///     edges      (0,2) (1,2)                  a duplicate lies behind its equal

#include "examples/graph/edge_list.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <utility>

#include "device/simt/random.hpp"

namespace orchard::examples {

namespace {

constexpr int digit_bits = 11;  // 2048 counters and as many open output lines fit the first-level cache
// From this many edges on the radix sort is used; a short list does not pay for its counters.
constexpr std::size_t radix_from = 1u << 16;

/// One pass of the radix sort: stable by the digit at `shift`. It counts the edges of each digit, turns the counts into
/// the places where each digit's edges begin, and moves each edge to its place. Cost: reads `from` twice, writes `to`
/// once.
void sort_by_digit(const std::vector<edge>& from, std::vector<edge>& to, int shift) {
    constexpr std::uint64_t digit_mask = (1u << digit_bits) - 1;
    std::array<std::size_t, 1u << digit_bits> place{};
    for (const edge e : from) {
        ++place[(e.key >> shift) & digit_mask];
    }
    std::size_t sum = 0;
    for (std::size_t& p : place) {
        sum += std::exchange(p, sum);
    }
    for (const edge e : from) {
        to[place[(e.key >> shift) & digit_mask]++] = e;
    }
}

/// Sorts the edges, by the bits that a vertex number below `vertices` can have: the bits above are 0 in all of them.
///
///     65,536 vertices, 16 bits an end:    digits at bits 0 and 11 (high vertex), 32 and 43 (low vertex): 4 passes
///
/// The last digit of an end may reach into other bits. Those of the high vertex's last digit are sorted again by the
/// passes of the low vertex, and those above are 0.
void sort_edges(std::vector<edge>& edges, std::uint32_t vertices) {
    if (edges.size() < radix_from) {
        std::sort(edges.begin(), edges.end());
        return;
    }
    std::vector<edge> other(edges.size());
    const int vertex_bits = std::bit_width(vertices - 1);
    for (const int half : {0, 32}) {
        for (int bit = 0; bit < vertex_bits; bit += digit_bits) {
            sort_by_digit(edges, other, half + bit);
            edges.swap(other);
        }
    }
}

}  // namespace

edge_list make_edge_list(std::uint32_t vertices, std::vector<edge> edges) {
    edge_list list;
    list.vertices = vertices;
    list.entries = edges.size();
    std::erase_if(edges, [](edge e) { return e.low() == e.high(); });
    list.self_loops = list.entries - edges.size();
    sort_edges(edges, vertices);
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    list.duplicates = list.entries - list.self_loops - edges.size();
    list.edges = std::move(edges);
    return list;
}

edge_list make_edge_list(std::uint32_t vertices, std::vector<edge> edges, const std::vector<double>& weights) {
    if (weights.empty()) {
        return make_edge_list(vertices, std::move(edges));
    }
    std::vector<std::size_t> order(edges.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return edges[i].key; });
    edge_list list;
    list.vertices = vertices;
    list.entries = edges.size();
    for (const std::size_t i : order) {
        const edge e = edges[i];
        if (e.low() == e.high()) {
            ++list.self_loops;
        } else if (!list.edges.empty() && list.edges.back() == e) {
            ++list.duplicates;
        } else {
            list.edges.push_back(e);
            list.weights.push_back(weights[i]);
        }
    }
    return list;
}

std::vector<edge> shuffled(const std::vector<edge>& edges, std::uint64_t seed) {
    std::vector<edge> result = edges;
    // Fisher-Yates: each order is equally likely, as far as the random numbers go.
    for (std::size_t i = result.size(); i > 1; --i) {
        // Random numbers have 64 bits, so the modulo's bias is below 2^-24 for any list that fits a machine.
        std::swap(result[i - 1], result[simt::random_bits(seed, 0, i) % i]);
    }
    return result;
}

}  // namespace orchard::examples
