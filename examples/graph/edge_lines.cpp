// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The reader of edge lists, the format of SNAP and of many others; contract in read_graph.hpp.
///
///     # a comment                 skipped, as are blank lines
///     0 1                         an edge
///     1  2  0.5                   an edge with a weight

#include <algorithm>
#include <string>

#include <absl/strings/str_format.h>

#include "examples/graph/edge_collector.hpp"
#include "examples/graph/number_line.hpp"
#include "examples/graph/text_formats.hpp"

namespace orchard::examples {

namespace {

/// Reads a vertex number from the next column. Errors: InvalidArgument, with file and line, for a column that is no
/// whole number, or one above the largest vertex.
absl::Status read_vertex(const line_reader& reader, number_line& numbers, const char* name, std::uint32_t& vertex) {
    std::uint64_t number = 0;
    if (absl::Status s = numbers.whole(name, number); !s.ok()) {
        return s;
    }
    if (number >= max_vertices) {
        return reader.error(
            absl::StrFormat("%u as %s is too large; number the vertices 0 to %u", number, name, max_vertices - 1));
    }
    vertex = static_cast<std::uint32_t>(number);
    return absl::OkStatus();
}

/// Returns whether a line that begins with `c` is a comment.
bool is_comment(char c) { return c == '#' || c == '%'; }

}  // namespace

/// The number of vertices is known only at the end: the greatest number, and one. A file that names vertex
/// 4,000,000,000 alone thus gets as many vertices, and fails later if the machine has no memory for them.
absl::StatusOr<edge_list> read_edge_lines(line_reader& reader, std::string_view line, edge_weights weights) {
    edge_collector edges;
    std::uint32_t greatest = 0;
    // The first line has been read already, to tell the format.
    for (std::optional<std::string_view> at = line; at; at = reader.next()) {
        number_line numbers(reader, *at);
        if (numbers.at_end() || is_comment(at->front())) {
            continue;
        }
        std::uint32_t from = 0;
        std::uint32_t to = 0;
        if (absl::Status s = read_vertex(reader, numbers, "the first vertex", from); !s.ok()) {
            return s;
        }
        if (absl::Status s = read_vertex(reader, numbers, "the second vertex", to); !s.ok()) {
            return s;
        }
        double weight = 0;
        const bool has_weight = !numbers.at_end();
        if (has_weight) {
            absl::Status s =
                weights == edge_weights::kept ? numbers.weight("the weight", weight) : numbers.any("the weight");
            s.Update(s.ok() ? numbers.end() : s);
            if (!s.ok()) {
                return s;
            }
        }
        if (weights == edge_weights::kept && edges.size() != 0 && has_weight != edges.has_weights()) {
            return reader.error(
                absl::StrFormat("the line %s has %s weight, unlike those before; give each edge one, or none",
                                quoted(*at), has_weight ? "a" : "no"));
        }
        greatest = std::max({greatest, from, to});
        const edge e = edge::between(from, to);
        if (absl::Status s = has_weight && weights == edge_weights::kept ? edges.add(e, weight) : edges.add(e);
            !s.ok()) {
            // The list is too long as a whole: the line that was read last is not at fault, so that the error has no
            // line number.
            return absl::Status(s.code(), reader.file_error(std::string(s.message())).message());
        }
    }
    if (!reader.status().ok()) {
        return reader.status();
    }
    if (edges.size() == 0) {
        return reader.error("the file holds no edge; give two vertex numbers a line");
    }
    return make_edge_list(greatest + 1, edges.take(), edges.take_weights());
}

}  // namespace orchard::examples
