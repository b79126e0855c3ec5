// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Lanes erase two hubs of a graph, again and again, while others add edges between the hubs and leaves, in both
/// directions, and change edges between leaves; another kernel reads snapshots. Each edge of a hub is added by one lane
/// once, the direction to the hub first: in the end both directions are there, or none. As many edges were removed as
/// the calls say, edges between leaves are untouched, and snapshots do not change.
///
/// In half of the runs the heap has one or two segments, each of which serves one size: calls find no memory for a row
/// or a note. An edge to a hub then has its other direction still, unless an insert has lacked memory for that. At the
/// end no snapshot is open, and erasing the hubs needs no memory.

#include <array>
#include <cstdint>

#include "tests/explore/graph_world.hpp"

namespace orchard::explore {
namespace {

constexpr std::array<std::uint32_t, 2> vertices_hubs{1, 4096};  // in two segments of the table
constexpr std::uint32_t vertices_first_leaf = 2;
constexpr std::uint32_t vertices_leaves = 6;

class vertices_world {
public:
    vertices_world(world& w, bool is_short)
        : graph{w,
                is_short ? few_segments(w) : heap_setup{.segments = 24, .committed_at_start = 8},
                {1, 2, 3, 4, 5, 6, 7, 4096},
                4097},
          s_{w.s},
          is_short_{is_short} {}

    /// Adds the edges that are there before: a hub's to itself, and those between the hubs.
    bool begin() {
        s_.add_kernel({{1}}, [this](simt::thread_position) {
            for (const std::uint32_t v : vertices_hubs) {
                (void)insert(v, vertices_hubs[0]);
            }
            (void)insert(vertices_hubs[0], vertices_hubs[1]);
        });
        return s_.run();
    }

    void change_one() {
        switch (s_.pick(4)) {
            case 0: return erase_hub(vertices_hubs[s_.pick(vertices_hubs.size())]);
            case 1: return change_leaf();
            default: return add_pair();
        }
    }

    /// Checks the graph, in a kernel after all others, and erases the hubs.
    bool end() {
        s_.add_kernel({{1}}, [this](simt::thread_position) {
            (void)graph.read(graph.ref);
            check_edges();
            detail::graph_free_retired<>{graph.heap.ref, graph.state, 0}(alone);
            for (const std::uint32_t h : vertices_hubs) {
                const vertex_result r = graph.ref.erase_vertex(h);
                s_.check(r.result != edge_result::no_memory, "a removal lacks memory although no snapshot is open");
                s_.check((r.result == edge_result::done) == (r.removed != 0), "a result without its number");
                edges_of_hubs_ -= static_cast<int>(r.removed);
                s_.check(graph.ref.degree(h) == 0, "an erased vertex has edges");
            }
            for (std::uint32_t w = 0; w < vertices_leaves; ++w) {
                for (std::size_t h = 0; h < vertices_hubs.size(); ++h) {
                    const bool there = graph.ref.contains(vertices_first_leaf + w, vertices_hubs[h]);
                    s_.check(!there || half_[h][w], "an edge to an erased vertex is left");
                    edges_of_hubs_ -= there ? 1 : 0;
                }
            }
            s_.check(edges_of_hubs_ == 0, "edges were removed that were not counted, or lost");
            check_leaves();
        });
        return s_.run();
    }

