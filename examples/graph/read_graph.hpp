// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <string>

#include <absl/status/statusor.h>

#include "examples/graph/edge_list.hpp"

namespace orchard::examples {

/// Reads a graph from a file, plain or gzip; its format is told by its content:
///
/// - MatrixMarket, where the first line begins with `%%MatrixMarket`: `matrix coordinate`, field `pattern`, `integer`
///   or `real`, symmetry `general` or `symmetric`, square. Vertices are 1 to n in the file and 0 to n - 1 here. Values
///   are checked to be numbers and not used: every entry is an edge, one of value 0 too.
/// - otherwise an edge list: two vertex numbers a line, separated by blanks or tabs, then optionally a weight, which is
///   checked to be a number and not used. Lines that begin with `#` or `%` are comments. Vertices are taken as they
///   are, from 0; the graph has (greatest number + 1) of them. A list that counts from 1 so gets a vertex 0 without
///   edges.
///
/// In both a direction is not kept, and self-loops and duplicates are dropped and counted (`edge_list`).
///
/// Errors: one line "FILE:LINE: what is wrong with which value; what to do", where a line is to blame. `NotFound` for
/// a missing file, `DataLoss` for damaged gzip data, `InvalidArgument` for everything that the content can have wrong:
/// empty, no text, a header that promises other counts than there are, a number that is none, is negative, 0 (in
/// MatrixMarket) or beyond the vertices, missing columns or surplus ones, more than 2^32 - 1 vertices.
///
/// Cost: linear, at over 50 MB of text a second; memory grows with the edges seen, whatever a header promises.
absl::StatusOr<edge_list> read_graph(const std::string& path);

}  // namespace orchard::examples
