// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Snapshots of graphs: they stay as they are while the graph changes.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "tests/containers/graph_fixture.hpp"

namespace orchard::test {
namespace {

class containers_graph_snapshot : public graph_contract {};
INSTANTIATE_TEST_SUITE_P(all, containers_graph_snapshot, ::testing::ValuesIn(heap_cases()), case_name);

TEST_P(containers_graph_snapshot, snapshots_stay_as_they_are) {
    if (has_few_segments()) {
        GTEST_SKIP() << "rows of each size take a segment of their own";
    }
    auto g = make_graph();
    edge_set now;
    random_numbers random(19);
    std::vector<graph_snapshot<>> snapshots;
    std::vector<edge_set> then;
    for (int round = 0; round < 7; ++round) {
        const auto edges = random_edges(random, 5'000, 800);
        if (round == 4) {  // by kernels
            const auto held = batch_of(edges);
            const auto results = array<simt::device_word<std::uint64_t>>(3);
            launch({2, 64}, change_each{g.ref(), held.batch.sources, held.batch.targets, edges.size(), edge_call::add,
                                        results.data()});
        } else {
            insert(g, edges);
        }
        now.insert(edges.begin(), edges.end());
        edges_on_host half;
        for (const graph_edge& e : now) {
            if (random() % 3 == 0) {
                half.push_back(e);
            }
        }
        erase(g, half);
        for (const graph_edge& e : half) {
            now.erase(e);
        }
        if (round == 5) {  // the oldest goes first, and one in the middle
            snapshots.erase(snapshots.begin());
            then.erase(then.begin());
            snapshots.erase(snapshots.begin() + 1);
            then.erase(then.begin() + 1);
        }
        auto made = g.snapshot();
        ASSERT_TRUE(made.ok()) << made.status();
        snapshots.push_back(*std::move(made));
        then.push_back(now);
        for (std::size_t i = 0; i < snapshots.size(); ++i) {
            ASSERT_EQ(edges_of(g.to_csr(snapshots[i])), then[i]) << round << " " << i;
        }
    }
    EXPECT_EQ(g.clear().code(), absl::StatusCode::kFailedPrecondition);
    const std::vector<std::uint32_t> hub{3};
    ASSERT_TRUE(g.erase_vertices(array_of(hub).data(), 1).ok());
    std::erase_if(now, [](const graph_edge& e) { return e.first == 3 || e.second == 3; });
    expect_edges(g, now);
    for (std::size_t i = 0; i < snapshots.size(); ++i) {
        ASSERT_EQ(edges_of(g.to_csr(snapshots[i])), then[i]) << i;
    }
    snapshots.clear();
    expect_edges(g, now);
    EXPECT_TRUE(g.clear().ok());
    expect_empty();
}

// Edges are only added, so that each snapshot has at least what the one before has.
TEST_P(containers_graph_snapshot, snapshots_are_taken_while_kernels_add_edges) {
    if (has_few_segments()) {
        GTEST_SKIP() << "rows of each size take a segment of their own";
    }
    auto g = make_graph();
    random_numbers random(29);
    const auto edges = random_edges(random, 500, 2'000);
    insert(g, {{499, 499}});
    const auto held = batch_of(edges);
    const auto results = array<simt::device_word<std::uint64_t>>(3);
    std::atomic<bool> is_over = false;
    std::jthread kernel([&] {
        launch({4, 64}, change_each{g.ref(), held.batch.sources, held.batch.targets, edges.size(), edge_call::add,
                                    results.data()});
        is_over = true;
    });
    std::optional<graph_snapshot<>> before;
    edge_set earlier;
    for (bool last = false; !last;) {
        last = is_over;
        auto made = g.snapshot();
        ASSERT_TRUE(made.ok()) << made.status();
        const edge_set first = edges_of(g.to_csr(*made));
        EXPECT_TRUE(std::ranges::includes(first, earlier));
        EXPECT_EQ(edges_of(g.to_csr(*made)), first);
        if (before) {
            EXPECT_EQ(edges_of(g.to_csr(*before)), earlier) << "the one before is as it was";
        }
        before.emplace(*std::move(made));
        earlier = first;
    }
    edge_set wanted(edges.begin(), edges.end());
    wanted.emplace(499, 499);
    EXPECT_EQ(earlier, wanted);
    kernel.join();
    before.reset();
    EXPECT_TRUE(g.clear().ok());
    expect_empty();
}

TEST_P(containers_graph_snapshot, a_snapshot_may_outlive_its_graph) {
    auto g = std::make_unique<graph<>>(make_graph());
    insert(*g, {{1, 2}, {1, 3}});
    auto snapshot = g->snapshot();
    ASSERT_TRUE(snapshot.ok());
    auto other = make_graph();
    g.reset();
    EXPECT_EQ(edges_of(other.to_csr(*snapshot)), edge_set()) << "the vertices are those of the other graph";
    EXPECT_TRUE(other.reserve_vertices(4).ok());
    EXPECT_EQ(edges_of(other.to_csr(*snapshot)), (edge_set{{1, 2}, {1, 3}}));
}

TEST_P(containers_graph_snapshot, fifteen_snapshots_are_the_most) {
    auto g = make_graph();
    std::vector<graph_snapshot<>> snapshots;
    for (int i = 0; i < 15; ++i) {
        auto made = g.snapshot();
        ASSERT_TRUE(made.ok()) << made.status();
        snapshots.push_back(*std::move(made));
    }
    EXPECT_EQ(g.snapshot().status().code(), absl::StatusCode::kResourceExhausted);
    snapshots.erase(snapshots.begin() + 7);
    EXPECT_TRUE(g.snapshot().ok());
}

}  // namespace
}  // namespace orchard::test
