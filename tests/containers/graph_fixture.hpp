// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What the tests of graphs share: batches from edges of the host, and a kernel that changes a graph.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <orchard/graph.cuh>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "tests/support/heap_fixture.hpp"

namespace orchard::test {

/// Random numbers of 32 bits.
struct random_numbers {
    using result_type = std::uint32_t;
    std::mt19937 engine;
    explicit random_numbers(std::uint32_t seed) : engine(seed) {}
    static constexpr result_type min() { return 0; }
    static constexpr result_type max() { return 0xffffffffu; }
    result_type operator()() { return static_cast<result_type>(engine()); }
};

using graph_edge = std::pair<std::uint32_t, std::uint32_t>;
using edge_set = std::set<graph_edge>;
using edges_on_host = std::vector<graph_edge>;

class graph_contract : public heap_contract {
protected:
    /// A batch with its memory.
    template <class Property = no_property>
    struct held_batch {
        edge_list<Property> list;
        edge_batch<Property> batch;
    };
    template <class Property = no_property>
    held_batch<Property> batch_of(const edges_on_host& edges, bool undirected = false,
                                  const std::vector<Property>& properties = {}) {
        std::vector<std::uint32_t> sources;
        std::vector<std::uint32_t> targets;
        for (const auto& [u, v] : edges) {
            sources.push_back(u);
            targets.push_back(v);
        }
        held_batch<Property> made;
        made.list.sources = array_of(sources);
        made.list.targets = array_of(targets);
        if (!properties.empty()) {
            made.list.properties = array_of(properties);
        }
        made.batch = made.list.batch();
        made.batch.undirected = undirected;
        return made;
    }
    template <class Property>
    batch_result insert(graph<Property>& g, const edges_on_host& edges, bool undirected = false) {
        const auto held = batch_of<Property>(edges, undirected);
        const auto done = g.insert(held.batch);
        EXPECT_TRUE(done.ok()) << done.status();
        return done.value_or(batch_result{});
    }
    template <class Property>
    batch_result erase(graph<Property>& g, const edges_on_host& edges, bool undirected = false) {
        const auto held = batch_of<Property>(edges, undirected);
        const auto done = g.erase(held.batch);
        EXPECT_TRUE(done.ok()) << done.status();
        return done.value_or(batch_result{});
    }
    [[nodiscard]] bool has_few_segments() { return heap_segments() < 24; }
    graph<> make_graph() {
        auto made = graph<>::create(h());
        EXPECT_TRUE(made.ok()) << made.status();
        return *std::move(made);
    }

    /// Returns the edges of a CSR, and expects that its rows ascend.
    template <class Property>
    edge_set edges_of(const absl::StatusOr<csr_graph<Property>>& csr) {
        edge_set all;
        EXPECT_TRUE(csr.ok()) << csr.status();
        if (!csr.ok()) {
            return all;
        }
        const auto offsets = to_host(csr->offsets);
        const auto targets = to_host(csr->targets);
        EXPECT_EQ(offsets.back(), targets.size());
        for (std::uint32_t u = 0; u + 1 < offsets.size(); ++u) {
            for (std::uint64_t i = offsets[u]; i < offsets[u + 1]; ++i) {
                EXPECT_TRUE(i == offsets[u] || targets[i - 1] < targets[i]) << "row " << u;
                all.emplace(u, targets[i]);
            }
        }
        return all;
    }
    void expect_edges(graph<>& g, const edge_set& wanted) {
        EXPECT_EQ(edges_of(g.to_csr()), wanted);
        const auto stats = g.stats();
        ASSERT_TRUE(stats.ok()) << stats.status();
        EXPECT_EQ(stats->edges, wanted.size());
    }
};

/// Returns `count` random edges between `vertices` vertices, most of them at few.
inline edges_on_host random_edges(random_numbers& random, std::uint32_t vertices, std::size_t count) {
    edges_on_host edges(count);
    for (auto& [u, v] : edges) {
        u = random() % (random() % 4 == 0 ? vertices : 7);
        v = random() % vertices;
    }
    return edges;
}

/// What threads do with the edges that they have.
enum class edge_call : int { add, remove, by_parity };  ///< `by_parity`: an edge to an odd vertex is removed

/// Each thread adds or removes edges by itself; lanes take different branches.
struct change_each {
    graph_ref<> graph;
    const std::uint32_t* sources;
    const std::uint32_t* targets;
    std::uint64_t count;
    edge_call call;
    simt::device_word<std::uint64_t>* results;  ///< of each kind

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t i = at.global_thread(); i < count; i += at.threads()) {
            const std::uint32_t u = sources[i];
            const std::uint32_t v = targets[i];
            const bool adds = call == edge_call::add || (call == edge_call::by_parity && v % 2 == 0);
            edge_result r = edge_result::no_change;
            if (i % 5 != 0) {
                r = adds ? graph.insert(u, v) : graph.erase(u, v);
            } else {
                r = adds ? graph.insert(u, v) : graph.erase(u, v);
            }
            results[static_cast<int>(r)].fetch_add<simt::order::relaxed>(1);
        }
    }
};

}  // namespace orchard::test
