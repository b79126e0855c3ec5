// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The readers of graphs: edge lists, MatrixMarket and METIS, all plain and gzip. An input is a file, which is read as
// what its first line says, and as METIS, which a file's name says. One that begins as a description of a graph, such
// as `rmat:10`, is made, too, if it is small.

#include <zlib.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <numeric>

#include "examples/dynamic_graph/graph_inputs.hpp"
#include "examples/graph/host_graph.hpp"
#include "examples/graph/text_formats.hpp"
#include "tests/fuzz/target.hpp"

namespace orchard::fuzz {
namespace {

using examples::edge;
using examples::edge_list;

// Larger graphs are read too; only their adjacency, which takes 16 B a vertex, is left out.
constexpr std::uint32_t most_vertices = 1 << 16;

bool is_gzip(std::string_view text) { return text.starts_with("\x1f\x8b"); }

std::string gzipped(std::string_view text) {
    z_stream z{};
    expect(deflateInit2(&z, 1, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK, "zlib gets no memory");
    std::string packed(deflateBound(&z, text.size()) + 32, '\0');
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    z.avail_in = static_cast<uInt>(text.size());
    z.next_out = reinterpret_cast<Bytef*>(packed.data());
    z.avail_out = static_cast<uInt>(packed.size());
    expect(deflate(&z, Z_FINISH) == Z_STREAM_END, "zlib did not pack the text");
    packed.resize(z.total_out);
    deflateEnd(&z);
    return packed;
}

absl::StatusOr<edge_list> read(const memory_file& file, std::string_view content, bool is_metis,
                               examples::edge_weights weights) {
    file.replace(content);
    absl::StatusOr<edge_list> list = examples::read_graph(file.path(), is_metis, weights);
    if (!list.ok()) {
        const absl::Status& s = list.status();
        expect_clear(s);
        expect(absl::IsInvalidArgument(s) || absl::IsDataLoss(s), absl::StrCat("an error of its own: ", s.ToString()));
        expect(std::string(s.message()).starts_with(file.path() + ":"), "an error without the file's name");
    }
    return list;
}

void check_list(const edge_list& list) {
    expect(list.edges.size() + list.self_loops + list.duplicates == list.entries, "edges were lost");
    expect(std::adjacent_find(list.edges.begin(), list.edges.end(), std::greater_equal<>()) == list.edges.end(),
           "the edges do not ascend");
    expect(std::all_of(list.edges.begin(), list.edges.end(),
                       [&](edge e) { return e.low() < e.high() && e.high() < list.vertices; }),
           "an edge outside the graph");
    expect(list.weights.empty() || list.weights.size() == list.edges.size(), "edges without a weight");
    expect(std::all_of(list.weights.begin(), list.weights.end(), [](double w) { return w >= 0 && w < HUGE_VAL; }),
           "a weight below 0, or infinite");
}

void check_adjacency(const edge_list& list) {
    const absl::StatusOr<examples::host_graph> graph = examples::make_host_graph(list);
    expect(graph.ok(), "no adjacency of a small graph");
    expect(graph->vertices() == list.vertices && graph->neighbours.size() == 2 * list.edges.size(),
           "an adjacency of another size");
    expect(
        std::all_of(list.edges.begin(), list.edges.end(),
                    [&](edge e) { return has_edge(*graph, e.low(), e.high()) && has_edge(*graph, e.high(), e.low()); }),
        "an edge that the adjacency lacks");
}

void try_file(std::string_view content, bool is_metis, examples::edge_weights weights) {
    static const memory_file file;
    const absl::StatusOr<edge_list> list = read(file, content, is_metis, weights);
    if (list.ok()) {
        check_list(*list);
        if (list->vertices <= most_vertices) {
            check_adjacency(*list);
        }
    }
    if (is_gzip(content)) {
        return;
    }
    const absl::StatusOr<edge_list> unpacked = read(file, gzipped(content), is_metis, weights);
    expect(unpacked.status() == list.status(), "gzip has another error than the plain file");
    expect(!list.ok() || (unpacked->vertices == list->vertices && unpacked->edges == list->edges &&
                          unpacked->weights == list->weights),
           "gzip has another graph than the plain file");
}

bool is_description(std::string_view text) {
    return text.starts_with("rmat:") || text.starts_with("er:") || text.starts_with("grid:") ||
           text.starts_with("rgg:");
}

/// Returns whether making a graph would take long although it is small: a grid of which most vertices are holes.
bool takes_long(const std::string& text) {
    std::uint64_t width = 0;
    std::uint64_t height = 0;
    return std::sscanf(text.c_str(), "grid:%" SCNu64 "%*[,x]%" SCNu64, &width, &height) == 2 && width <= 1 << 15 &&
           height <= 1 << 15 && width * height > most_vertices;
}

void try_description(std::string_view content) {
    constexpr std::uint64_t memory = 16 << 10;  // enough for some hundreds of edges
    const std::string text(content);
    if (takes_long(text)) {
        return;
    }
    const auto make = [&] { return examples::graph_of(text, 1, examples::edge_weights::dropped, memory); };
    const absl::StatusOr<edge_list> list = make();
    if (!list.ok()) {
        const absl::Status& s = list.status();
        expect_clear(s);
        expect(absl::IsInvalidArgument(s) || absl::IsResourceExhausted(s),
               absl::StrCat("an error of its own: ", s.ToString()));
        return;
    }
    check_list(*list);
    if (list->vertices <= most_vertices) {
        check_adjacency(*list);
    }
    expect(list->edges.size() * sizeof(edge) <= memory, "a graph larger than its memory");
    const absl::StatusOr<edge_list> again = make();
    expect(again.ok() && again->vertices == list->vertices && again->edges == list->edges,
           "another graph of the same description");
}

}  // namespace
}  // namespace orchard::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view content(reinterpret_cast<const char*>(data), size);
    for (const auto weights : {orchard::examples::edge_weights::dropped, orchard::examples::edge_weights::kept}) {
        orchard::fuzz::try_file(content, false, weights);
        orchard::fuzz::try_file(content, true, weights);
    }
    if (orchard::fuzz::is_description(content)) {
        orchard::fuzz::try_description(content);
    }
    return 0;
}
