// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The invariants of rows and of results hold where these are right, and not where they are those of another graph.

#include <gmock/gmock.h>

#include <limits>
#include <optional>
#include <vector>

#include "examples/dynamic_graph/analysis_runner.cuh"
#include "tests/support/hardened_fixture.hpp"

namespace orchard::examples {
namespace {

/// Rows on the device.
struct device_rows {
    device_array<std::uint64_t> offsets;
    device_array<std::uint32_t> targets;
    device_array<double> weights;

    [[nodiscard]] csr_rows view() const { return {offsets.data(), targets.data(), weights.data()}; }
};

using rows = std::vector<std::vector<std::uint32_t>>;

class invariants : public test::on_each_device {
protected:
    void SetUp() override {
        test::on_each_device::SetUp();
        if (IsSkipped()) {
            return;
        }
        options o;
        o.device = GetParam();
        o.capacity = 64 << 20;
        o.backing = backing_option::elastic;
        auto h = heap::create(o);
        ASSERT_TRUE(h.ok()) << h.status();
        heap_.emplace(*std::move(h));
        auto made = analysis_runner::create(heap_->executor(), 6);
        ASSERT_TRUE(made.ok()) << made.status();
        runner_.emplace(*std::move(made));
    }
    /// Copies rows of six vertices to the device; all weights are `weight`.
    [[nodiscard]] device_rows on_device(const rows& of, double weight = 2) const {
        std::vector<std::uint64_t> offsets{0};
        std::vector<std::uint32_t> targets;
        for (const auto& row : of) {
            targets.insert(targets.end(), row.begin(), row.end());
            offsets.push_back(targets.size());
        }
        device_rows made;
        EXPECT_TRUE(make(heap_->executor(), offsets.size(), made.offsets).ok());
        EXPECT_TRUE(make(heap_->executor(), targets.size(), made.targets).ok());
        EXPECT_TRUE(make(heap_->executor(), targets.size(), made.weights).ok());
        EXPECT_TRUE(made.offsets.upload(offsets).ok());
        EXPECT_TRUE(made.targets.upload(targets).ok());
        EXPECT_TRUE(made.weights.upload(std::vector<double>(targets.size(), weight)).ok());
        return made;
    }
    /// Returns how many invariants of `other` the result of `first` violates.
    std::uint64_t violations(analysis what, const device_rows& first, const device_rows& other,
                             std::uint32_t source = 0) {
        EXPECT_TRUE(runner_->run(what, first.view(), {0}).ok());
        const auto found = runner_->violations(what, other.view(), {source});
        EXPECT_TRUE(found.ok()) << found.status();
        return found.ok() ? *found : 0;
    }
    std::uint64_t wrong_rows(const rows& of) {
        const device_rows made = on_device(of);
        const auto sums = runner_->check(made.view(), true);
        EXPECT_TRUE(sums.ok()) << sums.status();
        return sums.ok() ? sums->wrong : 0;
    }
    std::optional<heap> heap_;
    std::optional<analysis_runner> runner_;
    // A path 0-1-2-3 with a chord 0-2; 4-5 by themselves.
    const rows graph_{{1, 2}, {0, 2}, {0, 1, 3}, {2}, {5}, {4}};
    const rows joined_{{1, 2}, {0, 2}, {0, 1, 3}, {2, 4}, {3, 5}, {4}};
    const rows without_chord_{{1}, {0, 2}, {1, 3}, {2}, {5}, {4}};
};
INSTANTIATE_TEST_SUITE_P(all, invariants, testing::Values(device_option::emulated, device_option::cuda),
                         test::name_of_device);

TEST_P(invariants, hold_of_right_results_and_of_no_others) {
    const device_rows graph = on_device(graph_);
    const device_rows joined = on_device(joined_);
    const device_rows without = on_device(without_chord_);
    for (const analysis what : {analysis::bfs, analysis::sssp, analysis::components, analysis::kcore}) {
        EXPECT_EQ(violations(what, graph, graph), 0u) << name_of(what);
        EXPECT_EQ(violations(what, joined, joined), 0u) << name_of(what);
    }
    for (const analysis what : {analysis::bfs, analysis::sssp}) {
        EXPECT_GT(violations(what, graph, graph, 1), 0u) << name_of(what) << " from elsewhere";
        EXPECT_GT(violations(what, graph, without), 0u) << name_of(what) << " over an edge that is not there";
        EXPECT_GT(violations(what, without, graph), 0u) << name_of(what) << " not over an edge that is there";
        EXPECT_GT(violations(what, graph, joined), 0u) << name_of(what) << " that did not reach all";
        EXPECT_GT(violations(what, joined, graph), 0u) << name_of(what) << " that reached too much";
    }
    EXPECT_GT(violations(analysis::sssp, graph, on_device(graph_, 3)), 0u);
    EXPECT_GT(violations(analysis::components, graph, joined), 0u);
    EXPECT_GT(violations(analysis::kcore, graph, without), 0u);
}

TEST_P(invariants, of_rows) {
    EXPECT_EQ(wrong_rows(graph_), 0u);
    EXPECT_GT(wrong_rows({{2, 1}, {0, 2}, {0, 1, 3}, {2}, {5}, {4}}), 0u) << "does not ascend";
    EXPECT_GT(wrong_rows({{1, 1, 2}, {0, 2}, {0, 1, 3}, {2}, {5}, {4}}), 0u) << "twice";
    EXPECT_EQ(wrong_rows({{1, 2}, {0, 2}, {0, 1, 3}, {2}, {5}, {}}), 1u) << "in one row alone";
    EXPECT_EQ(wrong_rows({{1, 2}, {0, 2}, {0, 1, 3}, {2}, {4}, {}}), 1u) << "a loop";
    EXPECT_EQ(wrong_rows({{1, 2}, {0, 2}, {0, 1, 3}, {2}, {6}, {}}), 1u) << "beyond the vertices";
}

TEST_P(invariants, of_a_set_of_edges_are_its_sums) {
    const device_rows made = on_device(graph_);
    const auto sums = runner_->check(made.view(), true);
    ASSERT_TRUE(sums.ok()) << sums.status();
    std::uint64_t marks = 0;
    for (std::uint32_t u = 0; u < graph_.size(); ++u) {
        for (const std::uint32_t v : graph_[u]) {
            marks += mark_of(u, v, 2);
        }
    }
    EXPECT_EQ(sums->edges, 10u);
    EXPECT_EQ(sums->marks, marks);
    EXPECT_NE(runner_->check(on_device(without_chord_).view(), true)->marks, marks);
    EXPECT_NE(runner_->check(on_device(graph_, 3).view(), true)->marks, marks);
    EXPECT_EQ(runner_->check(on_device(graph_, 3).view(), false)->marks, runner_->check(made.view(), false)->marks);
}

TEST_P(invariants, of_ranks_are_their_sum_and_their_least) {
    const device_rows made = on_device({{1, 2}, {0, 2}, {0, 1}, {}, {5}, {4}});
    for (const int steps : {1, 20}) {
        auto found = runner_->run(analysis::pagerank, made.view(), {0, steps});
        ASSERT_TRUE(found.ok()) << found.status();
        EXPECT_EQ(wrong_ranks(found->values, 1, steps), "");
        EXPECT_NE(wrong_ranks(found->values, 0, steps), "");
        EXPECT_NE(wrong_ranks(found->values, 1, steps + 1), "");
        found->values[2] += 1e-6;
        EXPECT_THAT(wrong_ranks(found->values, 1, steps), testing::HasSubstr("the ranks' sum is"));
        found->values[2] = std::numeric_limits<double>::quiet_NaN();
        EXPECT_THAT(wrong_ranks(found->values, 1, steps), testing::HasSubstr("a rank is nan"));
    }
}

}  // namespace
}  // namespace orchard::examples
