// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The reader of METIS's format; contract in read_graph.hpp.
///
///     % a comment              skipped
///     3 2                      vertices and edges; then a format ("011") and the number of weights of a vertex
///     2                        the neighbours of vertex 1
///     1 3                      of vertex 2
///     2                        of vertex 3
///
///     format    hundreds: each vertex has a size; tens: weights; ones: each neighbour is followed by a weight

#include <string>

#include <absl/strings/str_format.h>

#include "examples/graph/edge_collector.hpp"
#include "examples/graph/number_line.hpp"
#include "examples/graph/text_formats.hpp"

namespace orchard::examples {

namespace {

/// The first line.
struct metis_header {
    std::uint64_t vertices = 0;
    std::uint64_t edges = 0;
    std::uint64_t numbers_first = 0;  ///< numbers of a vertex before its neighbours
    bool has_weights = false;         ///< each neighbour is followed by a weight
};

absl::StatusOr<metis_header> read_header(const line_reader& reader, std::string_view line) {
    metis_header h;
    number_line numbers(reader, line);
    absl::Status s = numbers.whole("the number of vertices", h.vertices);
    s.Update(s.ok() ? numbers.whole("the number of edges", h.edges) : s);
    std::uint64_t format = 0;
    std::uint64_t weights = 1;
    if (s.ok() && !numbers.at_end()) {
        s.Update(numbers.whole("the format", format));
        if (s.ok() && !numbers.at_end()) {
            s.Update(numbers.whole("the number of weights of a vertex", weights));
        }
        s.Update(s.ok() ? numbers.end() : s);
    }
    if (!s.ok()) {
        return s;
    }
    if (h.vertices >= max_vertices) {
        return reader.error(
            absl::StrFormat("%d vertices are too many; at most %d are possible", h.vertices, max_vertices - 1));
    }
    if (format > 111 || format % 10 > 1 || format / 10 % 10 > 1) {
        return reader.error(absl::StrFormat("the format %03d is none; its three digits are 0 or 1", format));
    }
    if (weights > 64) {
        return reader.error(absl::StrFormat("%d weights of a vertex are too many; at most 64 are read", weights));
    }
    h.has_weights = format % 10 == 1;
    h.numbers_first = format / 100 + (format / 10 % 10 == 1 ? weights : 0);
    return h;
}

bool is_comment(std::string_view line) { return !line.empty() && line.front() == '%'; }

}  // namespace

bool is_metis_name(std::string_view path) { return path.ends_with(".metis") || path.ends_with(".metis.gz"); }

/// A vertex without neighbours has an empty line.
absl::StatusOr<edge_list> read_metis(line_reader& reader, std::string_view line, edge_weights weights) {
    std::optional<std::string_view> at = line;
    while (at && is_comment(*at)) {
        at = reader.next();
    }
    if (!at) {
        return reader.status().ok() ? reader.file_error("has comments alone; give the numbers of vertices and edges")
                                    : reader.status();
    }
    const auto header = read_header(reader, *at);
    if (!header.ok()) {
        return header.status();
    }
    const bool keeps = header->has_weights && weights == edge_weights::kept;
    edge_collector edges;
    std::uint64_t named = 0;
    for (std::uint64_t u = 0; u < header->vertices;) {
        at = reader.next();
        if (!at) {
            return reader.status().ok()
                       ? reader.file_error(
                             absl::StrFormat("ends after %d of %d vertices; give a line for each", u, header->vertices))
                       : reader.status();
        }
        if (is_comment(*at)) {
            continue;
        }
        number_line numbers(reader, *at);
        std::uint64_t ignored = 0;
        absl::Status s;
        for (std::uint64_t i = 0; i < header->numbers_first && s.ok(); ++i) {
            s.Update(numbers.whole("a weight of the vertex", ignored));
        }
        while (s.ok() && !numbers.at_end()) {
            std::uint64_t v = 0;
            std::uint64_t weight = 0;
            s.Update(numbers.whole("a neighbour", v));
            s.Update(s.ok() && header->has_weights ? numbers.whole("the weight of an edge", weight) : s);
            if (s.ok() && (v == 0 || v > header->vertices)) {
                s = reader.error(
                    absl::StrFormat("%d as a neighbour is out of range; vertices are 1 to %d", v, header->vertices));
            }
            ++named;
            if (s.ok()) {
                const edge e = edge::between(static_cast<std::uint32_t>(u), static_cast<std::uint32_t>(v - 1));
                s = keeps ? edges.add(e, static_cast<double>(weight)) : edges.add(e);
                if (!s.ok()) {
                    return absl::Status(s.code(), reader.file_error(std::string(s.message())).message());
                }
            }
        }
        if (!s.ok()) {
            return s;
        }
        ++u;
    }
    for (at = reader.next(); at; at = reader.next()) {
        if (!is_comment(*at) && !number_line(reader, *at).at_end()) {
            return reader.error(absl::StrFormat("a line beyond the %d vertices; remove it, or correct the first line",
                                                header->vertices));
        }
    }
    if (!reader.status().ok()) {
        return reader.status();
    }
    if (named != 2 * header->edges) {
        return reader.file_error(
            absl::StrFormat("names %d neighbours, but %d edges have %d; each edge is in the lines of both vertices",
                            named, header->edges, 2 * header->edges));
    }
    return make_edge_list(static_cast<std::uint32_t>(header->vertices), edges.take(), edges.take_weights());
}

}  // namespace orchard::examples
