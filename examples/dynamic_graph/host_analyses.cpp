// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The analyses by Boost.Graph, and triangles, which it has not, by merging sorted rows.

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/connected_components.hpp>
#include <boost/graph/core_numbers.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/graph/page_rank.hpp>
#include <cmath>

#include "absl/strings/str_format.h"
#include "examples/dynamic_graph/analyses.hpp"
#include "examples/dynamic_graph/analyses_kernels.cuh"

namespace orchard::examples {
namespace {

using boost_graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS, boost::no_property,
                                          boost::property<boost::edge_weight_t, double>>;

boost_graph make(const host_graph& graph, std::span<const double> weights) {
    boost_graph g(graph.vertices());
    for (std::uint32_t u = 0; u < graph.vertices(); ++u) {
        for (std::uint64_t i = graph.offsets[u]; i < graph.offsets[u + std::size_t{1}]; ++i) {
            const std::uint32_t v = graph.neighbours[i];
            if (u < v) {
                boost::add_edge(u, v, weights.empty() ? weight_of(u, v) : weights[i], g);
            }
        }
    }
    return g;
}

/// Boost's properties are addressed by the number of a vertex.
template <class T>
auto map_of(std::vector<T>& values, const boost_graph& g) {
    return boost::make_iterator_property_map(values.begin(), boost::get(boost::vertex_index, g));
}

std::vector<std::uint32_t> search(const boost_graph& g, std::uint32_t source) {
    std::vector<std::uint32_t> distance(boost::num_vertices(g), unreached);
    distance[source] = 0;
    const auto map = map_of(distance, g);
    boost::breadth_first_search(
        g, source, boost::visitor(boost::make_bfs_visitor(boost::record_distances(map, boost::on_tree_edge()))));
    return distance;
}

std::vector<double> paths(const boost_graph& g, std::uint32_t source) {
    std::vector<double> length(boost::num_vertices(g));
    boost::dijkstra_shortest_paths(g, source, boost::distance_map(map_of(length, g)).distance_inf(double_of(no_path)));
    return length;
}

std::vector<double> ranks(const boost_graph& g, int steps) {
    std::vector<double> rank(boost::num_vertices(g));
    boost::graph::page_rank(g, map_of(rank, g), boost::graph::n_iterations(steps), rank_damping);
    return rank;
}

/// Each vertex gets the least vertex of its component.
std::vector<std::uint32_t> components(const boost_graph& g) {
    std::vector<std::uint32_t> number(boost::num_vertices(g));
    const auto count = boost::connected_components(g, map_of(number, g));
    std::vector<std::uint32_t> least(static_cast<std::size_t>(count), unreached);
    for (std::uint32_t u = 0; u < number.size(); ++u) {
        least[number[u]] = std::min(least[number[u]], u);
    }
    for (std::uint32_t& n : number) {
        n = least[n];
    }
    return number;
}

std::vector<std::uint32_t> cores(const boost_graph& g) {
    std::vector<std::uint32_t> core(boost::num_vertices(g));
    boost::core_numbers(g, map_of(core, g));
    return core;
}

std::uint64_t triangles(const host_graph& graph) {
    std::uint64_t found = 0;
    for (std::uint32_t u = 0; u < graph.vertices(); ++u) {
        const auto of_u = graph.of(u);
        for (const std::uint32_t v : of_u) {
            if (v <= u) {
                continue;
            }
            const auto of_v = graph.of(v);
            auto a = std::ranges::upper_bound(of_u, v);
            auto b = std::ranges::upper_bound(of_v, v);
            while (a != of_u.end() && b != of_v.end()) {
                found += *a == *b ? 1 : 0;
                const bool first = *a <= *b;
                const bool second = *b <= *a;
                a += first ? 1 : 0;
                b += second ? 1 : 0;
            }
        }
    }
    return found;
}

}  // namespace

analysis_result analyse_on_host(analysis what, const host_graph& graph, const analysis_settings& settings,
                                std::span<const double> weights) {
    analysis_result r;
    if (what == analysis::triangles) {
        r.count = triangles(graph);
        return r;
    }
    const boost_graph g = make(graph, weights);
    switch (what) {
        case analysis::bfs: r.words = search(g, settings.source); break;
        case analysis::sssp: r.values = paths(g, settings.source); break;
        case analysis::pagerank: r.values = ranks(g, settings.rank_steps); break;
        case analysis::components: r.words = components(g); break;
        case analysis::kcore: r.words = cores(g); break;
        case analysis::triangles: break;
    }
    return r;
}

double rank_sum(std::uint64_t vertices, std::uint64_t isolated, int steps) {
    const auto with_edges = static_cast<double>(vertices - isolated);
    double sum = with_edges / static_cast<double>(vertices);
    for (int i = 0; i < steps; ++i) {
        sum = (1 - rank_damping) * with_edges + rank_damping * sum;
    }
    return sum + (1 - rank_damping) * static_cast<double>(isolated);
}

std::string wrong_ranks(const std::vector<double>& ranks, std::uint64_t isolated, int steps) {
    long double sum = 0;
    for (const double rank : ranks) {
        if (!(rank >= (1 - rank_damping) * (1 - 1e-9))) {
            return absl::StrFormat("a rank is %.12g, less than a vertex has by itself", rank);
        }
        sum += rank;
    }
    const double found = static_cast<double>(sum);
    const double right = rank_sum(ranks.size(), isolated, steps);
    return std::abs(found - right) <= 1e-9 * right
               ? ""
               : absl::StrFormat("the ranks' sum is %.12g, not %.12g", found, right);
}

std::string difference(analysis what, const analysis_result& found, const analysis_result& right) {
    if (found.count != right.count) {
        return absl::StrFormat("%d triangles, not %d", found.count, right.count);
    }
    if (found.words.size() != right.words.size() || found.values.size() != right.values.size()) {
        return absl::StrFormat("%d vertices, not %d", found.words.size() + found.values.size(),
                               right.words.size() + right.values.size());
    }
    for (std::size_t u = 0; u < found.words.size(); ++u) {
        if (found.words[u] != right.words[u]) {
            return absl::StrFormat("%s of vertex %d is %d, not %d", std::string(name_of(what)), u, found.words[u],
                                   right.words[u]);
        }
    }
    const double allowed = what == analysis::pagerank ? 1e-9 : 0;
    for (std::size_t u = 0; u < found.values.size(); ++u) {
        const double a = found.values[u];
        const double b = right.values[u];
        if (a != b && !(std::abs(a - b) <= allowed * std::abs(b))) {
            return absl::StrFormat("%s of vertex %d is %.12g, not %.12g", std::string(name_of(what)), u, a, b);
        }
    }
    return "";
}

}  // namespace orchard::examples
