// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The reader of MatrixMarket files; contract in read_graph.hpp. The format:
///
///     %%MatrixMarket matrix coordinate pattern symmetric        the banner: object, format, field, symmetry
///     % any number of comments
///     3 3 2                                                     rows, columns, entries
///     1 2                                                       an entry: row, column, and a value unless "pattern"
///     3 1
///
/// Every entry is an edge between its row and its column. A symmetric file has one triangle of the matrix alone; since
/// edges have no direction here, it is read as any other.
///
/// Source of the format: Boisvert, Pozo, Remington: The Matrix Market Exchange Formats (NISTIR 5935, 1996).

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_split.h>

#include "examples/graph/edge_collector.hpp"
#include "examples/graph/number_line.hpp"
#include "examples/graph/text_formats.hpp"

namespace orchard::examples {

namespace {

constexpr char banner_word[] = "%%MatrixMarket";

/// The contents of the banner and of the line of counts.
struct header {
    bool has_values = false;     ///< each entry has a third column
    std::uint64_t vertices = 0;  ///< rows, and as many columns
    std::uint64_t entries = 0;   ///< entries that must follow
    std::uint64_t line = 0;      ///< the line number of the counts
};

/// Returns OK if `word` is one of the `known` ones; otherwise InvalidArgument, which lists these.
absl::Status one_of(const line_reader& reader, std::string_view word, const char* what,
                    const std::vector<std::string>& known) {
    if (std::find(known.begin(), known.end(), word) != known.end()) {
        return absl::OkStatus();
    }
    std::string list = known.front();
    for (std::size_t i = 1; i < known.size(); ++i) {
        list += (i + 1 == known.size() ? " or " : ", ") + known[i];
    }
    return reader.error(absl::StrFormat("the banner's %s %s is not supported; give %s", what, quoted(word), list));
}

/// Reads the banner: five words, in upper or lower case. Of several faults the first is returned. Formats, fields and
/// symmetries that are not listed here are rejected.
absl::Status read_banner(const line_reader& reader, std::string_view banner, header& h) {
    const std::string lower = absl::AsciiStrToLower(view(banner));
    // %%MatrixMarket, object, format, field, symmetry.
    std::vector<std::string> words = absl::StrSplit(lower, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (words.size() != 5) {
        return reader.error(absl::StrFormat("the banner %s has %u words; give '%s matrix coordinate FIELD SYMMETRY'",
                                            quoted(banner), words.size(), banner_word));
    }
    absl::Status status = one_of(reader, words[1], "object", {"matrix"});
    status.Update(one_of(reader, words[2], "format", {"coordinate"}));
    status.Update(one_of(reader, words[3], "field", {"pattern", "integer", "real"}));
    status.Update(one_of(reader, words[4], "symmetry", {"general", "symmetric"}));
    h.has_values = words[3] != "pattern";
    return status;
}

/// Returns the next line that is neither a comment nor blank.
std::optional<std::string_view> next_content(line_reader& reader) {
    while (std::optional<std::string_view> line = reader.next()) {
        if (!line->empty() && line->front() != '%' && line->find_first_not_of(" \t") != std::string_view::npos) {
            return line;
        }
    }
    return std::nullopt;
}

/// Reads the line of counts. A graph's matrix is square; its rows are the vertices.
absl::Status read_sizes(line_reader& reader, header& h) {
    const std::optional<std::string_view> line = next_content(reader);
    if (!line) {
        return reader.status().ok() ? reader.file_error(
                                          "the header's line of counts is missing; give 'ROWS COLUMNS "
                                          "ENTRIES' after the banner")
                                    : reader.status();
    }
    number_line numbers(reader, *line);
    std::uint64_t rows = 0;
    for (const auto& [name, value] :
         {std::pair{"the count of rows", &rows}, std::pair{"the count of columns", &h.vertices},
          std::pair{"the count of entries", &h.entries}}) {
        if (absl::Status s = numbers.whole(name, *value); !s.ok()) {
            return s;
        }
    }
    if (absl::Status s = numbers.end(); !s.ok()) {
        return s;
    }
    h.line = reader.line_number();
    // `h.vertices` is the number of columns until here.
    if (rows != h.vertices) {
        return reader.error(
            absl::StrFormat("the matrix has %u rows and %u columns; give a square one", rows, h.vertices));
    }
    if (rows == 0 || rows > max_vertices) {
        return reader.error(absl::StrFormat("%u vertices; give 1 to %u", rows, max_vertices));
    }
    return absl::OkStatus();
}

/// Reads one end of an edge: 1 to `vertices` in the file, 0 to `vertices` - 1 in `vertex`.
absl::Status read_end(const line_reader& reader, number_line& numbers, const char* name, std::uint64_t vertices,
                      std::uint32_t& vertex) {
    std::uint64_t index = 0;
    if (absl::Status s = numbers.whole(name, index); !s.ok()) {
        return s;
    }
    if (index == 0 || index > vertices) {
        return reader.error(
            absl::StrFormat("%u as %s is outside the header's matrix; give 1 to %u", index, name, vertices));
    }
    vertex = static_cast<std::uint32_t>(index - 1);
    return absl::OkStatus();
}

/// Reads one entry; its value into `weight`, if that is not null. A value of 0 is an edge too: the format lists entries
/// that are there, whatever they are worth.
absl::Status read_entry(const line_reader& reader, std::string_view line, const header& h, edge& e, double* weight) {
    number_line numbers(reader, line);
    std::uint32_t row = 0;
    std::uint32_t column = 0;
    if (absl::Status s = read_end(reader, numbers, "the row", h.vertices, row); !s.ok()) {
        return s;
    }
    if (absl::Status s = read_end(reader, numbers, "the column", h.vertices, column); !s.ok()) {
        return s;
    }
    if (h.has_values) {
        if (absl::Status s = weight != nullptr ? numbers.weight("the value", *weight) : numbers.any("the value");
            !s.ok()) {
            return s;
        }
    }
    e = edge::between(row, column);
    return numbers.end();
}

}  // namespace

/// Upper and lower case count as the same.
bool is_matrix_market(std::string_view first_line) { return absl::StartsWithIgnoreCase(view(first_line), banner_word); }

absl::StatusOr<edge_list> read_matrix_market(line_reader& reader, std::string_view banner, edge_weights weights) {
    header h;
    if (absl::Status s = read_banner(reader, banner, h); !s.ok()) {
        return s;
    }
    if (absl::Status s = read_sizes(reader, h); !s.ok()) {
        return s;
    }
    const bool keeps = h.has_values && weights == edge_weights::kept;
    edge_collector edges;  // not reserved, because the header may state any count
    while (std::optional<std::string_view> line = next_content(reader)) {
        // Before the entry is read: a surplus entry may be a cut or a merged file, and is no edge.
        if (edges.size() == h.entries) {
            return reader.error(
                absl::StrFormat("entry %s is one more than the %u that the header (line %u) promises; "
                                "correct the header or remove it",
                                quoted(*line), h.entries, h.line));
        }
        edge e{};
        double weight = 0;
        if (absl::Status s = read_entry(reader, *line, h, e, keeps ? &weight : nullptr); !s.ok()) {
            return s;
        }
        if (absl::Status s = keeps ? edges.add(e, weight) : edges.add(e); !s.ok()) {
            return absl::Status(s.code(), reader.file_error(std::string(s.message())).message());
        }
    }
    if (!reader.status().ok()) {
        return reader.status();
    }
    // A file that was cut off between two lines is recognised only by its number of entries.
    if (edges.size() != h.entries) {
        return reader.error(
            absl::StrFormat("the file ends after %u entries and the header (line %u) promises %u; it "
                            "was cut off or the header is wrong",
                            edges.size(), h.line, h.entries));
    }
    return make_edge_list(static_cast<std::uint32_t>(h.vertices), edges.take(), edges.take_weights());
}

}  // namespace orchard::examples