    graph_world graph;

private:
    static heap_setup few_segments(world& w) {
        const auto segments = static_cast<std::uint32_t>(1 + w.s.pick(2));
        return {.segments = segments,
                .committed_at_start = segments,
                .extent = 1,
                .cache_target = static_cast<std::uint32_t>(w.s.pick(2)),
                .refill_batch = 1};
    }
    /// Adds an edge of a hub. Returns whether there was memory.
    bool insert(std::uint32_t u, std::uint32_t v) {
        const edge_result r = graph.ref.insert(u, v);
        s_.check(r != edge_result::no_memory || is_short_, "no memory, although there is enough");
        s_.check(r != edge_result::no_change, "an edge is there before it was added");
        edges_of_hubs_ += r == edge_result::done ? 1 : 0;
        return r == edge_result::done;
    }
    /// Adds an edge that no call has added before, in both directions.
    void add_pair() {
        if (next_ == vertices_hubs.size() * vertices_leaves) {
            return;
        }
        const std::uint32_t i = next_++;
        const std::size_t hub = i % vertices_hubs.size();
        const std::uint32_t w = i / static_cast<std::uint32_t>(vertices_hubs.size());
        const std::uint32_t leaf = vertices_first_leaf + w;
        if (insert(leaf, vertices_hubs[hub]) && !insert(vertices_hubs[hub], leaf)) {
            half_[hub][w] = true;
        }
    }
    void erase_hub(std::uint32_t h) {
        const vertex_result r = graph.ref.erase_vertex(h);
        s_.check(r.result != edge_result::no_memory || is_short_, "a removal without memory");
        s_.check(r.result == edge_result::no_memory || (r.result == edge_result::done) == (r.removed != 0),
                 "a result without its number");
        edges_of_hubs_ -= static_cast<int>(r.removed);
    }
    /// Adds or removes an edge between leaves.
    void change_leaf() {
        const std::uint32_t a = s_.pick(vertices_leaves);
        const std::uint32_t b = s_.pick(vertices_leaves);
        const bool adds = s_.pick(3) != 0;
        const edge_result r = adds ? graph.ref.insert(vertices_first_leaf + a, vertices_first_leaf + b)
                                   : graph.ref.erase(vertices_first_leaf + a, vertices_first_leaf + b);
        s_.check(r != edge_result::no_memory || is_short_, "no memory, although there is enough");
        added_[a][b] += r != edge_result::done ? 0 : adds ? 1 : -1;
    }

    void check_edges() {
        for (std::size_t h = 0; h < vertices_hubs.size(); ++h) {
            for (std::uint32_t w = 0; w < vertices_leaves; ++w) {
                const bool to_hub = graph.ref.contains(vertices_first_leaf + w, vertices_hubs[h]);
                const bool from_hub = graph.ref.contains(vertices_hubs[h], vertices_first_leaf + w);
                s_.check(!to_hub || from_hub || half_[h][w], "an edge to a vertex has lost its other direction");
                s_.check(!from_hub || to_hub || is_short_, "an edge from a vertex has lost its other direction");
            }
        }
        check_leaves();
    }
    void check_leaves() {
        for (std::uint32_t a = 0; a < vertices_leaves; ++a) {
            for (std::uint32_t b = 0; b < vertices_leaves; ++b) {
                const int there = graph.ref.contains(vertices_first_leaf + a, vertices_first_leaf + b) ? 1 : 0;
                s_.check(added_[a][b] == there, "an edge of other vertices was added or removed twice, or lost");
            }
        }
    }

    simt::explore::simulation& s_;
    bool is_short_;
    std::uint32_t next_ = 0;  ///< of the edges between hubs and leaves
    int edges_of_hubs_ = 0;   ///< directions, added less removed
    /// Edges to a hub whose other direction has found no memory.
    std::array<std::array<bool, vertices_leaves>, vertices_hubs.size()> half_{};
    std::array<std::array<int, vertices_leaves>, vertices_leaves> added_{};  ///< times added less removed
};

void run_graph_vertices(world& w) {
    vertices_world g(w, w.s.pick(2) == 1);
    if (!g.begin()) {
        return;
    }
    for (int kernel = 0; kernel < 2; ++kernel) {
        w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
            for (int i = 0; i < 2 * w.size.operations; ++i) {
                g.change_one();
            }
        });
    }
    w.s.add_kernel({{1}}, [&](simt::thread_position) {
        for (int i = 0; i < w.size.operations; ++i) {
            g.graph.read_snapshot(static_cast<std::uint32_t>(i) % graph_world::readers);
        }
    });
    if (w.s.run() && g.end() && g.graph.clear({class_of(16), class_of(32), class_of(48)})) {
        g.graph.heap.check_counts();
        g.graph.heap.check_clean(0);
    }
}

const registrar graph_vertices{{"graph_vertices",
                                "Lanes erase vertices of a graph while others add edges of these.",
                                {{{3, 2}, {2}}, 2},
                                run_graph_vertices}};

}  // namespace
}  // namespace orchard::explore
