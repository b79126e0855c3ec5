// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The choice of the reader by the first line of the file, or its name; see read_graph.hpp.
///
///     read_graph
///       line_reader::open         plain or gzip
///       is_matrix_market          ?  read_matrix_market    matrix_market.cpp
///       is_metis_name             ?  read_metis            metis.cpp
///                                 :  read_edge_lines       edge_lines.cpp
///         edge_collector            the entries, within the memory of the process
///       make_edge_list            sorted, without self-loops and duplicates

#include "examples/graph/read_graph.hpp"

#include <optional>
#include <string_view>

#include "examples/graph/line_reader.hpp"
#include "examples/graph/text_formats.hpp"

namespace orchard::examples {

absl::StatusOr<edge_list> read_graph(const std::string& path, edge_weights weights) {
    return read_graph(path, is_metis_name(path), weights);
}

absl::StatusOr<edge_list> read_graph(const std::string& path, bool is_metis, edge_weights weights) {
    absl::StatusOr<line_reader> reader = line_reader::open(path);
    if (!reader.ok()) {
        return reader.status();
    }
    const std::optional<std::string_view> first = reader->next();
    if (!first) {
        return reader->status().ok() ? reader->file_error("is empty; give a MatrixMarket file or an edge list")
                                     : reader->status();
    }
    return is_matrix_market(*first) ? read_matrix_market(*reader, *first, weights)
           : is_metis               ? read_metis(*reader, *first, weights)
                                    : read_edge_lines(*reader, *first, weights);
}

}  // namespace orchard::examples
