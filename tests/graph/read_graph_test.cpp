// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "examples/graph/read_graph.hpp"

#include <string>
#include <vector>

#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include "tests/graph/temporary_file.hpp"

namespace orchard::examples {
namespace {

using test::gzipped;
using test::temporary_file;

edge_list read_text(std::string_view text, edge_weights weights = edge_weights::dropped) {
    const temporary_file file("graph", text);
    absl::StatusOr<edge_list> list = read_graph(file.path(), weights);
    EXPECT_TRUE(list.ok()) << list.status();
    return list.ok() ? *std::move(list) : edge_list{};
}

const std::vector<edge> triangle_and_tail = {edge::between(0, 1), edge::between(0, 2), edge::between(1, 2),
                                             edge::between(2, 3)};

constexpr char market[] =
    "%%MatrixMarket matrix coordinate pattern general\n% a comment\n\n4 4 4\n2 1\n1 3\n3 2\n3 4\n";

TEST(read_graph, matrix_market_pattern) {
    const edge_list list = read_text(market);
    EXPECT_EQ(list.vertices, 4u);
    EXPECT_EQ(list.entries, 4u);
    EXPECT_EQ(list.edges, triangle_and_tail);
}

TEST(read_graph, matrix_market_fields_symmetry_case_and_line_ends) {
    EXPECT_EQ(read_text("%%matrixmarket MATRIX Coordinate Integer Symmetric\r\n4 4 4\r\n2 1 -7\r\n3 1 0\r\n3 2 1\r\n"
                        "4 3 5\r\n")
                  .edges,
              triangle_and_tail);
    EXPECT_EQ(
        read_text("%%MatrixMarket matrix coordinate real general\n4 4 4\n2 1 1e-3\n3 1 +2.5\n 3\t2  -1.\n4 3 1e999")
            .edges,
        triangle_and_tail);
}

TEST(read_graph, matrix_market_without_entries_has_its_vertices) {
    const edge_list list = read_text("%%MatrixMarket matrix coordinate pattern general\n7 7 0\n");
    EXPECT_EQ(list.vertices, 7u);
    EXPECT_TRUE(list.edges.empty());
}

TEST(read_graph, keeps_weights_where_they_are_asked_for) {
    // Edges ascend in the result: 0-1, 0-2, 1-2, 2-3. The second 1-2 is a duplicate, 4-4 a loop.
    const std::vector<double> right{0.5, 2.5, 0, 7};
    const std::string entries = "2 1 0.5\n4 3 +7\n3 2 0\n2 3 9\n4 4 1\n1 3 25e-1\n";
    const edge_list market_list =
        read_text("%%MatrixMarket matrix coordinate real general\n4 4 6\n" + entries, edge_weights::kept);
    EXPECT_EQ(market_list.edges, triangle_and_tail);
    EXPECT_EQ(market_list.weights, right);
    EXPECT_EQ(market_list.duplicates, 1u);
    EXPECT_EQ(market_list.self_loops, 1u);
    const edge_list lines = read_text("0 1 0.5\n3 2 7\n1 2 0\n2 0 2.5\n", edge_weights::kept);
    EXPECT_EQ(lines.edges, triangle_and_tail);
    EXPECT_EQ(lines.weights, right);
    EXPECT_TRUE(read_text(market, edge_weights::kept).weights.empty());
    EXPECT_TRUE(read_text("0 1 0.5\n").weights.empty());
}

TEST(read_graph, edge_list_with_comments_weights_and_no_last_newline) {
    const edge_list list = read_text("# comment\n% another\n\n0 1\n1\t2 0.5\n  0   2\n3 2");
    EXPECT_EQ(list.vertices, 4u);
    EXPECT_EQ(list.edges, triangle_and_tail);
}

TEST(read_graph, a_line_may_have_a_mebibyte) {
    std::string text(1 << 20, 'x');
    text[0] = '#';
    text += "\n0 1\n";
    EXPECT_EQ(read_text(text).edges.size(), 1u);
}

TEST(read_graph, self_loops_and_duplicates_of_either_direction_are_dropped_and_counted) {
    const edge_list list = read_text("0 1\n1 0\n0 1\n2 2\n2 3\n");
    EXPECT_EQ(list.entries, 5u);
    EXPECT_EQ(list.self_loops, 1u);
    EXPECT_EQ(list.duplicates, 2u);
    EXPECT_EQ(list.edges, (std::vector<edge>{edge::between(0, 1), edge::between(2, 3)}));
}

TEST(read_graph, gzip_gives_what_plain_gives) { EXPECT_EQ(read_text(gzipped(market)).edges, triangle_and_tail); }

TEST(read_graph, several_gzip_members_are_one_text) {
    const std::string text = market;
    EXPECT_EQ(read_text(gzipped(text.substr(0, 60)) + gzipped(text.substr(60))).edges, triangle_and_tail);
}

TEST(read_graph, a_text_of_many_buffers_is_read_whole) {
    std::string text;
    std::vector<edge> expected;
    for (std::uint32_t v = 0; v + 1 < 300000; ++v) {
        absl::StrAppend(&text, v, " ", v + 1, "\n");
        expected.push_back(edge::between(v, v + 1));
    }
    EXPECT_EQ(read_text(text).edges, expected);
    EXPECT_EQ(read_text(gzipped(text)).edges, expected);
}

}  // namespace
}  // namespace orchard::examples
