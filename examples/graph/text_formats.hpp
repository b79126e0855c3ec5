// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The readers of the three text formats. `read_graph` opens the file, reads its first line and calls one of them; the
/// first line is therefore an argument.

#include <string>
#include <string_view>

#include <absl/status/statusor.h>

#include "examples/graph/edge_list.hpp"
#include "examples/graph/line_reader.hpp"
#include "examples/graph/read_graph.hpp"

namespace orchard::examples {

/// Returns true if a file with this first line is MatrixMarket.
bool is_matrix_market(std::string_view first_line);

/// Reads the rest of a MatrixMarket file whose first line is `banner`. Contract: `read_graph`.
absl::StatusOr<edge_list> read_matrix_market(line_reader& reader, std::string_view banner, edge_weights weights);

/// Returns true if a file of this name is in METIS's format: its ending is .metis or .metis.gz.
bool is_metis_name(std::string_view path);

/// Reads a graph as `read_graph` does, whatever its name says of METIS's format.
absl::StatusOr<edge_list> read_graph(const std::string& path, bool is_metis, edge_weights weights);

/// Reads a METIS file whose first line is `line`. Contract: `read_graph`.
absl::StatusOr<edge_list> read_metis(line_reader& reader, std::string_view line, edge_weights weights);

/// Reads an edge list whose first line is `line`. Contract: `read_graph`.
absl::StatusOr<edge_list> read_edge_lines(line_reader& reader, std::string_view line, edge_weights weights);

}  // namespace orchard::examples
