// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Each check must be able to fail: every check gets an input with the fault that it must find.

#include "examples/walk/checks.hpp"

#include <utility>
#include <vector>

#include <absl/strings/match.h>
#include <gtest/gtest.h>

#include "tests/walk/graphs.hpp"

namespace orchard::examples {
namespace {

host_graph graph_of(const edge_list& list) {
    absl::StatusOr<host_graph> graph = make_host_graph(list);
    EXPECT_TRUE(graph.ok());
    return *std::move(graph);
}

/// Returns the walk that the rule prescribes on `graph`.
std::vector<std::uint32_t> right_walk(const host_graph& graph, const walk_rule& rule, std::uint64_t walker) {
    std::vector<std::uint32_t> walk{rule.start(walker)};
    for (std::uint32_t step = 1; step <= rule.steps; ++step) {
        const std::uint32_t v = walk.back();
        walk.push_back(graph.of(v)[rule.neighbour(walker, step, graph.degree(v))]);
    }
    return walk;
}

std::vector<std::uint64_t> visits_of(const std::vector<std::uint32_t>& walk, std::uint32_t vertices) {
    std::vector<std::uint64_t> visits(vertices);
    for (const std::uint32_t v : walk) {
        ++visits[v];
    }
    return visits;
}

TEST(adjacency_check, order_does_not_matter_but_everything_else_does) {
    const host_graph input = graph_of(test::star(6));
    host_graph other = input;
    std::swap(other.neighbours[0], other.neighbours[5]);
    EXPECT_TRUE(check_adjacency(input, other).passed);

    other.neighbours[0] = other.neighbours[1];  // one twice, one missing
    const check twice = check_adjacency(input, other);
    EXPECT_FALSE(twice.passed);
    EXPECT_TRUE(absl::StrContains(twice.detail, "the first is 0")) << twice.detail;

    EXPECT_FALSE(check_adjacency(input, graph_of(test::star(5, 1))).passed);  // an edge is missing
    EXPECT_FALSE(check_adjacency(input, graph_of(test::star(6, 1))).passed);  // a vertex too many
}

class walk_check : public ::testing::Test {
protected:
    const host_graph graph_ = graph_of(test::path(100));
    const walk_rule rule_{7, 100, 30, dead_end::stop};
    const std::vector<std::uint32_t> walk_ = right_walk(graph_, rule_, 3);
    walk_checker checker_{graph_, graph_, rule_};
};

TEST_F(walk_check, takes_the_right_walk) {
    checker_.add(3, walk_);
    EXPECT_TRUE(checker_.every_step_an_edge().passed);
    EXPECT_TRUE(checker_.visits_equal(visits_of(walk_, 100)).passed);
}

TEST_F(walk_check, finds_a_step_that_is_no_edge) {
    std::vector<std::uint32_t> walk = walk_;
    walk.back() = walk.back() < 50 ? 99 : 0;
    checker_.add(3, walk);
    EXPECT_FALSE(checker_.every_step_an_edge().passed);
}

TEST_F(walk_check, finds_a_vertex_that_does_not_exist) {
    std::vector<std::uint32_t> walk = walk_;
    walk[4] = 0xffffffff;
    checker_.add(3, walk);
    EXPECT_FALSE(checker_.every_step_an_edge().passed);
    EXPECT_FALSE(checker_.visits_equal(visits_of(walk_, 100)).passed);
}

TEST_F(walk_check, finds_a_walk_that_ends_early_or_is_another_ones) {
    checker_.add(3, std::vector<std::uint32_t>(walk_.begin(), walk_.end() - 1));
    EXPECT_TRUE(checker_.every_step_an_edge().passed);
    EXPECT_FALSE(checker_.visits_equal(visits_of(walk_, 100)).passed);
    walk_checker other(graph_, graph_, rule_);
    other.add(4, walk_);
    EXPECT_FALSE(other.visits_equal(visits_of(right_walk(graph_, rule_, 4), 100)).passed);
}

TEST_F(walk_check, finds_a_wrong_visit_count) {
    checker_.add(3, walk_);
    std::vector<std::uint64_t> visits = visits_of(walk_, 100);
    ++visits[0];
    EXPECT_FALSE(checker_.visits_equal(visits).passed);
}

TEST_F(walk_check, no_walk_at_all_is_a_failure) {
    EXPECT_FALSE(checker_.visits_equal(std::vector<std::uint64_t>(100)).passed);
}

TEST(restart, is_a_step_only_from_a_dead_end_and_only_where_the_rule_has_it) {
    const host_graph graph = graph_of(test::star(3, 1));  // vertex 4 is alone
    for (const dead_end rule : {dead_end::stop, dead_end::restart}) {
        walk_checker checker(graph, graph, {1, 5, 1, rule});
        checker.add(0, std::vector<std::uint32_t>{4, 2});
        EXPECT_EQ(checker.every_step_an_edge().passed, rule == dead_end::restart);
        walk_checker beside(graph, graph, {1, 5, 1, rule});
        beside.add(0, std::vector<std::uint32_t>{1, 2});
        EXPECT_FALSE(beside.every_step_an_edge().passed);
    }
}

TEST(heap_check, each_number_matters) {
    statistics good;
    good.allocations = good.frees = 10;
    good.chunk_allocations = good.multi_lane_groups = good.reallocs_moved = good.slabs_retired = 1;
    const auto passed = [](const statistics& s, const absl::Status& valid = absl::OkStatus()) {
        walk_result result;
        result.checks = check_heap(s, valid);
        return result.passed();
    };
    EXPECT_TRUE(passed(good));
    EXPECT_FALSE(passed(good, absl::InternalError("bitmap 3 disagrees")));
    for (auto field : {&statistics::chunk_allocations, &statistics::multi_lane_groups, &statistics::reallocs_moved,
                       &statistics::slabs_retired}) {
        statistics small = good;
        small.*field = 0;
        walk_result result;
        result.checks = check_heap(small, absl::OkStatus());
        EXPECT_TRUE(result.passed());
        EXPECT_FALSE(used_all(result.checks));
    }
    statistics leak = good;
    leak.frees = 0;
    EXPECT_FALSE(passed(leak));
    for (auto field : {&statistics::pages_in_use, &statistics::live_chunks, &statistics::failed_allocations}) {
        statistics bad = good;
        bad.*field = 1;
        EXPECT_FALSE(passed(bad));
    }
}

}  // namespace
}  // namespace orchard::examples
