// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "examples/dynamic_graph/graph_inputs.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "device/simt/random.hpp"
#include "examples/graph/rmat.hpp"

namespace orchard::examples {
namespace {

/// Most vertices of a graph that is made here.
constexpr std::uint64_t most_vertices = std::uint64_t{1} << 30;
constexpr std::uint64_t most_edges = std::uint64_t{1} << 32;

/// The numbers behind the colon of a description.
class description {
public:
    /// The text is escaped for messages, which have one line.
    description(const std::string& whole, const char* form)
        : whole_{absl::CHexEscape(whole)},
          form_{form},
          parts_{absl::StrSplit(whole.substr(whole.find(':') + 1), absl::ByAnyChar(",x"))} {}

    /// Returns the next number; `otherwise` if there is none. Errors: InvalidArgument.
    absl::StatusOr<std::uint64_t> next(std::uint64_t least, std::uint64_t most,
                                       std::optional<std::uint64_t> otherwise = std::nullopt) {
        if (at_ == parts_.size() && otherwise) {
            return *otherwise;
        }
        std::uint64_t value = 0;
        if (at_ == parts_.size() || !absl::SimpleAtoi(parts_[at_], &value) || value < least || value > most) {
            return absl::InvalidArgumentError(absl::StrFormat("graph \"%s\": give %s; number %d is from %d to %d",
                                                              whole_, form_, at_ + 1, least, most));
        }
        ++at_;
        return value;
    }
    absl::Status end() const {
        return at_ == parts_.size()
                   ? absl::OkStatus()
                   : absl::InvalidArgumentError(absl::StrFormat("graph \"%s\": give %s", whole_, form_));
    }

private:
    std::string whole_;
    const char* form_;
    std::vector<std::string> parts_;
    std::size_t at_ = 0;
};

std::uint32_t below(std::uint64_t seed, std::uint64_t stream, std::uint64_t i, std::uint64_t bound) {
    return static_cast<std::uint32_t>(simt::below64(simt::random_bits(seed, stream, i), bound));
}

/// Bytes for each edge of a list that grows: the list and its successor, twice as long; later a list with room for as
/// many edges again, and the copy by which `make_edge_list` sorts it.
constexpr double growing_edge = 3 * sizeof(edge);

/// Returns ResourceExhausted, with the description, if `bytes` for the graph exceed `memory`.
absl::Status check_memory(const std::string& text, double bytes, std::uint64_t memory) {
    return check_host_memory(static_cast<std::uint64_t>(bytes), absl::StrFormat("graph \"%s\"", absl::CHexEscape(text)),
                             memory);
}

absl::StatusOr<edge_list> rmat(const std::string& text, std::uint64_t seed, std::uint64_t memory) {
    description d(text, "rmat:SCALE[,FACTOR]");
    const auto scale = d.next(1, 30);
    const auto factor = d.next(1, 1024, 16);
    absl::Status s = scale.status();
    s.Update(factor.status());
    s.Update(s.ok() ? d.end() : s);
    return s.ok() ? generate_rmat({static_cast<int>(*scale), static_cast<int>(*factor), seed}, memory)
                  : absl::StatusOr<edge_list>(s);
}

absl::StatusOr<edge_list> erdos_renyi(const std::string& text, std::uint64_t seed, std::uint64_t memory) {
    description d(text, "er:VERTICES,EDGES");
    const auto vertices = d.next(2, most_vertices);
    const auto count = d.next(1, most_edges);
    absl::Status s = vertices.status();
    s.Update(count.status());
    s.Update(s.ok() ? d.end() : s);
    s.Update(s.ok() ? check_memory(text, 2.0 * sizeof(edge) * static_cast<double>(*count), memory) : s);
    if (!s.ok()) {
        return s;
    }
    std::vector<edge> edges(*count);
    for (std::uint64_t i = 0; i < *count; ++i) {
        const std::uint32_t a = below(seed, 21, i, *vertices);
        const std::uint32_t b = below(seed, 22, i, *vertices - 1);
        edges[i] = edge::between(a, b < a ? b : b + 1);
    }
    return make_edge_list(static_cast<std::uint32_t>(*vertices), std::move(edges));
}

absl::StatusOr<edge_list> grid(const std::string& text, std::uint64_t seed, std::uint64_t memory) {
    description d(text, "grid:WIDTHxHEIGHT[,PERCENT]");
    const auto width = d.next(1, 1 << 15);
    const auto height = d.next(1, 1 << 15);
    const auto holes = d.next(0, 99, 10);
    absl::Status s = width.status();
    s.Update(height.status());
    s.Update(holes.status());
    s.Update(s.ok() ? d.end() : s);
    if (!s.ok()) {
        return s;
    }
    // Two edges a vertex, of which those are left whose ends are both there.
    const double there = 1 - static_cast<double>(*holes) / 100;
    const double expected = 2 * static_cast<double>(*width * *height) * there * there;
    if (absl::Status fits = check_memory(text, growing_edge * expected, memory); !fits.ok()) {
        return fits;
    }
    const auto is_there = [&](std::uint64_t at) { return below(seed, 23, at, 100) >= *holes; };
    std::vector<edge> edges;
    for (std::uint64_t y = 0; y < *height; ++y) {
        for (std::uint64_t x = 0; x < *width; ++x) {
            const std::uint64_t at = y * *width + x;
            const auto join = [&](bool exists, std::uint64_t other) {
                if (exists && is_there(at) && is_there(other)) {
                    edges.push_back(edge::between(static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(other)));
                }
            };
            join(x + 1 < *width, at + 1);
            join(y + 1 < *height, at + *width);
        }
    }
    return make_edge_list(static_cast<std::uint32_t>(*width * *height), std::move(edges));
}

/// Points are sorted into cells as wide as the radius, so that each is compared with those of nine cells alone.
absl::StatusOr<edge_list> geometric(const std::string& text, std::uint64_t seed, std::uint64_t memory) {
    description d(text, "rgg:VERTICES,DEGREE");
    const auto vertices = d.next(2, 1 << 26);
    const auto degree = d.next(1, 1024);
    absl::Status s = vertices.status();
    s.Update(degree.status());
    s.Update(s.ok() ? d.end() : s);
    if (!s.ok()) {
        return s;
    }
    const std::uint64_t n = *vertices;
    // The lists of the cells grow as the list of edges does.
    const double expected = static_cast<double>(n) * (growing_edge * static_cast<double>(*degree) / 2 + 8);
    if (absl::Status fits = check_memory(text, expected, memory); !fits.ok()) {
        return fits;
    }
    constexpr double pi = 3.14159265358979323846;
    const double radius = std::min(1.0, std::sqrt(static_cast<double>(*degree) / (pi * static_cast<double>(n))));
    const auto cells = static_cast<std::uint64_t>(std::max(1.0, std::min(1.0 / radius, 4096.0)));
    const auto along = [&](std::uint64_t axis, std::uint64_t i) {
        return static_cast<double>(simt::random_bits(seed, 24 + axis, i) >> 11) * 0x1p-53;
    };
    const auto cell_of = [&](double at) {
        return std::min(cells - 1, static_cast<std::uint64_t>(at * static_cast<double>(cells)));
    };
    std::vector<std::vector<std::uint32_t>> in_cell(cells * cells);
    for (std::uint64_t i = 0; i < n; ++i) {
        in_cell[cell_of(along(1, i)) * cells + cell_of(along(0, i))].push_back(static_cast<std::uint32_t>(i));
    }
    std::vector<edge> edges;
    for (std::uint64_t i = 0; i < n; ++i) {
        const double x = along(0, i);
        const double y = along(1, i);
        const std::uint64_t cx = cell_of(x);
        const std::uint64_t cy = cell_of(y);
        for (std::uint64_t near_y = cy == 0 ? 0 : cy - 1; near_y <= std::min(cells - 1, cy + 1); ++near_y) {
            for (std::uint64_t near_x = cx == 0 ? 0 : cx - 1; near_x <= std::min(cells - 1, cx + 1); ++near_x) {
                for (const std::uint32_t other : in_cell[near_y * cells + near_x]) {
                    const double dx = along(0, other) - x;
                    const double dy = along(1, other) - y;
                    if (other > i && dx * dx + dy * dy < radius * radius) {
                        edges.push_back(edge::between(static_cast<std::uint32_t>(i), other));
                    }
                }
            }
        }
    }
    return make_edge_list(static_cast<std::uint32_t>(n), std::move(edges));
}

}  // namespace

absl::StatusOr<edge_list> graph_of(const std::string& text, std::uint64_t seed, edge_weights weights,
                                   std::uint64_t memory) {
    const auto begins = [&](const char* kind) { return text.rfind(kind, 0) == 0; };
    return begins("rmat:")   ? rmat(text, seed, memory)
           : begins("er:")   ? erdos_renyi(text, seed, memory)
           : begins("grid:") ? grid(text, seed, memory)
           : begins("rgg:")  ? geometric(text, seed, memory)
                             : read_graph(text, weights);
}

std::vector<edge> ordered(const edge_list& graph, edge_order order, std::uint64_t seed) {
    return order == edge_order::uniform ? shuffled(graph.edges, seed) : graph.edges;
}

std::vector<edge> pressure_edges(std::uint32_t vertices, std::uint32_t sources, std::uint64_t count,
                                 std::uint64_t seed) {
    std::vector<edge> edges(count);
    for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint32_t a = below(seed, 26, below(seed, 27, i, sources), vertices);
        const std::uint32_t b = below(seed, 28, i, vertices - 1);
        edges[i] = edge::between(a, b < a ? b : b + 1);
    }
    return edges;
}

}  // namespace orchard::examples
