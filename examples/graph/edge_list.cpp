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
#include "examples/graph/parallel.hpp"

namespace orchard::examples {

namespace {

// Buckets of a large list: each of them fits a second-level cache, up to 500 million edges.
constexpr int bucket_bits = 11;
// From this many edges on a list has buckets.
constexpr std::size_t large_from = 1u << 20;

/// Moves each edge to its bucket, on all cores. Edges of a bucket stay in their order. Returns where each bucket begins
/// in `to`, and the end of the last.
///
///     pieces of `from`      | piece 0        | piece 1        | ...     each counted, then moved, by one thread
///     places in `to`        | bucket 0: of piece 0, of piece 1, ... | bucket 1: of piece 0, ... |
///
/// @param bucket_of  returns the bucket of edge number i, below 2^bucket_bits
/// Cost: reads `from` twice, writes `to` once.
template <class BucketOf>
std::vector<std::size_t> move_to_buckets(const std::vector<edge>& from, std::vector<edge>& to,
                                         const BucketOf& bucket_of) {
    constexpr std::size_t buckets = 1u << bucket_bits;
    constexpr std::size_t pieces = 64;
    const auto first_of = [&](std::size_t piece) { return from.size() / pieces * piece; };
    const auto end_of = [&](std::size_t piece) { return piece + 1 == pieces ? from.size() : first_of(piece + 1); };
    std::vector<std::array<std::size_t, buckets>> place(pieces);
    parallel_for(
        pieces,
        [&](std::size_t piece) {
            for (std::size_t i = first_of(piece); i < end_of(piece); ++i) {
                ++place[piece][bucket_of(i)];
            }
        },
        1);
    std::vector<std::size_t> begins(buckets + 1);
    std::size_t sum = 0;
    for (std::size_t b = 0; b < buckets; ++b) {
        begins[b] = sum;
        for (auto& of_piece : place) {
            sum += std::exchange(of_piece[b], sum);
        }
    }
    begins[buckets] = sum;
    parallel_for(
        pieces,
        [&](std::size_t piece) {
            for (std::size_t i = first_of(piece); i < end_of(piece); ++i) {
                to[place[piece][bucket_of(i)]++] = from[i];
            }
        },
        1);
    return begins;
}

/// Calls `body(begin, end)` for each bucket, on all cores.
template <class Body>
void for_each_bucket(const std::vector<std::size_t>& begins, const Body& body) {
    parallel_for(
        begins.size() - 1, [&](std::size_t b) { body(begins[b], begins[b + 1]); }, 1);
}

/// Sorts the edges, whose ends are below `vertices`. Large lists go to buckets by the highest bits of their lower ends.
void sort_edges(std::vector<edge>& edges, std::uint32_t vertices) {
    if (edges.size() < large_from) {
        std::sort(edges.begin(), edges.end());
        return;
    }
    std::vector<edge> sorted(edges.size());
    const int shift = std::max(static_cast<int>(std::bit_width(vertices - 1)) - bucket_bits, 0);
    const auto begins = move_to_buckets(edges, sorted, [&](std::size_t i) { return edges[i].low() >> shift; });
    for_each_bucket(begins, [&](std::size_t begin, std::size_t end) {
        std::sort(sorted.begin() + static_cast<std::ptrdiff_t>(begin),
                  sorted.begin() + static_cast<std::ptrdiff_t>(end));
    });
    edges.swap(sorted);
}

/// Gives the edges from `begin` to `end` a random order (Fisher-Yates): each is equally likely, as far as the random
/// numbers go.
void shuffle(std::vector<edge>& edges, std::size_t begin, std::size_t end, std::uint64_t seed) {
    for (std::size_t i = end - begin; i > 1; --i) {
        // Random numbers have 64 bits, so the modulo's bias is below 2^-24 for any list that fits a machine.
        std::swap(edges[begin + i - 1], edges[begin + simt::random_bits(seed, 0, begin + i) % i]);
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

// A random bucket for each edge and a random order in each bucket are a random order of all.
std::vector<edge> shuffled(const std::vector<edge>& edges, std::uint64_t seed) {
    if (edges.size() < large_from) {
        std::vector<edge> result = edges;
        shuffle(result, 0, result.size(), seed);
        return result;
    }
    std::vector<edge> result(edges.size());
    const auto begins = move_to_buckets(
        edges, result, [&](std::size_t i) { return simt::random_bits(seed, 1, i) >> (64 - bucket_bits); });
    for_each_bucket(begins, [&](std::size_t begin, std::size_t end) { shuffle(result, begin, end, seed); });
    return result;
}

}  // namespace orchard::examples
