// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Kernels that make vertices of a graph known, and that erase them, alone and beside others that add edges.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "tests/containers/graph_fixture.hpp"

namespace orchard::test {
namespace {

class containers_graph_vertices : public graph_contract {
protected:
    using word = simt::device_word<std::uint64_t>;

    /// Erases vertices, in a kernel. Returns the number of edges removed; `results` gets the calls of each result.
    std::uint64_t erase_in_kernel(graph<>& g, const std::vector<std::uint32_t>& chosen,
                                  std::vector<std::uint64_t>* results = nullptr);
    static std::uint64_t value(const word& w) { return w.load<simt::order::relaxed>(); }
    /// Returns whether an edge begins or ends at one of `chosen`.
    static bool touches(const graph_edge& e, const std::vector<std::uint32_t>& chosen) {
        return std::ranges::count(chosen, e.first) != 0 || std::ranges::count(chosen, e.second) != 0;
    }
};
INSTANTIATE_TEST_SUITE_P(all, containers_graph_vertices, ::testing::ValuesIn(heap_cases()), case_name);

/// Each thread erases vertices by itself; lanes take different branches.
struct erase_each_vertex {
    graph_ref<> graph;
    const std::uint32_t* chosen;
    std::uint64_t count;
    simt::device_word<std::uint64_t>* results;  ///< of each kind, then the number of edges

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t i = at.global_thread(); i < count; i += at.threads()) {
            vertex_result r;
            if (i % 3 != 0) {
                r = graph.erase_vertex(chosen[i]);
            } else {
                r = graph.erase_vertex(chosen[i]);
            }
            results[static_cast<int>(r.result)].fetch_add<simt::order::relaxed>(1);
            results[3].fetch_add<simt::order::relaxed>(r.removed);
        }
    }
};

std::uint64_t containers_graph_vertices::erase_in_kernel(graph<>& g, const std::vector<std::uint32_t>& chosen,
                                                         std::vector<std::uint64_t>* results) {
    const auto vertices = array_of(chosen);
    const auto counts = array<word>(4);
    launch({2, 64}, erase_each_vertex{g.ref(), vertices.data(), chosen.size(), counts.data()});
    const auto found = to_host(counts);
    if (results != nullptr) {
        *results = {value(found[0]), value(found[1]), value(found[2])};
    }
    return value(found[3]);
}

struct make_known {
    graph_ref<> graph;
    const std::uint32_t* vertices;
    std::uint64_t count;
    simt::device_word<std::uint64_t>* were_unknown;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t i = at.global_thread(); i < count; i += at.threads()) {
            if (graph.insert_vertex(vertices[i])) {
                were_unknown[i].fetch_add<simt::order::relaxed>(1);
            }
        }
    }
};

TEST_P(containers_graph_vertices, become_known_in_kernels) {
    auto g = make_graph();
    const auto unknown = [&](simt::grid shape, const std::vector<std::uint32_t>& vertices) {
        const auto asked = array_of(vertices);
        const auto counts = array<word>(vertices.size());
        launch(shape, make_known{g.ref(), asked.data(), vertices.size(), counts.data()});
        std::vector<std::uint64_t> result;
        std::ranges::transform(to_host(counts), std::back_inserter(result), value);
        return result;
    };
    // One thread, in this order.
    EXPECT_THAT(unknown({1, 1}, {5, 5, 3, 9, 0xffffffffu, 700}), ::testing::ElementsAre(1, 0, 0, 1, 0, 1));
    EXPECT_EQ(*g.vertices(), 701u);
    EXPECT_THAT(unknown({1, 1}, {700, 0}), ::testing::Each(0u));
    // All threads know the same vertex: one of them finds it unknown.
    const auto many = unknown({4, 64}, std::vector<std::uint32_t>(256, 900));
    EXPECT_EQ(std::ranges::count(many, 1u), 1);
    EXPECT_EQ(*g.vertices(), 901u);
    EXPECT_EQ(g.to_csr()->offsets.size(), 902u);
    EXPECT_EQ(g.stats()->row_bytes + g.stats()->table_bytes, 0u) << "known vertices have no blocks";
    EXPECT_THAT(unknown({1, 1}, {0xfffffffeu}), ::testing::ElementsAre(1));
    EXPECT_EQ(*g.vertices(), 0xffffffffu);
}

