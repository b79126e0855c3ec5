// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "examples/graph/read_graph.hpp"

#include <optional>
#include <string_view>

#include "examples/graph/line_reader.hpp"
#include "examples/graph/text_formats.hpp"

namespace orchard::examples {

absl::StatusOr<edge_list> read_graph(const std::string& path) {
    absl::StatusOr<line_reader> reader = line_reader::open(path);
    if (!reader.ok()) {
        return reader.status();
    }
    const std::optional<std::string_view> first = reader->next();
    if (!first) {
        return reader->status().ok() ? reader->file_error("is empty; give a MatrixMarket file or an edge list")
                                     : reader->status();
    }
    return is_matrix_market(*first) ? read_matrix_market(*reader, *first) : read_edge_lines(*reader, *first);
}

}  // namespace orchard::examples
