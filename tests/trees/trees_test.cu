// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The trees that many threads build, against plain programs on the host.

#include <gmock/gmock.h>

#include "examples/trees/tree_inputs.hpp"
#include "examples/trees/tree_run.hpp"
#include "tests/support/hardened_fixture.hpp"
#include "tests/support/run_command.hpp"

namespace orchard::examples {
namespace {

using testing::HasSubstr;

class trees : public test::on_each_device {
protected:
    void make(std::uint64_t capacity) {
        options o;
        o.device = GetParam();
        o.capacity = capacity;
        o.backing = backing_option::elastic;
        o.emulated_workers = 2;
        auto made = heap::create(o);
        ASSERT_TRUE(made.ok()) << made.status();
        heap_.emplace(*std::move(made));
    }
    void expect_empty() {
        ASSERT_TRUE(heap_->trim().ok());
        EXPECT_TRUE(heap_->validate().ok()) << heap_->validate();
        EXPECT_EQ(heap_->stats()->pages_in_use, 0u);
    }
    std::optional<heap> heap_;
    command_line::progress bar_{false};
};
INSTANTIATE_TEST_SUITE_P(all, trees, testing::Values(device_option::emulated, device_option::cuda),
                         test::name_of_device);

void expect_keys(const search_tree_result& r, const std::vector<key_pair>& edges, std::uint32_t keys) {
    const std::vector<key_record> right = expected_keys(edges, keys);
    std::uint64_t there = 0;
    for (std::uint32_t k = 0; k < keys; ++k) {
        ASSERT_EQ(r.keys[k].is_there, right[k].is_there) << k;
        ASSERT_EQ(r.keys[k].edges, right[k].edges) << k;
        ASSERT_EQ(r.keys[k].sum, right[k].sum) << k;
        there += right[k].is_there;
    }
    EXPECT_EQ(r.nodes, there) << "no key twice";
    EXPECT_EQ(r.edges, edges.size());
    EXPECT_EQ(r.left_out, 0u);
}

TEST_P(trees, of_a_graph_have_each_vertex_once_with_its_edges) {
    make(64 << 20);
    // Few keys, for which many threads compete, and many.
    for (const std::uint32_t keys : {1u, 3u, 700u}) {
        const auto edges = random_edges(4000, keys, keys);
        for (const std::uint64_t bump : {std::uint64_t{0}, std::uint64_t{4000} * 128}) {
            const auto r = run_search_tree(*heap_, bump, edges, keys, 200, 3, bar_);
            ASSERT_TRUE(r.ok()) << r.status();
            ASSERT_NO_FATAL_FAILURE(expect_keys(*r, edges, keys));
            EXPECT_EQ(r->times.build_us.size(), 3u);
        }
        expect_empty();
    }
}

TEST_P(trees, without_memory_leave_edges_out_and_lose_nothing) {
    make(4 << 20);
    const auto edges = random_edges(400'000, 50'000, 2);
    const auto r = run_search_tree(*heap_, 0, edges, 50'000, 200, 1, bar_);
    ASSERT_TRUE(r.ok()) << r.status();
    EXPECT_GT(r->left_out, 0u);
    EXPECT_EQ(r->edges + r->left_out, edges.size());
    std::uint64_t in_lists = 0;
    for (const key_record& k : r->keys) {
        in_lists += k.edges;
    }
    EXPECT_EQ(in_lists, r->edges);
    expect_empty();
}

TEST_P(trees, of_bodies_have_each_of_them_and_the_forces_of_all_pairs) {
    make(64 << 20);
    for (const std::uint64_t seed : {1, 2}) {
        const auto bodies = random_bodies(1500, seed);
        const auto exact = run_octree(*heap_, bodies, 150, 0, 1e-5, 2, bar_);
        ASSERT_TRUE(exact.ok()) << exact.status();
        EXPECT_EQ(exact->bodies, bodies.size());
        EXPECT_EQ(exact->left_out, 0u);
        EXPECT_EQ(std::accumulate(exact->at_depth.begin(), exact->at_depth.end(), std::uint64_t{0}), bodies.size());
        EXPECT_LT(force_error(bodies, exact->forces, 1e-5, bodies.size()), 1e-9) << "the order of a sum alone differs";
        const auto near = run_octree(*heap_, bodies, 150, 0.5, 1e-5, 1, bar_);
        ASSERT_TRUE(near.ok()) << near.status();
        const double error = force_error(bodies, near->forces, 1e-5, bodies.size());
        EXPECT_LT(error, 0.01);
        EXPECT_GT(error, 1e-9) << "cells were taken as one mass";
        EXPECT_EQ(near->cells, exact->cells) << "the tree does not depend on the order of the threads";
        expect_empty();
    }
}

// Bodies of one place share a word in whatever depth; those of neighbouring places differ in the last depth alone.
TEST_P(trees, of_bodies_that_lie_at_few_places) {
    make(64 << 20);
    std::vector<body> bodies(300);
    for (std::uint32_t i = 0; i < bodies.size(); ++i) {
        bodies[i] = {1000 + i % 2, 1000, 1000};
    }
    const auto r = run_octree(*heap_, bodies, 300, 0, 1e-5, 1, bar_);
    ASSERT_TRUE(r.ok()) << r.status();
    EXPECT_EQ(r->bodies, bodies.size());
    EXPECT_EQ(r->cells, octree_depth - 1);
    EXPECT_EQ(r->at_depth.back(), 0u);
    EXPECT_EQ(r->at_depth[octree_depth - 1], bodies.size());
    EXPECT_LT(force_error(bodies, r->forces, 1e-5, 300), 1e-9);
    expect_empty();
}

TEST_P(trees, of_bodies_without_memory_leave_some_out) {
    make(4 << 20);
    // Pairs of neighbours, far from each other: each takes the cells of some twenty depths.
    std::vector<body> bodies(5000);
    for (std::uint64_t i = 0; i < bodies.size(); ++i) {
        const std::uint64_t bits = simt::random_bits(5, 0, i / 2);
        const auto x = static_cast<std::uint32_t>((bits >> 34 & ~std::uint64_t{1}) | (i & 1));
        bodies[i] = {x, static_cast<std::uint32_t>(bits & 0x3fffffff), 7};
    }
    const auto r = run_octree(*heap_, bodies, 500, 0.5, 1e-5, 1, bar_);
    ASSERT_TRUE(r.ok()) << r.status();
    EXPECT_GT(r->left_out, 0u);
    expect_empty();
}

TEST(tree_command, runs_and_checks) {
    const auto [code, text] =
        test::run_emulated("tree", {"--edges", "2000", "--nodes", "300", "--bodies", "500", "--repeats", "2"});
    EXPECT_EQ(code, 0) << text;
    EXPECT_THAT(text, HasSubstr("passed  search tree, in the heap"));
    EXPECT_THAT(text, HasSubstr("passed  octree: forces as by all pairs"));
    EXPECT_THAT(text, HasSubstr("bodies by the depth"));
}

TEST(tree_command, fails_without_memory) {
    const auto [code, text] = test::run_emulated(
        "tree", {"--edges", "400000", "--nodes", "50000", "--bodies", "500", "--repeats", "1", "--capacity", "4MiB"});
    EXPECT_EQ(code, 1) << text;
    EXPECT_THAT(text, HasSubstr("FAILED  search tree, in the heap"));
}

TEST(tree_command, without_memory_is_one_error_with_the_sizes) {
    const std::uint64_t bytes = 2000 * sizeof(key_pair) + 300 * 48 + 500 * 36;
    EXPECT_TRUE(check_tree_memory(2000, 300, 500, simt::device_kind::cuda, bytes).ok());
    for (const auto& [device, have] :
         {std::pair{simt::device_kind::cuda, bytes - 1}, std::pair{simt::device_kind::emulated, 2 * bytes}}) {
        const absl::Status s = check_tree_memory(2000, 300, 500, device, have);
        EXPECT_EQ(s.code(), absl::StatusCode::kResourceExhausted);
        EXPECT_THAT(std::string(s.message()), testing::AllOf(HasSubstr("--edges 2000 --nodes 300 --bodies 500 needs"),
                                                             HasSubstr("give smaller numbers")));
    }
}

TEST(tree_command, refuses_what_makes_no_sense) {
    test::expect_refused("tree", {{"--opening", "0.6"},
                                  {"--bodies", "1"},
                                  {"--edges", "0"},
                                  {"--nodes", "0"},
                                  {"--threads", "x"},
                                  {"--repeats", "0"}});
}

}  // namespace
}  // namespace orchard::examples
