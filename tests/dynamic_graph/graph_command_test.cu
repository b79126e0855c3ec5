// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A graph that changes by batches: every analysis on it, on rows and on the host.

#include <gmock/gmock.h>

#include <algorithm>
#include <checkout.hpp>
#include <fstream>
#include <iterator>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "examples/dynamic_graph/analyses_kernels.cuh"
#include "examples/dynamic_graph/graph_inputs.hpp"
#include "examples/dynamic_graph/graph_run.hpp"
#include "examples/graph/read_graph.hpp"
#include "tests/support/hardened_fixture.hpp"
#include "tests/support/run_command.hpp"

namespace orchard::examples {
namespace {

using testing::HasSubstr;

std::vector<analysis> all_analyses() {
    std::vector<analysis> all;
    for (int i = 0; i < analyses; ++i) {
        all.push_back(static_cast<analysis>(i));
    }
    return all;
}

class changing_graph : public test::on_each_device {
protected:
    void run(const std::string& input, update_mode mode, std::uint64_t batch, std::uint64_t capacity = 256 << 20,
             edge_list second = {}) {
        options o;
        o.device = GetParam();
        o.capacity = capacity;
        o.backing = backing_option::elastic;
        o.emulated_workers = 2;
        auto h = heap::create(o);
        ASSERT_TRUE(h.ok()) << h.status();
        const auto graph = graph_of(input, 3);
        ASSERT_TRUE(graph.ok()) << graph.status();
        graph_options how;
        how.batch = batch;
        how.mode = mode;
        how.window = 2;
        how.chosen = chosen_;
        how.second = {std::move(second), 3};
        how.by = by_;
        how.check = check_;
        how.every_batch_below = every_batch_below_;
        how.snapshot = snapshot_;
        if (weights_) {
            how.weights = weight_table{*graph, 3};
        }
        command_line::progress bar(false);
        auto done = run_graph(*h, graph->vertices, ordered(*graph, edge_order::uniform, 3), how, bar);
        ASSERT_TRUE(done.ok()) << done.status();
        result_ = *std::move(done);
    }
    void expect_right() const {
        EXPECT_EQ(result_.wrong_counts, 0u);
        EXPECT_EQ(result_.wrong_edges, 0u);
        EXPECT_EQ(result_.left, 0u);
        EXPECT_EQ(result_.questions.wrong, 0u);
        EXPECT_GT(result_.questions.there, 0u);
        if (check_ == graph_check::host) {
            EXPECT_LT(result_.questions.there, result_.questions.asked);
        }
        EXPECT_TRUE(result_.is_valid) << result_.fault;
        for (const graph_batch_row& b : result_.batches) {
            EXPECT_EQ(b.taken + b.duplicates + b.left, b.directions);
        }
        for (const graph_analysis_row& row : result_.analyses) {
            EXPECT_EQ(row.wrong, 0u) << name_of(row.what) << ": " << row.first_wrong;
            EXPECT_EQ(row.times, result_.batches.size());
        }
    }
    std::vector<analysis> chosen_ = all_analyses();
    update_way by_ = update_way::batches;
    graph_check check_ = graph_check::host;
    bool weights_ = false;
    bool snapshot_ = false;
    std::uint32_t every_batch_below_ = 1 << 16;
    graph_result result_;
};
INSTANTIATE_TEST_SUITE_P(all, changing_graph, testing::Values(device_option::emulated, device_option::cuda),
                         test::name_of_device);

TEST_P(changing_graph, is_built_and_taken_down) {
    ASSERT_NO_FATAL_FAILURE(run("rmat:7,8", update_mode::build, 150));
    expect_right();
    EXPECT_EQ(result_.batches.back().edges, 0u);
}
TEST_P(changing_graph, has_a_snapshot_of_the_middle_of_insertion) {
    chosen_ = {};
    snapshot_ = true;
    for (const update_way by : {update_way::batches, update_way::kernels}) {
        for (const graph_check check : {graph_check::host, graph_check::invariants}) {
            by_ = by;
            check_ = check;
            weights_ = check == graph_check::invariants;
            ASSERT_NO_FATAL_FAILURE(run("rmat:7,8", update_mode::build, 150));
            expect_right();
            ASSERT_TRUE(result_.snapshot);
            const snapshot_row& kept = *result_.snapshot;
            EXPECT_TRUE(kept.equal);
            EXPECT_EQ(kept.batch, (result_.batches.size() / 2 + 1) / 2);
            const graph_batch_row& then = result_.batches[kept.batch - 1];
            EXPECT_EQ(kept.edges, then.edges);
            EXPECT_EQ(kept.row_bytes + kept.table_bytes, then.row_bytes) << "the graph has no edges at the end";
            EXPECT_GT(kept.row_bytes, 0u);
        }
    }
}
TEST_P(changing_graph, has_a_snapshot_that_shares_the_rows_that_stay) {
    chosen_ = {};
    snapshot_ = true;
    ASSERT_NO_FATAL_FAILURE(run("er:100,700", update_mode::build, 1000));
    EXPECT_TRUE(result_.snapshot->equal);
    EXPECT_EQ(result_.snapshot->batch, 1u);
    edge_list second = *graph_of("er:100,700", 3);
    second.edges.pop_back();
    ASSERT_NO_FATAL_FAILURE(run("er:100,700", update_mode::then, 1000, 256 << 20, second));
    EXPECT_TRUE(result_.snapshot->equal);
    EXPECT_GT(result_.snapshot->row_bytes, 0u);
    EXPECT_LT(20 * result_.snapshot->row_bytes, result_.batches[0].row_bytes) << "one edge has two of 100 rows";
}
TEST_P(changing_graph, of_a_sliding_window) {
    ASSERT_NO_FATAL_FAILURE(run("er:100,700", update_mode::window, 100));
    expect_right();
    EXPECT_LE(result_.batches.back().edges, 2u * 3 * 100);
}
TEST_P(changing_graph, whose_edges_go_and_come_again) {
    ASSERT_NO_FATAL_FAILURE(run("rgg:150,6", update_mode::reinsert, 200));
    expect_right();
    EXPECT_GT(result_.batches.back().edges, 0u);
}
TEST_P(changing_graph, with_many_edges_of_few_vertices) {
    ASSERT_NO_FATAL_FAILURE(run("grid:12x11,20", update_mode::pressure, 300));
    expect_right();
    // Of 300 random edges between 132 vertices some are twice in their batch.
    EXPECT_EQ(result_.batches.front().duplicates, 0u);
    EXPECT_GT(result_.batches.back().duplicates, 0u);
    EXPECT_FALSE(result_.batches.back().adds);
}
TEST_P(changing_graph, by_kernels) {
    by_ = update_way::kernels;
    ASSERT_NO_FATAL_FAILURE(run("rmat:5,5", update_mode::reinsert, 50));
    expect_right();
    EXPECT_GT(result_.batches.back().edges, 0u);
}
TEST_P(changing_graph, with_weights) {
    weights_ = true;
    ASSERT_NO_FATAL_FAILURE(run("er:40,120", update_mode::build, 60));
    expect_right();
}
TEST_P(changing_graph, with_weights_by_kernels) {
    weights_ = true;
    by_ = update_way::kernels;
    chosen_ = {analysis::sssp};
    ASSERT_NO_FATAL_FAILURE(run("grid:10x8,10", update_mode::pressure, 100));
    expect_right();
    EXPECT_GT(result_.batches.back().duplicates, 0u);
}
TEST_P(changing_graph, changes_the_weights_of_its_second_version) {
    weights_ = true;
    chosen_ = {analysis::sssp};
    edge_list second = *graph_of("er:80,300", 3);
    const weight_table first{second, 3};
    for (std::size_t i = 0; i < second.edges.size(); ++i) {
        second.weights.push_back(first.of(second.edges[i]) + (i % 10 == 0 ? 0.5 : 0));
    }
    const std::uint64_t changed = (second.edges.size() + 9) / 10;
    ASSERT_NO_FATAL_FAILURE(run("er:80,300", update_mode::then, 200, 256 << 20, second));
    expect_right();
    EXPECT_TRUE(result_.second->equal);
    EXPECT_EQ(result_.second->added, changed);
    EXPECT_EQ(result_.second->removed, changed);
}
TEST_P(changing_graph, by_invariants) {
    check_ = graph_check::invariants;
    ASSERT_NO_FATAL_FAILURE(run("rmat:5,4", update_mode::reinsert, 50));
    expect_right();
    EXPECT_EQ(std::reduce(result_.degrees.begin(), result_.degrees.end()), 32u);
}
TEST_P(changing_graph, with_weights_by_invariants) {
    check_ = graph_check::invariants;
    weights_ = true;
    ASSERT_NO_FATAL_FAILURE(run("grid:9x8,20", update_mode::window, 40));
    expect_right();
}
TEST_P(changing_graph, that_is_large_is_compared_when_it_is_full) {
    every_batch_below_ = 0;
    chosen_ = {analysis::bfs};
    ASSERT_NO_FATAL_FAILURE(run("grid:20x10,0", update_mode::build, 100));  // 370 edges: four batches, and four more
    EXPECT_EQ(result_.batches.size(), 8u);
    EXPECT_EQ(result_.analyses[0].times, 4u) << "after batches 1, 4, 5 and 8";
    EXPECT_EQ(result_.analyses[0].edges, 370u);
    EXPECT_EQ(result_.analyses[0].wrong + result_.wrong_edges + result_.wrong_counts, 0u);
}
TEST_P(changing_graph, becomes_its_second_version) {
    const auto first = graph_of("er:40,150", 3);
    std::vector<edge> second;
    for (std::size_t i = 0; i < first->edges.size(); ++i) {
        if (i % 5 != 0) {
            second.push_back(first->edges[i]);
        }
    }
    const std::uint64_t kept = second.size();
    const auto other = graph_of("er:40,60", 4);
    for (const edge& e : other->edges) {
        if (!std::ranges::binary_search(first->edges, e)) {
            second.push_back(e);
        }
    }
    std::ranges::sort(second);
    ASSERT_NO_FATAL_FAILURE(run("er:40,150", update_mode::then, 80, 256 << 20, make_edge_list(40, second)));
    expect_right();
    ASSERT_TRUE(result_.second.has_value());
    EXPECT_TRUE(result_.second->equal);
    EXPECT_EQ(result_.second->added, second.size() - kept);
    EXPECT_EQ(result_.second->removed, first->edges.size() - kept);
    EXPECT_EQ(result_.batches.back().edges, 2 * second.size());
}
TEST_P(changing_graph, that_lacks_edges_is_not_its_second_version) {
    chosen_ = {};
    const std::string input = "er:1500,60000";
    ASSERT_NO_FATAL_FAILURE(run(input, update_mode::then, 30'000, 4 << 20, *graph_of(input, 3)));
    EXPECT_GT(result_.left, 0u);
    EXPECT_FALSE(result_.second->equal);
    EXPECT_TRUE(result_.is_valid) << result_.fault;
}
TEST_P(changing_graph, that_finds_no_memory_says_so_and_stays_valid) {
    chosen_ = {};
    ASSERT_NO_FATAL_FAILURE(run("er:1500,600000", update_mode::build, 300'000, 4 << 20));
    EXPECT_GT(result_.left, 0u);
    EXPECT_TRUE(result_.is_valid) << result_.fault;
}

TEST(analyses, differ_where_one_number_does) {
    analysis_result a;
    a.words = {1, 2, 3};
    analysis_result b = a;
    EXPECT_EQ(difference(analysis::bfs, a, b), "");
    b.words[1] = 7;
    EXPECT_EQ(difference(analysis::bfs, a, b), "bfs of vertex 1 is 2, not 7");
    a.values = {0.5};
    b = a;
    b.values[0] *= 1 + 1e-10;
    EXPECT_EQ(difference(analysis::pagerank, a, b), "");
    EXPECT_THAT(difference(analysis::sssp, a, b), HasSubstr("sssp of vertex 0"));
    b.values[0] *= 1 + 1e-8;
    EXPECT_THAT(difference(analysis::pagerank, a, b), HasSubstr("pagerank of vertex 0"));
    a.count = 3;
    EXPECT_THAT(difference(analysis::triangles, a, b), HasSubstr("3 triangles, not 0"));
}

// Known values: a triangle with a tail, and a vertex by itself.
TEST(analyses, on_the_host_of_a_small_graph) {
    edge_list list =
        make_edge_list(5, {edge::between(0, 1), edge::between(1, 2), edge::between(0, 2), edge::between(2, 3)});
    const auto g = make_host_graph(list);
    ASSERT_TRUE(g.ok());
    using testing::ElementsAre;
    EXPECT_THAT(analyse_on_host(analysis::bfs, *g, {3}).words, ElementsAre(2u, 2u, 1u, 0u, 0x7fffffffu));
    EXPECT_THAT(analyse_on_host(analysis::components, *g, {0}).words, ElementsAre(0u, 0u, 0u, 0u, 4u));
    EXPECT_THAT(analyse_on_host(analysis::kcore, *g, {0}).words, ElementsAre(2u, 2u, 2u, 1u, 0u));
    EXPECT_EQ(analyse_on_host(analysis::triangles, *g, {0}).count, 1u);
    // Rows 0: 1 2; 1: 0 2; 2: 0 1 3; 3: 2. The edge 0-2 is longer than the way by 1.
    const std::vector<double> weights{0.25, 9, 0.25, 0.5, 9, 0.5, 2, 2};
    EXPECT_THAT(analyse_on_host(analysis::sssp, *g, {3}, weights).values,
                ElementsAre(2.75, 2.5, 2, 0, std::numeric_limits<double>::infinity()));
    EXPECT_EQ(analyse_on_host(analysis::sssp, *g, {3}).values[2], weight_of(2, 3));
    const std::vector<double> ranks = analyse_on_host(analysis::pagerank, *g, {0}).values;
    EXPECT_GT(ranks[2], ranks[3]);
}

TEST(graph_inputs, have_the_sizes_that_were_asked_for) {
    EXPECT_EQ(graph_of("rmat:6", 1)->vertices, 64u);
    EXPECT_EQ(graph_of("er:50,100", 1)->vertices, 50u);
    EXPECT_EQ(graph_of("er:50,100", 1)->entries, 100u);
    const auto whole = graph_of("grid:4x3,0", 1);
    EXPECT_EQ(whole->vertices, 12u);
    EXPECT_EQ(whole->edges.size(), 3u * 3 + 2 * 4);
    EXPECT_LT(graph_of("grid:40x30,50", 1)->edges.size(), graph_of("grid:40x30,0", 1)->edges.size() / 2);
    const auto points = graph_of("rgg:2000,8", 1);
    EXPECT_NEAR(2.0 * static_cast<double>(points->edges.size()) / 2000, 8, 1.5);
    EXPECT_EQ(pressure_edges(1000, 5, 100, 1).size(), 100u);
}

TEST(graph_inputs, that_are_wrong_name_the_part_and_the_remedy) {
    for (const auto& [text, why] :
         {std::pair{"rmat:0", "number 1 is from 1 to 30"}, std::pair{"rmat:5,9999", "number 2 is from 1 to 1024"},
          std::pair{"rmat:", "give rmat:SCALE"}, std::pair{"er:5", "give er:VERTICES,EDGES"},
          std::pair{"er:5,6,7", "give er:VERTICES,EDGES"}, std::pair{"grid:5x-1", "number 2"},
          std::pair{"rgg:1,1", "number 1 is from 2"}, std::pair{"/nonexistent/file", "/nonexistent/file"}}) {
        const auto g = graph_of(text, 1);
        ASSERT_FALSE(g.ok()) << text;
        EXPECT_THAT(std::string(g.status().message()), HasSubstr(why));
    }
}

TEST(graph_inputs, that_no_memory_is_for_are_one_error_with_their_description) {
    for (const auto& [text, bytes] : {std::pair{"er:1000,4000", 4000 * 16}, std::pair{"grid:100x50,0", 10'000 * 24},
                                      std::pair{"grid:100x50,50", 2'500 * 24}, std::pair{"rgg:1000,10", 128'000}}) {
        const auto memory = static_cast<std::uint64_t>(bytes);
        EXPECT_TRUE(graph_of(text, 1, edge_weights::dropped, memory).ok()) << text;
        const auto g = graph_of(text, 1, edge_weights::dropped, memory - 1);
        ASSERT_EQ(g.status().code(), absl::StatusCode::kResourceExhausted) << text;
        EXPECT_THAT(std::string(g.status().message()), HasSubstr(absl::StrCat("graph \"", text, "\" needs")));
        EXPECT_THAT(std::string(g.status().message()), HasSubstr("use a smaller graph"));
    }
    const std::uint64_t of_rmat = 32 * 16 * 16 + 32 * 4;
    EXPECT_TRUE(graph_of("rmat:5", 1, edge_weights::dropped, of_rmat).ok());
    EXPECT_EQ(graph_of("rmat:5", 1, edge_weights::dropped, of_rmat - 1).status().code(),
              absl::StatusCode::kResourceExhausted);
}

TEST(graph_inputs, that_are_no_text_have_an_error_of_one_line) {
    const absl::Status s = graph_of("er:1\n0,\x01", 1).status();
    EXPECT_THAT(std::string(s.message()), HasSubstr("graph \"er:1\\n0,\\x01\": give er:VERTICES,EDGES"));
}

/// Reads a METIS file with this content.
absl::StatusOr<edge_list> metis(const std::string& content, edge_weights weights = edge_weights::dropped) {
    const std::string path = testing::TempDir() + absl::StrCat("orchard_", ::getpid(), ".metis");
    std::ofstream(path) << content;
    auto read = read_graph(path, weights);
    std::remove(path.c_str());
    return read;
}

TEST(metis_graph, is_read_with_and_without_weights) {
    const auto plain = metis("% a comment\n4 3\n2\n1 3\n2\n\n");
    EXPECT_FALSE(plain.ok()) << "three edges are named four times";
    const auto right = metis("4 2\n2\n1 3\n2\n\n");
    ASSERT_TRUE(right.ok()) << right.status();
    EXPECT_EQ(right->vertices, 4u);
    EXPECT_EQ(right->edges.size(), 2u);
    const auto weights = metis("3 2 011 2\n7 8 2 5\n7 8 1 5 3 6\n7 8 2 6\n");
    ASSERT_TRUE(weights.ok()) << weights.status();
    EXPECT_TRUE(std::ranges::equal(weights->edges, right->edges, {}, &edge::key, &edge::key));
    EXPECT_TRUE(weights->weights.empty());
    const auto kept = metis("3 2 011 2\n7 8 2 5\n7 8 1 5 3 6\n7 8 2 6\n", edge_weights::kept);
    ASSERT_TRUE(kept.ok()) << kept.status();
    EXPECT_THAT(kept->weights, testing::ElementsAre(5, 6));
}

TEST(metis_graph, that_is_wrong_is_one_error_with_its_line) {
    for (const auto& [content, why] :
         {std::pair{"", "is empty"}, std::pair{"% only\n", "comments alone"}, std::pair{"x 1\n", ":1: "},
          std::pair{"2 1\n2\n", "ends after 1 of 2 vertices"},
          std::pair{"2 1\n3\n1\n", "3 as a neighbour is out of range"}, std::pair{"2 1\n0\n1\n", "0 as a neighbour"},
          std::pair{"2 1 200\n2\n1\n", "the format 200"}, std::pair{"2 1\n2\n1\n1\n", "a line beyond the 2 vertices"},
          std::pair{"2 5\n2\n1\n", "names 2 neighbours"}, std::pair{"2 1 001\n2\n1 1\n", "the weight of an edge"},
          std::pair{"5000000000 1\n", "too many"}}) {
        const auto g = metis(content);
        ASSERT_FALSE(g.ok()) << content;
        EXPECT_THAT(std::string(g.status().message()), HasSubstr(why));
    }
}

TEST(graph_command, checks_by_invariants) {
    const auto [code, text] = test::run_emulated("graph", {"rmat:6,3", "--batch", "80", "--check", "invariants"});
    EXPECT_EQ(code, 0) << text;
    EXPECT_THAT(text, HasSubstr("times by invariants, on the graph and on rows"));
    EXPECT_THAT(text, HasSubstr("degree  vertices"));
    test::expect_refused("graph", {{"rmat:5", "--check", "invariants", "--updates", "pressure"}});
}

TEST(graph_command, prints_batches_degrees_and_checks) {
    const auto [code, text] = test::run_emulated("graph", {"rmat:6", "--batch", "200", "--analyses", "bfs,kcore"});
    EXPECT_EQ(code, 0) << text;
    EXPECT_THAT(text, HasSubstr("passed  kcore"));
    EXPECT_THAT(text, HasSubstr("degree  vertices"));
    EXPECT_THAT(text, testing::Not(HasSubstr("pagerank")));
}

// The counts of examples/data/README.md; what the file without its direction has.
TEST(package_graphs, differ_by_what_the_updates_of_debian_changed) {
    const std::string folder = ORCHARD_SOURCE_DIR "/examples/data/debian12-";
    const auto release = read_graph(folder + "release.mtx.gz");
    const auto updates = read_graph(folder + "updates.mtx.gz");
    ASSERT_TRUE(release.ok() && updates.ok()) << release.status() << updates.status();
    EXPECT_EQ(release->vertices, 63'538u);
    EXPECT_EQ(updates->vertices, release->vertices);
    std::vector<edge> both;
    std::ranges::set_intersection(release->edges, updates->edges, std::back_inserter(both));
    EXPECT_EQ(release->entries, 299'188u);
    EXPECT_EQ(updates->entries, 299'475u);
    EXPECT_EQ(release->edges.size() - both.size(), 183u);
    EXPECT_EQ(updates->edges.size() - both.size(), 468u);
}

TEST(graph_command, slow_applies_the_updates_of_debian) {
    const std::string folder = ORCHARD_SOURCE_DIR "/examples/data/debian12-";
    const auto [code, text] =
        test::run_emulated("graph", {folder + "release.mtx.gz", "--then", folder + "updates.mtx.gz", "--batch",
                                     "1000000", "--analyses", "none", "--quiet"});
    EXPECT_EQ(code, 0) << text;
    EXPECT_THAT(text, HasSubstr("468 edges added, 183 removed; the rows are those of the second graph"));
}

TEST(graph_command, says_what_a_snapshot_took) {
    const auto [code, text] =
        test::run_emulated("graph", {"rmat:6", "--batch", "100", "--analyses", "none", "--snapshot"});
    EXPECT_EQ(code, 0) << text;
    EXPECT_THAT(text, HasSubstr("after all others it has exactly the"));
    EXPECT_THAT(text, HasSubstr("at the end it kept"));
}

TEST(graph_command, uses_the_weights_of_a_file) {
    const std::string path = testing::TempDir() + absl::StrCat("orchard_", ::getpid(), ".mtx");
    std::ofstream(path)
        << "%%MatrixMarket matrix coordinate real symmetric\n4 4 4\n2 1 0.5\n3 1 2.75\n3 2 1e-3\n4 3 7\n";
    const auto [code, text] = test::run_emulated("graph", {path, "--weights", "input", "--by", "kernels", "--json"});
    EXPECT_EQ(code, 0) << text;
    EXPECT_THAT(text, HasSubstr("\"weights\": true"));
    EXPECT_THAT(text, HasSubstr("\"by\": \"kernels\""));
    test::expect_refused("graph", {{path, "--weights", "input", "--then", "rmat:3"}});
    std::remove(path.c_str());
}

TEST(graph_command, refuses_what_makes_no_sense) {
    test::expect_refused("graph", {{"rmat:99"},
                                   {"rmat:5", "--analyses", "bfs,other"},
                                   {"rmat:5", "--batch", "0"},
                                   {"rmat:5", "--updates", "sometimes"},
                                   {"rmat:5", "--order", "x"},
                                   {"rmat:5", "--weights", "input"},
                                   {"rmat:5", "--weights", "x"},
                                   {"rmat:5", "--by", "hand"},
                                   {"rmat:5", "--check", "hand"},
                                   {"rmat:5", "--then", "rmat:0"},
                                   {"rmat:5", "--then", "rmat:6", "--updates", "window"},
                                   {"rmat:5", "--then", "rmat:6", "--batch", "9", "--batches", "3"},
                                   {"grid:1x1,0"},
                                   {"/nonexistent"}});
}

}  // namespace
}  // namespace orchard::examples
