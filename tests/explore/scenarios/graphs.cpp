// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Lanes of two kernels add edges to a graph and remove them, so that its rows grow, shrink and go, while another
/// kernel opens snapshots, reads them, and closes them. An edge is there exactly if it was added once more than
/// removed; a row ascends; what a snapshot shows does not change while it is open.

#include <array>
#include <cstdint>

#include "tests/explore/graph_world.hpp"

namespace orchard::explore {
namespace {

/// Vertices with edges, in two segments of the table.
constexpr std::array<std::uint32_t, 3> graphs_sources{1, 2, 4096};
constexpr std::uint32_t graphs_targets = 9;  // runs of 4, 8 and 12 edges

class graphs_world {
public:
    graphs_world(world& w, const heap_setup& setup)
        : graph{w, setup, {graphs_sources.begin(), graphs_sources.end()}, graphs_targets} {}

    /// Adds or removes an edge.
    void change_one() {
        auto& s = graph.heap.s;
        const auto source = static_cast<std::uint32_t>(s.pick(graphs_sources.size()));
        const auto v = static_cast<std::uint32_t>(s.pick(graphs_targets));
        const std::uint32_t u = graphs_sources[source];
        if (s.pick(3) != 0) {
            const edge_result r = graph.ref.insert(u, v);
            s.check(r != edge_result::no_memory, "no memory, although there is enough");
            added_[source][v] += r == edge_result::done ? 1 : 0;
        } else {
            const edge_result r = graph.ref.erase(u, v);
            s.check(r != edge_result::no_memory, "a removal without memory");
            added_[source][v] -= r == edge_result::done ? 1 : 0;
        }
    }

    /// Checks the graph, in a kernel after all others.
    bool check() {
        graph.heap.s.add_kernel({{1}}, [this](simt::thread_position) {
            (void)graph.read(graph.ref);
            for (std::size_t source = 0; source < graphs_sources.size(); ++source) {
                for (std::uint32_t v = 0; v < graphs_targets; ++v) {
                    const int there = graph.ref.contains(graphs_sources[source], v) ? 1 : 0;
                    graph.heap.s.check(added_[source][v] == there, "an edge was added or removed twice, or lost");
                }
            }
        });
        return graph.heap.s.run();
    }

    graph_world graph;

private:
    std::array<std::array<int, graphs_targets>, graphs_sources.size()> added_{};  ///< times added less removed
};

void run_graphs(world& w) {
    graphs_world g(w, {.segments = 24, .committed_at_start = 8});
    for (int kernel = 0; kernel < 2; ++kernel) {
        w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
            for (int i = 0; i < 3 * w.size.operations; ++i) {
                g.change_one();
            }
        });
    }
    // The host's functions, which one thread calls, launch one kernel after the other: here they are one, of one lane.
    w.s.add_kernel({{1}}, [&](simt::thread_position) {
        for (int i = 0; i < w.size.operations; ++i) {
            g.graph.read_snapshot(static_cast<std::uint32_t>(i) % graph_world::readers);
        }
    });
    if (w.s.run() && g.check() && g.graph.clear({class_of(16), class_of(32), class_of(48)})) {
        g.graph.heap.check_counts();
        g.graph.heap.check_clean(0);
    }
}

const registrar graphs{{"graphs",
                        "Lanes add and remove edges of a graph while snapshots of it are read.",
                        {{{3, 2}, {2}}, 2},
                        run_graphs}};

/// Lanes name vertices of a new graph: each segment is made once, and all have its address.
void run_graph_tables(world& w) {
    using device::graph_table;
    heap_world heap(w, {.segments = 24, .committed_at_start = 8});
    arena memory(1 << 16);
    auto* const table = memory.place<graph_table>(1);
    w.s.name_words(table, sizeof(*table), "table", sizeof(std::uint64_t));
    // Of levels 0, 0, 0 and 1.
    constexpr std::array<std::uint32_t, 4> vertices{0, 4095, 4096, 64 * 4096 + 1};
    std::array<int, vertices.size()> counted{};
    for (int kernel = 0; kernel < 2; ++kernel) {
        w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
            const std::uint32_t i = heap.s.pick(vertices.size());
            device::graph_vertex* const r = table->make(heap.ref, vertices[i]);
            heap.s.check(r != nullptr, "no memory, although there is enough");
            (void)r->lock.fetch_add<simt::order::relaxed>(1);
            ++counted[i];
        });
    }
    if (!w.s.run()) {
        return;
    }
    w.s.add_kernel({{1}}, [&](simt::thread_position) {
        for (std::size_t i = 0; i < vertices.size(); ++i) {
            const device::graph_vertex* const r = table->find(vertices[i]);
            const int found = r == nullptr ? 0 : static_cast<int>(r->lock.load<simt::order::relaxed>());
            heap.s.check(found == counted[i] || (found == 0 && counted[i] == 0), "a segment was made twice");
        }
        detail::graph_free_segments<>{heap.ref, table}(alone);
        detail::graph_free_levels<>{heap.ref, table}(alone);
    });
    if (w.s.run() && heap.settle({class_of(512), class_of(1024), class_of(graph_table::bytes_of_segment)})) {
        heap.check_counts();
        heap.check_clean(0);
    }
}

const registrar graph_tables{{"graph_tables",
                              "Lanes name vertices of a new graph, and make the segments of its table.",
                              {{{2, 1}, {2}}, 1},
                              run_graph_tables}};

}  // namespace
}  // namespace orchard::explore
