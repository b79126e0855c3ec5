// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A graph in a simulated heap, and its snapshots. The table of the vertices lies outside of the heap, so that each
/// word of the heap is one of an edge or of a note.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "runtime/containers/graph_kernels.hpp"
#include "tests/explore/heap_world.hpp"

namespace orchard::explore {

/// The position of a lane that is a grid by itself.
inline constexpr simt::thread_position alone{0, 0, 1, 1};

class graph_world {
public:
    static constexpr std::uint32_t readers = 2;  ///< snapshots that may be open

    /// @param sources  the vertices that may have edges, all in segments 0 and 1 of the table
    /// @param targets  all vertices are below
    /// @param premade  segments of the table that are there, of the first two
    graph_world(world& w, const heap_setup& setup, std::vector<std::uint32_t> sources, std::uint32_t targets,
                std::uint32_t premade = 2)
        : heap{w, setup},
          memory{arena_bytes},
          state{memory.place<device::graph_state>(1)},
          ref{heap.ref, state},
          sources_{std::move(sources)},
          targets_{targets} {
        // All of it: words of the graph have addresses of its tables, which differ from run to run.
        heap.s.name_words(memory.base(), arena_bytes, "graph", sizeof(std::uint64_t));
        premake(state->table, premade);
        for (std::uint32_t i = 0; i < readers; ++i) {
            premake(state->snapshots[i], 2);
        }
    }

    [[nodiscard]] const std::vector<std::uint32_t>& sources() const { return sources_; }

    /// Opens a snapshot, and closes it, as the kernels of `graph` do, each with one thread. An actor calls it.
    graph_view<> open(std::uint32_t slot) {
        const std::uint32_t number = ++last_;
        open_[slot] = number;
        detail::graph_snapshot_segments<>{heap.ref, state, slot, oldest(), &failures_}(alone);
        // As `graph_snapshot_copy`, of the vertices that can have edges alone.
        for (const std::uint32_t u : sources_) {
            detail::graph_snapshot_copy{state, slot, number}.copy(u);
        }
        detail::graph_snapshot_vertices{state, slot}(alone);
        return graph_view<>(&state->snapshots[slot]);
    }
    void close(std::uint32_t slot) {
        open_[slot] = 0;
        detail::graph_free_retired<>{heap.ref, state, oldest()}(alone);
    }

    /// Opens a snapshot, reads it twice, and closes it.
    void read_snapshot(std::uint32_t slot) {
        const graph_view<> view = open(slot);
        const std::vector<std::uint32_t> first = read(view);
        simt::pause(heap.s.pick(4) * 1'000);
        heap.s.check(read(view) == first, "a snapshot changed");
        close(slot);
    }

    /// Returns the edges of all rows, each row ended by `targets`, after checking that each row ascends.
    std::vector<std::uint32_t> read(const graph_view<>& view) {
        std::vector<std::uint32_t> all;
        for (const std::uint32_t u : sources_) {
            const graph_row<> row = view.neighbours(u);
            for (std::uint32_t i = 0; i < row.size(); ++i) {
                const std::uint32_t v = row[i];
                heap.s.check(v < targets_ && (i == 0 || all.back() < v), "a row does not ascend");
                heap.s.check(u < view.vertices() && v < view.vertices(), "a vertex that is not counted");
                all.push_back(v);
            }
            all.push_back(targets_);
        }
        return all;
    }

    /// Gives the table its segment 1, if no call has made it. Not for actors.
    void premake_rest() {
        device::graph_table& table = state->table;
        auto& word = *table.acquire_segment_word(1);
        if (word.load<simt::order::relaxed>() == device::graph_table::none) {
            word = device::graph_table::word(reinterpret_cast<std::uint64_t>(segment()));
        }
    }

    /// Frees everything, in a kernel after all others, and retires the slabs of `classes`.
    bool clear(std::initializer_list<std::uint32_t> classes) {
        heap.s.add_kernel({{1}}, [this](simt::thread_position) {
            detail::graph_free_retired<>{heap.ref, state, 0}(alone);
            for (const std::uint32_t u : sources_) {
                device::graph_vertex* const r = state->table.acquire(u);
                if (r != nullptr && r->run.get() != 0) {
                    heap.ref.free(device::graph_run::address(r->run.get()));
                }
            }
        });
        return heap.s.run() && heap.settle(classes);
    }

private:
    /// Bytes of the graph's words and tables.
    static constexpr std::size_t arena_bytes = 1 << 20;

    device::graph_vertex* segment() {
        return memory.place<device::graph_vertex>(std::size_t{1} << device::graph_table::log_segment);
    }
    void premake(device::graph_table& table, std::uint32_t segments) {
        using device::graph_table;
        auto* const level = memory.place<std::uint64_t>(std::size_t{1} << graph_table::log_first);
        for (std::uint32_t s = 0; s < segments; ++s) {
            level[s] = reinterpret_cast<std::uint64_t>(segment());
        }
        table.levels[0] = graph_table::word(reinterpret_cast<std::uint64_t>(level));
    }
    [[nodiscard]] std::uint32_t oldest() const {
        std::uint32_t least = 0;
        for (const std::uint32_t number : open_) {
            least = number != 0 && (least == 0 || number < least) ? number : least;
        }
        return least;
    }

public:
    heap_world heap;
    arena memory;  ///< of the graph's words
    device::graph_state* state;
    graph_ref<> ref;

private:
    std::vector<std::uint32_t> sources_;
    std::uint32_t targets_;
    std::array<std::uint32_t, readers> open_{};  ///< numbers of open snapshots
    std::uint32_t last_ = 0;
    simt::device_word<std::uint64_t> failures_{0};
};

}  // namespace orchard::explore
