// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Graphs in a heap, against sets of edges on the host.

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "tests/containers/graph_fixture.hpp"

namespace orchard::test {
namespace {

class containers_graph : public graph_contract {};
INSTANTIATE_TEST_SUITE_P(all, containers_graph, ::testing::ValuesIn(heap_cases()), case_name);

TEST_P(containers_graph, batches_do_what_a_set_does) {
    if (has_few_segments()) {
        GTEST_SKIP() << "rows of each size take a segment of their own";
    }
    auto g = make_graph();
    edge_set wanted;
    random_numbers random(7);
    for (int round = 0; round < 8; ++round) {
        const bool adds = round % 3 != 2;
        const auto edges = random_edges(random, 9'000, 1'500);
        std::uint64_t taken = 0;
        for (const graph_edge& e : edges) {
            taken += adds ? wanted.insert(e).second : wanted.erase(e);
        }
        const batch_result done = adds ? insert(g, edges) : erase(g, edges);
        EXPECT_EQ(done.taken, taken) << round;
        EXPECT_EQ(done.duplicates, edges.size() - taken) << round;
        EXPECT_EQ(done.left, 0u);
        if (round == 4) {  // half of what is there goes
            edges_on_host half;
            for (auto it = wanted.begin(); it != wanted.end();) {
                const bool goes = random() % 2 == 0;
                if (goes) {
                    half.push_back(*it);
                }
                it = goes ? wanted.erase(it) : std::next(it);
            }
            EXPECT_EQ(erase(g, half).taken, half.size());
        }
        ASSERT_NO_FATAL_FAILURE(expect_edges(g, wanted));
    }
    // Everything is there, and nothing else.
    auto asked = random_edges(random, 9'000, 600);
    asked.insert(asked.end(), wanted.begin(), wanted.end());
    const auto held = batch_of(asked);
    const auto found = array<std::uint8_t>(asked.size());
    ASSERT_TRUE(g.contains(held.batch.sources, held.batch.targets, asked.size(), found.data()).ok());
    const auto answers = to_host(found);
    for (std::size_t i = 0; i < asked.size(); ++i) {
        ASSERT_EQ(answers[i], wanted.contains(asked[i]) ? 1 : 0) << asked[i].first << " " << asked[i].second;
    }
    const auto all = edges_on_host(wanted.begin(), wanted.end());
    EXPECT_EQ(erase(g, all).taken, all.size());
    expect_edges(g, {});
    EXPECT_EQ(g.stats()->row_bytes, 0u) << "vertices without edges have no blocks";
    EXPECT_TRUE(g.clear().ok());
    expect_empty();
}

TEST_P(containers_graph, rows_of_all_lengths_grow_and_shrink) {
    if (has_few_segments()) {
        GTEST_SKIP() << "rows of each size take a segment of their own";
    }
    auto g = make_graph();
    edge_set wanted;
    random_numbers random(11);
    // A hub that one warp changes, one that blocks do, and short rows.
    for (const std::size_t size : {40u, 700u, 9'000u, 2'500u, 12'000u}) {
        edges_on_host edges;
        for (std::size_t i = 0; i < size; ++i) {
            edges.emplace_back(3, random() % 30'000);
            if (i % 9 == 0) {
                edges.emplace_back(1 + i % 5, random() % 700);
            }
        }
        std::uint64_t taken = 0;
        for (const graph_edge& e : edges) {
            taken += wanted.insert(e).second;
        }
        EXPECT_EQ(insert(g, edges).taken, taken);
        ASSERT_NO_FATAL_FAILURE(expect_edges(g, wanted));
    }
    const std::uint64_t most = g.stats()->row_bytes;
    EXPECT_LE(most, wanted.size() * 4 * 3 / 2);
    for (const std::size_t left : {15'000u, 9'000u, 4'000u, 20u, 0u}) {
        edges_on_host edges(wanted.begin(), wanted.end());
        std::shuffle(edges.begin(), edges.end(), random);
        edges.resize(edges.size() > left ? edges.size() - left : 0);
        for (const graph_edge& e : edges) {
            wanted.erase(e);
        }
        EXPECT_EQ(erase(g, edges).taken, edges.size());
        ASSERT_NO_FATAL_FAILURE(expect_edges(g, wanted));
        EXPECT_LE(g.stats()->row_bytes, wanted.size() * 4 * 2 + 6 * 64) << "rows shrink";
    }
}

TEST_P(containers_graph, undirected_batches_have_both_directions) {
    auto g = make_graph();
    EXPECT_THAT(
        insert(g, {{1, 2}, {2, 1}, {5, 5}, {3, 1}}, true),
        ::testing::AllOf(::testing::Field(&batch_result::taken, 5u), ::testing::Field(&batch_result::duplicates, 2u)));
    expect_edges(g, {{1, 2}, {2, 1}, {5, 5}, {1, 3}, {3, 1}});
    EXPECT_EQ(erase(g, {{1, 3}, {5, 5}, {7, 7}}, true).taken, 3u);
    expect_edges(g, {{1, 2}, {2, 1}});
}

TEST_P(containers_graph, edges_keep_their_properties) {
    if (has_few_segments()) {
        GTEST_SKIP() << "rows of each size take a segment of their own";
    }
    using weighted = graph<std::uint64_t>;
    auto g = weighted::create(h());
    ASSERT_TRUE(g.ok()) << g.status();
    std::map<graph_edge, std::uint64_t> wanted;
    random_numbers random(3);
    for (int round = 0; round < 6; ++round) {
        const auto edges = random_edges(random, 600, 2'000);
        std::vector<std::uint64_t> weights(edges.size());
        for (std::size_t i = 0; i < edges.size(); ++i) {
            weights[i] = std::uint64_t{random()} << 32 | random();
            if (round != 3) {
                wanted.emplace(edges[i], weights[i]);  // the first counts
            } else {
                wanted.erase(edges[i]);
            }
        }
        const auto held = batch_of<std::uint64_t>(edges, false, weights);
        const auto done = round != 3 ? g->insert(held.batch) : g->erase(held.batch);
        ASSERT_TRUE(done.ok()) << done.status();
        const auto csr = g->to_csr();
        ASSERT_TRUE(csr.ok()) << csr.status();
        ASSERT_EQ(edges_of(csr).size(), wanted.size());
        const auto weights_found = to_host(csr->properties);
        const auto targets = to_host(csr->targets);
        std::size_t i = 0;
        for (const auto& [edge, weight] : wanted) {
            ASSERT_EQ(targets[i], edge.second);
            ASSERT_EQ(weights_found[i], weight);
            ++i;
        }
    }
}

struct wide {
    std::uint32_t words[16];
    friend bool operator==(const wide&, const wide&) = default;
};

TEST_P(containers_graph, rows_move_together) {
    if (has_few_segments()) {
        GTEST_SKIP() << "rows of each size take a segment of their own";
    }
    auto g = graph<wide>::create(h());
    ASSERT_TRUE(g.ok()) << g.status();
    // Rows of 31 KB: 64 in a slab. The table of the vertices, which does not move, lies among pages of another class.
    constexpr std::uint32_t sources = 160;
    constexpr std::uint32_t degree = 450;
    edges_on_host edges;
    edges_on_host gone;
    std::vector<wide> properties;
    for (std::uint32_t u = 0; u < sources; ++u) {
        for (std::uint32_t v = 0; v < degree; ++v) {
            edges.emplace_back(u, v);
            properties.push_back({{u, v}});
            if (u % 10 != 0) {
                gone.emplace_back(u, v);
            }
        }
    }
    ASSERT_EQ(g->insert(batch_of<wide>(edges, false, properties).batch)->taken, edges.size());
    ASSERT_EQ(g->erase(batch_of<wide>(gone, false, std::vector<wide>(gone.size())).batch)->taken, gone.size());
    ASSERT_TRUE(h().trim().ok());
    const auto before = h().stats();
    {
        const auto open = g->snapshot();
        ASSERT_TRUE(open.ok()) << open.status();
        EXPECT_EQ(g->compact().code(), absl::StatusCode::kFailedPrecondition);
    }
    ASSERT_TRUE(g->compact().ok());
    ASSERT_TRUE(h().validate().ok());
    ASSERT_TRUE(h().trim().ok());
    const auto after = h().stats();
    ASSERT_TRUE(before.ok() && after.ok());
    EXPECT_LT(after->segments_granted, before->segments_granted);
    const auto csr = g->to_csr();
    ASSERT_TRUE(csr.ok()) << csr.status();
    const auto targets = to_host(csr->targets);
    const auto found = to_host(csr->properties);
    ASSERT_EQ(targets.size(), edges.size() - gone.size());
    for (std::size_t i = 0; i < targets.size(); ++i) {
        ASSERT_EQ(targets[i], i % degree);
        ASSERT_EQ(found[i], (wide{{static_cast<std::uint32_t>(i / degree * 10), targets[i]}}));
    }
}

struct tick {
    std::uint32_t time;
    std::uint16_t kind;
    std::uint8_t mark;
    friend bool operator==(const tick&, const tick&) = default;
};

TEST_P(containers_graph, goes_to_csr_and_back) {
    auto from = graph<tick>::create(h());
    auto to = graph<tick>::create(h());
    ASSERT_TRUE(from.ok() && to.ok());
    random_numbers random(5);
    const auto edges = random_edges(random, 5'000, 3'000);
    std::vector<tick> ticks(edges.size());
    for (std::size_t i = 0; i < ticks.size(); ++i) {
        ticks[i] = {random(), static_cast<std::uint16_t>(i), 9};
    }
    ASSERT_TRUE(from->insert(batch_of<tick>(edges, false, ticks).batch).ok());
    ASSERT_TRUE(from->reserve_vertices(6'000).ok());
    const auto csr = from->to_csr();
    ASSERT_TRUE(csr.ok()) << csr.status();
    EXPECT_EQ(csr->offsets.size(), 6'001u);
    const auto done = to->from_csr(csr->offsets.data(), csr->targets.data(), 6'000, csr->properties.data());
    ASSERT_TRUE(done.ok()) << done.status();
    EXPECT_EQ(done->taken, csr->targets.size());
    EXPECT_EQ(done->duplicates, 0u);
    const auto again = to->to_csr();
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(to_host(again->offsets), to_host(csr->offsets));
    EXPECT_EQ(to_host(again->targets), to_host(csr->targets));
    EXPECT_EQ(to_host(again->properties), to_host(csr->properties));
}

TEST_P(containers_graph, vertices_go_with_their_edges) {
    auto g = make_graph();
    random_numbers random(13);
    const auto edges = random_edges(random, 300, 2'000);
    insert(g, edges);
    const std::vector<std::uint32_t> gone{2, 7, 200, 201, 2, 5'000'000, 0xffffffffu};
    const auto chosen = array_of(gone);
    edge_set wanted;
    std::uint64_t removed = 0;
    for (const graph_edge& e : edge_set(edges.begin(), edges.end())) {
        const bool goes = std::ranges::count(gone, e.first) != 0 || std::ranges::count(gone, e.second) != 0;
        removed += goes ? 1 : 0;
        if (!goes) {
            wanted.insert(e);
        }
    }
    const auto done = g.erase_vertices(chosen.data(), gone.size());
    ASSERT_TRUE(done.ok()) << done.status();
    EXPECT_EQ(done->taken, removed);
    expect_edges(g, wanted);
    EXPECT_EQ(*g.vertices(), 300u);
}

TEST_P(containers_graph, kernels_do_what_a_set_does) {
    if (has_few_segments()) {
        GTEST_SKIP() << "rows of each size take a segment of their own";
    }
    auto g = make_graph();
    edge_set wanted;
    random_numbers random(17);
    for (int round = 0; round < 4; ++round) {
        const bool adds = round % 3 != 2;
        const auto edges = random_edges(random, 400, 700);
        std::uint64_t taken = 0;
        for (const graph_edge& e : edges) {
            taken += adds ? wanted.insert(e).second : wanted.erase(e);
        }
        const auto held = batch_of(edges);
        const auto results = array<simt::device_word<std::uint64_t>>(3);
        launch({4, 96}, change_each{g.ref(), held.batch.sources, held.batch.targets, edges.size(),
                                    adds ? edge_call::add : edge_call::remove, results.data()});
        const auto found = to_host(results);
        EXPECT_EQ(found[0].load<simt::order::relaxed>(), taken);
        EXPECT_EQ(found[1].load<simt::order::relaxed>(), edges.size() - taken);
        ASSERT_NO_FATAL_FAILURE(expect_edges(g, wanted));
    }
    EXPECT_EQ(*g.vertices(), 400u);
}

TEST_P(containers_graph, lanes_add_and_remove_at_once) {
    if (has_few_segments()) {
        GTEST_SKIP() << "rows of each size take a segment of their own";
    }
    auto g = make_graph();
    random_numbers random(23);
    edge_set wanted;
    for (int round = 0; round < 3; ++round) {
        const auto before = random_edges(random, 300, 1'000);
        insert(g, before);
        wanted.insert(before.begin(), before.end());
        const auto edges = random_edges(random, 300, 1'500);
        for (const graph_edge& e : edges) {
            if (e.second % 2 == 0) {
                wanted.insert(e);
            } else {
                wanted.erase(e);
            }
        }
        const auto held = batch_of(edges);
        const auto results = array<simt::device_word<std::uint64_t>>(3);
        launch({4, 96}, change_each{g.ref(), held.batch.sources, held.batch.targets, edges.size(), edge_call::by_parity,
                                    results.data()});
        EXPECT_EQ(to_host(results)[2].load<simt::order::relaxed>(), 0u);
        ASSERT_NO_FATAL_FAILURE(expect_edges(g, wanted));
    }
}

TEST_P(containers_graph, a_shortage_takes_some_and_the_rest_later) {
    remake([&] {
        options o = GetParam().values();
        o.capacity = GetParam().where == lies_in::its_own ? 8 * segment_bytes : o.capacity;
        o.range = 0;
        return o;
    }());
    auto g = make_graph();
    edge_set wanted{{1, 1}};
    insert(g, {{1, 1}});
    // All memory, in blocks of 512 KiB.
    const std::vector<std::uint64_t> sizes(4 * heap_segments(), 512 << 10);
    std::vector<block> held = allocate(sizes);
    std::erase_if(held, [](const block& b) { return b.address == 0; });
    edges_on_host edges;
    for (std::uint32_t i = 0; i < 20'000; ++i) {
        edges.emplace_back(i % 5 == 0 ? 1 : i % 50, i);
    }
    const auto batch = batch_of(edges);
    const auto first = g.insert(batch.batch);
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_NE(first->left, 0u);
    EXPECT_EQ(first->taken + first->duplicates + first->left, edges.size());
    // What was taken is there; what was not is named.
    const auto rest = g.rest(batch.batch);
    ASSERT_TRUE(rest.ok()) << rest.status();
    ASSERT_EQ(rest->sources.size(), first->left);
    edge_set missing;
    const auto sources = to_host(rest->sources);
    const auto targets = to_host(rest->targets);
    for (std::size_t i = 0; i < sources.size(); ++i) {
        EXPECT_TRUE(missing.emplace(sources[i], targets[i]).second);
    }
    for (const graph_edge& e : edges) {
        if (!missing.contains(e)) {
            wanted.insert(e);
        }
    }
    expect_edges(g, wanted);
    free_all(held);
    const auto second = g.insert(rest->batch());
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_EQ(second->taken, missing.size());
    EXPECT_EQ(second->left, 0u);
    wanted.insert(missing.begin(), missing.end());
    expect_edges(g, wanted);
}

// A removal needs memory if a snapshot has the row, and reads no properties.
TEST_P(containers_graph, names_the_edges_that_it_could_not_remove) {
    remake([&] {
        options o = GetParam().values();
        o.capacity = GetParam().where == lies_in::its_own ? 8 * segment_bytes : o.capacity;
        o.range = 0;
        return o;
    }());
    auto made = graph<std::uint32_t>::create(h());
    ASSERT_TRUE(made.ok()) << made.status();
    graph<std::uint32_t>& g = *made;
    edges_on_host edges;
    std::vector<std::uint32_t> numbers;
    for (std::uint32_t i = 0; i < 300; ++i) {
        edges.emplace_back(1, i);
        numbers.push_back(i);
    }
    ASSERT_TRUE(g.insert(batch_of(edges, false, numbers).batch).ok());
    auto before = g.snapshot();
    ASSERT_TRUE(before.ok()) << before.status();
    const std::vector<std::uint64_t> sizes(4 * heap_segments(), 512 << 10);
    std::vector<block> held = allocate(sizes);
    std::erase_if(held, [](const block& b) { return b.address == 0; });
    edges.resize(100);
    const auto batch = batch_of<std::uint32_t>(edges);
    const auto first = g.erase(batch.batch);
    ASSERT_TRUE(first.ok()) << first.status();
    ASSERT_EQ(first->left, edges.size());
    const auto rest = g.rest(batch.batch);
    ASSERT_TRUE(rest.ok()) << rest.status();
    EXPECT_EQ(to_host(rest->sources), std::vector<std::uint32_t>(edges.size(), 1));
    free_all(held);
    const auto second = g.erase(rest->batch());
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_EQ(second->taken, edges.size());
    EXPECT_EQ(g.stats()->edges, 200u);
}

TEST_P(containers_graph, names_what_is_wrong_with_a_batch) {
    auto g = make_graph();
    EXPECT_EQ(insert(g, {}).taken, 0u);
    const auto held = batch_of({{1, 2}, {3, 0xffffffffu}});
    const auto refused = g.insert(held.batch);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(refused.status().message(), ::testing::HasSubstr("4294967295"));
    expect_edges(g, {});
    auto large = held.batch;
    large.count = std::uint64_t{1} << 31;
    EXPECT_EQ(g.erase(large).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_FALSE(g.reserve_vertices(std::uint64_t{1} << 32).ok());
    auto weighted = graph<float>::create(h());
    ASSERT_TRUE(weighted.ok());
    EXPECT_EQ(weighted->insert(batch_of<float>({{1, 2}}).batch).status().code(), absl::StatusCode::kInvalidArgument);
    // The greatest vertex; its row of addresses alone takes 8 MiB.
    if (heap_segments() >= 24) {
        EXPECT_EQ(insert(g, {{0xfffffffeu, 0}, {5, 0xfffffffeu}}).taken, 2u);
        EXPECT_EQ(erase(g, {{0xfffffffeu, 0}}).taken, 1u);
    }
}

/// One level of a search: the vertices at distance `level` look at their neighbours; a warp a vertex.
struct bfs_level {
    graph_view<> graph;
    simt::device_word<std::uint32_t>* distance;
    std::uint32_t level;
    simt::device_word<std::uint32_t>* found;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint32_t vertices = graph.vertices();
        for (std::uint64_t u = at.global_warp(); u < vertices; u += at.threads() / simt::warp_size) {
            if (distance[u].load<simt::order::relaxed>() == level) {
                graph.neighbours(static_cast<std::uint32_t>(u))
                    .for_each(static_cast<std::uint32_t>(simt::lane_id()), simt::warp_size, [&](std::uint32_t v) {
                        std::uint32_t none = 0xffffffffu;
                        if (distance[v].compare_exchange<simt::order::relaxed>(none, level + 1)) {
                            found->fetch_add<simt::order::relaxed>(1);
                        }
                    });
            }
        }
    }
};

TEST_P(containers_graph, a_search_finds_the_distances) {
    constexpr std::uint32_t width = 40;
    constexpr std::uint32_t vertices = width * width;
    auto g = make_graph();
    edges_on_host edges;
    for (std::uint32_t v = 0; v < vertices; ++v) {
        if (v % width + 1 < width) {
            edges.emplace_back(v, v + 1);
        }
        if (v + width < vertices) {
            edges.emplace_back(v, v + width);
        }
    }
    EXPECT_EQ(insert(g, edges, true).taken, 2 * edges.size());
    std::vector<simt::device_word<std::uint32_t>> start(vertices, simt::device_word<std::uint32_t>(0xffffffffu));
    start[0] = simt::device_word<std::uint32_t>(0);
    const auto distance = array_of(start);
    const auto found = array<simt::device_word<std::uint32_t>>(1);
    for (std::uint32_t level = 0; level < 2 * width; ++level) {
        launch({4, 64}, bfs_level{g.ref(), distance.data(), level, found.data()});
    }
    const auto distances = to_host(distance);
    for (std::uint32_t v = 0; v < vertices; ++v) {
        ASSERT_EQ(distances[v].load<simt::order::relaxed>(), v % width + v / width);
    }
}

}  // namespace
}  // namespace orchard::test