TEST_P(containers_graph_vertices, go_with_the_edges_of_both_directions) {
    if (has_few_segments()) {
        GTEST_SKIP() << "rows of each size take a segment of their own";
    }
    auto g = make_graph();
    random_numbers random(31);
    const auto edges = random_edges(random, 300, 2'000);
    insert(g, edges, true);
    edge_set wanted = edges_of(g.to_csr());
    // A hub of 5,000 edges, a loop, vertices twice, one that has no edges, two that are unknown.
    edges_on_host star{{2, 2}};
    for (std::uint32_t v = 1'000; v < 6'000; ++v) {
        star.emplace_back(2, v);
    }
    insert(g, star, true);
    const std::vector<std::uint32_t> gone{2, 7, 200, 201, 2, 5, 5, 900, 5'000'000, 0xffffffffu};
    const std::size_t before = g.stats()->edges;
    std::erase_if(wanted, [&](const graph_edge& e) { return touches(e, gone); });
    std::vector<std::uint64_t> results;
    EXPECT_EQ(erase_in_kernel(g, gone, &results), before - wanted.size());
    EXPECT_EQ(results[static_cast<int>(edge_result::no_memory)], 0u);
    EXPECT_GE(results[static_cast<int>(edge_result::no_change)], 3u);
    EXPECT_EQ(results[0] + results[1], gone.size());
    expect_edges(g, wanted);
    EXPECT_EQ(*g.vertices(), 6'000u) << "they stay known";
    EXPECT_EQ(erase_in_kernel(g, gone), 0u);
    const edges_on_host all(wanted.begin(), wanted.end());
    erase(g, all);
    EXPECT_EQ(g.stats()->row_bytes, 0u);
    EXPECT_TRUE(g.clear().ok());
    expect_empty();
}

TEST_P(containers_graph_vertices, keep_edges_of_one_direction_that_lead_to_them) {
    auto g = make_graph();
    insert(g, {{1, 2}, {1, 3}, {2, 1}, {4, 1}, {4, 2}, {1, 1}});
    EXPECT_EQ(erase_in_kernel(g, {1}), 4u);
    expect_edges(g, {{4, 1}, {4, 2}});
    // The host looks at all rows.
    const std::vector<std::uint32_t> one{1};
    EXPECT_EQ(g.erase_vertices(array_of(one).data(), 1)->taken, 1u);
    expect_edges(g, {{4, 2}});
}

/// Of eight threads, one erases the hubs in turn, one adds edges between leaves, and the others add edges between hubs
/// and leaves, the direction to the hub first.
struct erase_beside_others {
    graph_ref<> graph;
    std::uint32_t hubs;    ///< vertices 0 to `hubs` - 1
    std::uint32_t leaves;  ///< the next ones
    std::uint32_t rounds;
    simt::device_word<std::uint64_t>* added;    ///< edges of hubs
    simt::device_word<std::uint64_t>* removed;  ///< likewise
    simt::device_word<std::uint64_t>* lacks;

    ORCHARD_FN void add(std::uint32_t u, std::uint32_t v, bool counts) const {
        const edge_result r = graph.insert(u, v);
        if (r == edge_result::no_memory) {
            lacks->fetch_add<simt::order::relaxed>(1);
        } else if (counts && r == edge_result::done) {
            added->fetch_add<simt::order::relaxed>(1);
        }
    }
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t me = at.global_thread();
        if (me % 8 == 0) {
            for (std::uint32_t i = 0; i < rounds; ++i) {
                const vertex_result r = graph.erase_vertex(static_cast<std::uint32_t>(me / 8 + i) % hubs);
                removed->fetch_add<simt::order::relaxed>(r.removed);
                lacks->fetch_add<simt::order::relaxed>(r.result == edge_result::no_memory ? 1 : 0);
            }
            return;
        }
        for (std::uint64_t leaf = me; leaf < leaves; leaf += at.threads()) {
            const std::uint32_t v = hubs + static_cast<std::uint32_t>(leaf);
            for (std::uint32_t h = 0; h < hubs; ++h) {
                if (me % 8 == 1) {
                    add(v, hubs + static_cast<std::uint32_t>((leaf + 1 + h) % leaves), false);
                } else {
                    add(v, h, true);
                    add(h, v, true);
                }
            }
        }
    }
};

TEST_P(containers_graph_vertices, are_erased_while_others_add_edges) {
    if (has_few_segments()) {
        GTEST_SKIP() << "rows of each size take a segment of their own";
    }
    constexpr std::uint32_t hubs = 3;
    constexpr std::uint32_t leaves = 2'000;
    auto g = make_graph();
    insert(g, {{0, 1}, {1, 2}, {2, 2}}, true);
    for (const bool with_snapshot : {false, true}) {
        const edge_set before = edges_of(g.to_csr());
        std::vector<graph_snapshot<>> open;
        if (with_snapshot) {
            auto made = g.snapshot();
            ASSERT_TRUE(made.ok()) << made.status();
            open.push_back(*std::move(made));
        }
        const auto of_hub = [](const graph_edge& e) { return e.first < hubs || e.second < hubs; };
        const auto counts = array<word>(3);
        launch({4, 96},
               erase_beside_others{g.ref(), hubs, leaves, 6, counts.data(), counts.data() + 1, counts.data() + 2});
        const auto found = to_host(counts);
        EXPECT_EQ(value(found[2]), 0u);
        const edge_set now = edges_of(g.to_csr());
        EXPECT_EQ(std::ranges::count_if(now, of_hub),
                  std::ranges::count_if(before, of_hub) + static_cast<std::int64_t>(value(found[0]) - value(found[1])));
        edge_set leaves_found;
        for (const graph_edge& e : now) {
            if (of_hub(e)) {
                ASSERT_TRUE(now.contains({e.second, e.first})) << e.first << " " << e.second;
            } else {
                leaves_found.insert(e);
            }
        }
        edge_set leaves_wanted;
        for (std::uint32_t leaf = 0; leaf < leaves; ++leaf) {
            for (std::uint32_t h = 0; h < hubs && leaf % 8 == 1; ++h) {
                leaves_wanted.emplace(hubs + leaf, hubs + (leaf + 1 + h) % leaves);
            }
        }
        EXPECT_EQ(leaves_found, leaves_wanted);
        if (with_snapshot) {
            EXPECT_EQ(edges_of(g.to_csr(open.front())), before);
        }
        erase_in_kernel(g, {0, 1, 2});
        expect_edges(g, leaves_wanted);
        if (with_snapshot) {
            EXPECT_EQ(edges_of(g.to_csr(open.front())), before);
        }
    }
    EXPECT_TRUE(g.clear().ok());
    expect_empty();
}

TEST_P(containers_graph_vertices, keep_edges_for_which_memory_is_short) {
    remake([&] {
        options o = GetParam().values();
        o.capacity = GetParam().where == lies_in::its_own ? 8 * segment_bytes : o.capacity;
        o.range = 0;
        return o;
    }());
    auto g = make_graph();
    edges_on_host star;
    for (std::uint32_t v = 10; v < 14; ++v) {
        star.emplace_back(1, v);
        star.emplace_back(v, v + 1);
    }
    insert(g, star, true);
    const edge_set before = edges_of(g.to_csr());
    auto open = g.snapshot();
    ASSERT_TRUE(open.ok()) << open.status();
    // All memory, in blocks of 512 KiB.
    const std::vector<std::uint64_t> sizes(4 * heap_segments(), 512 << 10);
    std::vector<block> held = allocate(sizes);
    std::erase_if(held, [](const block& b) { return b.address == 0; });
    std::vector<std::uint64_t> results;
    const std::uint64_t first = erase_in_kernel(g, {1}, &results);
    EXPECT_EQ(results[static_cast<int>(edge_result::no_memory)], 1u);
    const edge_set between = edges_of(g.to_csr());
    EXPECT_EQ(between.size(), before.size() - first);
    EXPECT_TRUE(std::ranges::includes(before, between));
    for (const graph_edge& e : between) {
        EXPECT_TRUE(e.second != 1 || between.contains({1, e.first})) << e.first;
    }
    free_all(held);
    const std::uint64_t second = erase_in_kernel(g, {1}, &results);
    EXPECT_EQ(results[static_cast<int>(edge_result::done)], 1u);
    EXPECT_EQ(first + second, 8u);
    edge_set wanted = before;
    std::erase_if(wanted, [](const graph_edge& e) { return e.first == 1 || e.second == 1; });
    expect_edges(g, wanted);
    EXPECT_EQ(edges_of(g.to_csr(*open)), before);
}

}  // namespace
}  // namespace orchard::test
