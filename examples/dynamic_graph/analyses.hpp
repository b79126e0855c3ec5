// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The analyses of a graph: their names, their results, and the same by plain programs on the host.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "examples/graph/host_graph.hpp"

namespace orchard::examples {

enum class analysis : std::uint8_t { bfs, sssp, pagerank, components, triangles, kcore };
inline constexpr int analyses = 6;
inline constexpr std::string_view analysis_names[analyses] = {"bfs",        "sssp",      "pagerank",
                                                              "components", "triangles", "kcore"};
[[nodiscard]] constexpr std::string_view name_of(analysis a) { return analysis_names[static_cast<int>(a)]; }

inline constexpr double rank_damping = 0.85;

/// What an analysis begins with.
struct analysis_settings {
    std::uint32_t source = 0;  ///< of BFS and shortest paths
    int rank_steps = 20;       ///< of PageRank
};

/// The result of one analysis; only the part that it has is filled.
struct analysis_result {
    std::vector<std::uint32_t> words;  ///< levels (0x7fffffff: not reached), labels, cores
    std::vector<double> values;        ///< ranks; lengths of paths (infinite: not reached)
    std::uint64_t count = 0;           ///< triangles
    double kernel_us = 0;
};

/// Returns the result on the host. BFS, shortest paths, PageRank, components, cores by Boost.Graph; triangles by
/// merging sorted rows.
/// @param weights  of the edges in the order of `graph.neighbours`; none: `weight_of` the ends
analysis_result analyse_on_host(analysis what, const host_graph& graph, const analysis_settings& settings,
                                std::span<const double> weights = {});

/// Returns what the ranks of PageRank must sum up to, since each vertex with edges gives all of its rank, times the
/// damping.
/// @param isolated  vertices without edges, which give nothing
double rank_sum(std::uint64_t vertices, std::uint64_t isolated, int steps);

/// Returns what is wrong with ranks by their sum, to a part in 10^9, and their least; empty if nothing is.
std::string wrong_ranks(const std::vector<double>& ranks, std::uint64_t isolated, int steps);

/// Returns what differs between two results, empty if nothing does. Ranks are compared to a part in 10^9, the others
/// exactly.
std::string difference(analysis what, const analysis_result& found, const analysis_result& right);

}  // namespace orchard::examples
