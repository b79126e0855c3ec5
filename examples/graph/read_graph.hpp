// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <string>

#include <absl/status/statusor.h>

#include "examples/graph/edge_list.hpp"

namespace orchard::examples {

/// What becomes of the weights in a file.
enum class edge_weights : bool { dropped, kept };

/// Reads a graph from a file, plain or gzip. The content determines the format, or for METIS the name:
///
/// - METIS, if the name ends in `.metis` or `.metis.gz`: the numbers of vertices and edges, then the neighbours of each
///   vertex, from 1. Sizes and weights of vertices are checked to be numbers and then ignored. Its first lines look
///   like those of an edge list, so that the content alone cannot tell.
/// - MatrixMarket, if the first line begins with `%%MatrixMarket`: `matrix coordinate`, field `pattern`, `integer` or
///   `real`, symmetry `general` or `symmetric`, square. Vertices are 1 to n in the file and 0 to n - 1 here. Every
///   entry is an edge, even one of value 0.
/// - otherwise an edge list: two vertex numbers a line, separated by blanks or tabs, then optionally a weight or a
///   time. Lines that begin with `#` or `%` are comments. Vertices count from 0; the
///   graph has (greatest number + 1) of them. A list that counts from 1 therefore gets a vertex 0 without edges.
///
/// Values, weights and times of edges are checked to be numbers and dropped; `edge_weights::kept` puts them into
/// `edge_list::weights`, and refuses those below 0 and edge lists of which some lines have one.
///
/// All formats drop the direction of edges. Self-loops and duplicates are dropped and counted (`edge_list`).
///
/// Errors: one line "FILE:LINE: fault and value; remedy", with a line number if the error is in a line. `NotFound` for
/// a missing file, `DataLoss` for damaged gzip data, and `InvalidArgument` for any fault of the content: no content, no
/// text, a header whose counts differ from the file, a value that is no number, a vertex that is negative, 0 (in
/// MatrixMarket and METIS) or out of range, missing or surplus columns, more than 2^32 - 1 vertices.
///
/// Cost: linear time, at more than 50 MB of text a second. Memory grows with the edges read, whatever count a header
/// states.
absl::StatusOr<edge_list> read_graph(const std::string& path, edge_weights weights = edge_weights::dropped);

}  // namespace orchard::examples
