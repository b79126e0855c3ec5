// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A graph in a heap, or in another allocator, that changes by batches, with analyses between them, each checked on the
/// host.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "examples/dynamic_graph/analyses.hpp"
#include "examples/dynamic_graph/any_graph.hpp"
#include "examples/graph/edge_list.hpp"
#include "runtime/cli/progress.hpp"
#include "runtime/heap/heap.hpp"

namespace orchard::examples {

/// What happens to the edges:
///
///     build      all batches are added, then removed
///     window     each batch is added, and the one `window` batches before it removed
///     reinsert   all are added; then each batch is removed and added again
///     pressure   all are added; then batches of random edges of 1,000 vertices are added and removed
///     then       all are added; then those that a second version of the graph lacks are removed, and those that it has
///                more are added; an edge with another weight is removed and added
enum class update_mode : std::uint8_t { build, window, reinsert, pressure, then };

/// Weights of edges: those of an input, and random whole numbers from 1 to 64 of edges that it has not.
struct weight_table {
    edge_list input;  ///< without weights: all are random
    std::uint64_t seed = 1;

    /// Returns the weight of an edge. Cost: log2 of the edges.
    [[nodiscard]] double of(edge e) const;
};

/// What the graph is compared with: a set and programs on the host; or what must hold of any graph (invariants.cuh),
/// which takes no more of the host than the edges that come.
enum class graph_check : std::uint8_t { host, invariants };

struct graph_options {
    std::uint64_t batch = 1 << 16;  ///< edges; each is two directions
    update_mode mode = update_mode::build;
    std::uint64_t window = 4;            ///< batches
    std::uint64_t most_batches = 1'000;  ///< of `pressure`, and the limit of all modes
    std::vector<analysis> chosen;        ///< between the batches
    /// Analyses follow every batch if the graph has at most so many vertices; else the first, the middle
    /// and the last, and the last that adds edges.
    std::uint32_t every_batch_below = 1 << 16;
    std::uint64_t seed = 1;
    weight_table second;  ///< of `then`: the second version
    update_way by = update_way::batches;
    graph_check check = graph_check::host;
    int rank_steps = 20;        ///< of PageRank
    bool keeps_values = false;  ///< the result has what the analyses said of each vertex, the last time
    bool snapshot = false;      ///< one is opened in the middle of the batches that add edges, and read at the end
    /// The edges' properties, used by shortest paths; none: edges have no property, and `weight_of` the ends is used.
    std::optional<weight_table> weights;
};

/// What `then` has changed.
struct second_version_row {
    std::uint64_t added = 0;    ///< edges, each in both directions
    std::uint64_t removed = 0;  ///< the same
    bool equal = false;         ///< the graph has afterwards exactly the edges of the second version
};

/// A snapshot that was open from the middle of insertion to the end of all batches.
struct snapshot_row {
    std::uint64_t batch = 0;        ///< number, from 1, of the last batch before it
    std::uint64_t edges = 0;        ///< directions that the graph had then
    double milliseconds = 0;        ///< to open it
    std::uint64_t table_bytes = 0;  ///< of its own table of vertices
    std::uint64_t row_bytes = 0;    ///< of the rows that it alone has, after the last batch
    double close_milliseconds = 0;  ///< to close it then
    bool equal = false;             ///< it has after the last batch exactly the edges, and weights, of its moment
};

struct graph_batch_row {
    bool adds = true;
    std::uint64_t directions = 0;  ///< in the batch
    std::uint64_t taken = 0;
    std::uint64_t duplicates = 0;  ///< as `batch_result::duplicates`
    std::uint64_t left = 0;        ///< without memory
    double milliseconds = 0;       ///< from the call to the end of its last kernel
    std::uint64_t edges = 0;       ///< directions in the graph afterwards
    std::uint64_t row_bytes = 0;
};

struct graph_analysis_row {
    analysis what{};
    std::uint64_t times = 0;  ///< how often it was run and compared
    std::uint64_t wrong = 0;
    std::string first_wrong;   ///< what differed first
    std::uint64_t edges = 0;   ///< of the graph at the comparison with the most edges, whose times these are:
    double graph_us = 0;       ///< kernels on the graph
    double csr_us = 0;         ///< the same kernels on compressed sparse rows
    std::uint32_t source = 0;  ///< of BFS and shortest paths, the last time
    analysis_result last;      ///< of the last time, on the graph; empty unless `keeps_values`
};

/// What the graph said when it was asked whether edges are there.
struct graph_questions {
    std::uint64_t asked = 0;
    std::uint64_t there = 0;
    std::uint64_t wrong = 0;  ///< answers that are not those of the host's set, or of the batch that came last
    double rate = 0;          ///< millions a second, by the host's clock, of the fastest comparison
};

struct graph_result {
    std::vector<graph_batch_row> batches;
    std::vector<graph_analysis_row> analyses;
    std::optional<second_version_row> second;  ///< of `then`
    std::optional<snapshot_row> snapshot;      ///< of `graph_options::snapshot`
    std::uint64_t wrong_counts = 0;  ///< batches that took another number of edges than the host's graph, or whose
                                     ///< counts do not add up to their directions
    std::uint64_t wrong_edges = 0;   ///< comparisons in which rows or weights differ from the host's
    std::uint64_t left = 0;          ///< directions without memory
    graph_questions questions;       ///< at each comparison
    double bytes_per_edge = 0;       ///< at the most edges
    double csr_bytes_per_edge = 0;
    std::vector<std::uint64_t> degrees;  ///< vertices by the logarithm of their degree, at the most edges
    bool is_valid = false;               ///< the heap, at the end; this and what follows: in a heap alone
    std::string fault;
    statistics at_end;
};

/// Runs the batches in `h`. `edges`: in the order in which they come, without duplicates. Errors: those of the device
/// and of the heap; InvalidArgument if `then` needs more batches than `most_batches`; ResourceExhausted without memory
/// for the snapshot's table. A shortage of the heap's memory in a batch is a result.
absl::StatusOr<graph_result> run_graph(heap& h, std::uint32_t vertices, const std::vector<edge>& edges,
                                       const graph_options& options, command_line::progress& bar);

/// Runs the batches in another allocator, of so many bytes, on a device. Errors: as of `run_graph`; and
/// ResourceExhausted with the size of the request that the allocator refused.
absl::StatusOr<graph_result> run_graph_in(const graph_in_allocator& allocator, const simt::executor& on,
                                          std::uint64_t bytes, std::uint32_t vertices, const std::vector<edge>& edges,
                                          const graph_options& options, command_line::progress& bar);

}  // namespace orchard::examples
