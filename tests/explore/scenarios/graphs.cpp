// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Lanes of two kernels add edges to a graph and remove them, so that its rows grow, shrink and go, while another
/// kernel opens snapshots, reads them, and closes them. An edge is there exactly if it was added once more than
/// removed; a row ascends; what a snapshot shows does not change while it is open.

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "runtime/containers/graph_kernels.hpp"
#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

/// Vertices with edges, in two segments of the table.
constexpr std::array<std::uint32_t, 3> graphs_sources{1, 2, 4096};
constexpr std::uint32_t graphs_targets = 9;  // runs of 4, 8 and 12 edges
constexpr std::uint32_t graphs_readers = 2;
/// Bytes of the graph's words and tables.
constexpr std::size_t arena_bytes = 1 << 20;

/// The position of a lane that is a grid by itself.
constexpr simt::thread_position alone{0, 0, 1, 1};

class graphs_world {
public:
    graphs_world(world& w, const heap_setup& setup)
        : heap{w, setup}, memory_{arena_bytes}, state_{memory_.place<device::graph_state>(1)}, ref_{heap.ref, state_} {
        // All of it: words of the graph have addresses of its tables, which differ from run to run.
        heap.s.name_words(memory_.base(), arena_bytes, "graph", sizeof(std::uint64_t));
        premake(state_->table);
        for (std::uint32_t i = 0; i < graphs_readers; ++i) {
            premake(state_->snapshots[i]);
        }
    }

    /// Adds or removes an edge.
    void change_one() {
        const auto source = static_cast<std::uint32_t>(heap.s.pick(graphs_sources.size()));
        const auto v = static_cast<std::uint32_t>(heap.s.pick(graphs_targets));
        const std::uint32_t u = graphs_sources[source];
        if (heap.s.pick(3) != 0) {
            const edge_result r = ref_.insert(u, v);
            heap.s.check(r != edge_result::no_memory, "no memory, although there is enough");
            added_[source][v] += r == edge_result::done ? 1 : 0;
        } else {
            const edge_result r = ref_.erase(u, v);
            heap.s.check(r != edge_result::no_memory, "a removal without memory");
            added_[source][v] -= r == edge_result::done ? 1 : 0;
        }
    }

    /// Opens a snapshot, reads it twice, and closes it, by the kernels of `graph`, each with one thread.
    void read_snapshot(std::uint32_t slot) {
        const std::uint32_t number = ++last_;
        open_[slot] = number;
        detail::graph_snapshot_segments<>{heap.ref, state_, slot, oldest(), &failures_}(alone);
        const graph_view<> view(&state_->snapshots[slot]);
        copy_records(slot, number);
        detail::graph_snapshot_vertices{state_, slot}(alone);
        const std::vector<std::uint32_t> first = read(view);
        simt::pause(heap.s.pick(4) * 1'000);
        heap.s.check(read(view) == first, "a snapshot changed");
        open_[slot] = 0;
        detail::graph_free_retired<>{heap.ref, state_, oldest()}(alone);
    }

    /// Checks the graph, in a kernel after all others.
    bool check() {
        heap.s.add_kernel({{1}}, [this](simt::thread_position) {
            (void)read(ref_);
            for (std::size_t source = 0; source < graphs_sources.size(); ++source) {
                for (std::uint32_t v = 0; v < graphs_targets; ++v) {
                    const int there = ref_.contains(graphs_sources[source], v) ? 1 : 0;
                    heap.s.check(added_[source][v] == there, "an edge was added or removed twice, or lost");
                }
            }
        });
        return heap.s.run();
    }

    /// Frees everything.
    bool clear() {
        heap.s.add_kernel({{1}}, [this](simt::thread_position) {
            detail::graph_free_retired<>{heap.ref, state_, 0}(alone);
            for (const std::uint32_t u : graphs_sources) {
                device::graph_vertex* const r = state_->table.acquire(u);
                if (r != nullptr && r->run.get() != 0) {
                    heap.ref.free(device::graph_run::address(r->run.get()));
                }
            }
        });
        return heap.s.run() && heap.settle({class_of(16), class_of(32), class_of(48)});
    }

    heap_world heap;

private:
    /// Gives a table its segments, outside of the heap: each word of the heap is one of an edge or a note.
    void premake(device::graph_table& table) {
        using device::graph_table;
        auto* const level = memory_.place<std::uint64_t>(std::size_t{1} << graph_table::log_first);
        for (std::uint32_t s = 0; s < 2; ++s) {
            auto* const segment = memory_.place<device::graph_vertex>(std::size_t{1} << graph_table::log_segment);
            level[s] = reinterpret_cast<std::uint64_t>(segment);
        }
        table.levels[0] = graph_table::word(reinterpret_cast<std::uint64_t>(level));
    }

    /// As `graph_snapshot_copy`, of the vertices that can have edges alone.
    void copy_records(std::uint32_t slot, std::uint32_t number) {
        for (const std::uint32_t u : graphs_sources) {
            detail::graph_snapshot_copy{state_, slot, number}.copy(u);
        }
    }

    /// Returns the edges of all rows, after checking that each row ascends.
    std::vector<std::uint32_t> read(const graph_view<>& view) {
        std::vector<std::uint32_t> all;
        for (const std::uint32_t u : graphs_sources) {
            const graph_row<> row = view.neighbours(u);
            for (std::uint32_t i = 0; i < row.size(); ++i) {
                const std::uint32_t v = row[i];
                heap.s.check(v < graphs_targets && (i == 0 || all.back() < v), "a row does not ascend");
                heap.s.check(u < view.vertices() && v < view.vertices(), "a vertex that is not counted");
                all.push_back(v);
            }
            all.push_back(graphs_targets);
        }
        return all;
    }
    [[nodiscard]] std::uint32_t oldest() const {
        std::uint32_t least = 0;
        for (const std::uint32_t number : open_) {
            least = number != 0 && (least == 0 || number < least) ? number : least;
        }
        return least;
    }

    arena memory_;
    device::graph_state* state_;
    graph_ref<> ref_;
    std::array<std::array<int, graphs_targets>, graphs_sources.size()> added_{};  ///< times added less removed
    std::array<std::uint32_t, graphs_readers> open_{};                            ///< numbers of open snapshots
    std::uint32_t last_ = 0;
    simt::device_word<std::uint64_t> failures_{0};
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
            g.read_snapshot(static_cast<std::uint32_t>(i) % graphs_readers);
        }
    });
    if (w.s.run() && g.check() && g.clear()) {
        g.heap.check_counts();
        g.heap.check_clean(0);
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
