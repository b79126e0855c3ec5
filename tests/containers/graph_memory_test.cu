// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Graphs in memory that has `malloc` and `free` alone, with the table of vertices in other memory.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "tests/containers/graph_fixture.hpp"

namespace orchard::test {
namespace {

/// The view of an allocator that has no more than it must have.
struct plain_memory {
    heap_ref of;
    heap_ref other;
    [[nodiscard]] ORCHARD_FN void* malloc(std::uint64_t bytes) const {
        return bytes < device::graph_table::bytes_of_segment ? of.malloc(bytes) : nullptr;
    }
    ORCHARD_FN void free(void* p) const { of.free(p); }
    [[nodiscard]] ORCHARD_FN const heap_ref& tables() const { return other; }
};

class containers_graph_memory : public graph_contract {
protected:
    using graph_type = graph<no_property, plain_memory>;

    void SetUp() override {
        graph_contract::SetUp();
        if (IsSkipped() || HasFatalFailure()) {
            return;
        }
        if (has_few_segments()) {
            GTEST_SKIP() << "rows of each size take a segment of their own";
        }
        auto other = make_another(GetParam().values());
        ASSERT_TRUE(other.ok()) << other.status();
        other_.emplace(*std::move(other));
        auto made = graph_type::create(h().executor(), {h().ref(), other_->ref()});
        ASSERT_TRUE(made.ok()) << made.status();
        made_.emplace(*std::move(made));
    }
    void TearDown() override {
        made_.reset();
        other_.reset();
        graph_contract::TearDown();
    }

    std::optional<heap> other_;  ///< of the table of vertices
    std::optional<graph_type> made_;
};
INSTANTIATE_TEST_SUITE_P(all, containers_graph_memory, ::testing::ValuesIn(heap_cases()), case_name);

TEST_P(containers_graph_memory, has_rows_and_tables_and_snapshots) {
    edge_set now;
    random_numbers random(23);
    std::vector<graph_snapshot<no_property, plain_memory>> snapshots;
    std::vector<edge_set> then;
    for (int round = 0; round < 4; ++round) {
        const auto edges = random_edges(random, 5'000, 800);
        const auto added = batch_of(edges);
        ASSERT_EQ(made_->insert(added.batch).value_or(batch_result{0, 0, 1}).left, 0u);
        now.insert(edges.begin(), edges.end());
        edges_on_host some;
        std::copy_if(now.begin(), now.end(), std::back_inserter(some),
                     [&](const graph_edge&) { return random() % 3 == 0; });
        const auto removed = batch_of(some);
        ASSERT_EQ(made_->erase(removed.batch).value_or(batch_result{}).taken, some.size());
        for (const graph_edge& e : some) {
            now.erase(e);
        }
        auto snapshot = made_->snapshot();
        ASSERT_TRUE(snapshot.ok()) << snapshot.status();
        snapshots.push_back(*std::move(snapshot));
        then.push_back(now);
    }
    for (std::size_t i = 0; i < snapshots.size(); ++i) {
        ASSERT_EQ(edges_of(made_->to_csr(snapshots[i])), then[i]) << i;
    }
    snapshots.erase(snapshots.begin(), snapshots.begin() + 2);  // their rows are freed
    EXPECT_EQ(edges_of(made_->to_csr(snapshots.front())), then[2]);
    EXPECT_EQ(edges_of(made_->to_csr()), now);
    snapshots.clear();
    EXPECT_TRUE(made_->clear().ok());
    expect_empty();
    const auto stats = other_->stats();
    ASSERT_TRUE(stats.ok()) << stats.status();
    EXPECT_EQ(stats->pages_in_use, 0u);
}

TEST_P(containers_graph_memory, without_memory_for_a_row_leaves_its_edges) {
    edges_on_host star;
    for (std::uint32_t v = 1; v <= 17'000; ++v) {
        star.emplace_back(0, v);
    }
    const auto held = batch_of(star, true);
    const auto done = made_->insert(held.batch);
    ASSERT_TRUE(done.ok()) << done.status();
    EXPECT_EQ(done->left, 17'000u);  // of vertex 0, whose row is longer than any block
    EXPECT_EQ(done->taken, 17'000u);
}

}  // namespace
}  // namespace orchard::test
