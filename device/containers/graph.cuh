// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `graph_ref`: a graph in a heap, whose edges and vertices kernels add and remove. docs/containers.md describes the
/// whole.
///
///     insert, erase      one edge of each lane; the lanes of a group work on one lane's edge after the other
///       change             finds the record, takes its lock, and looks for the edge
///         graph_rows         moves the row's edges: graph_change.cuh
///     erase_vertex       one vertex of each lane, likewise
///       erase_all          for each neighbour, the greatest first:
///         last_below         the neighbour, under the lock of the vertex
///         change             the edge from the neighbour, then the edge to it, each under the lock of its source
///     insert_vertex      raises the number of vertices
///     neighbours, ...    graph_row.cuh

#include <cstdint>

#include "device/containers/graph_change.cuh"

namespace orchard {

/// What became of an edge that a call was to add or to remove.
enum class edge_result : std::uint32_t {
    done,       ///< it was added, or removed
    no_change,  ///< it was there already, or was not there
    /// The heap had no memory, which it records, or the vertex has the most edges that a row has (`graph_max_degree`).
    /// The graph is as before.
    no_memory,
};

/// What became of a vertex whose edges a call was to remove.
struct vertex_result {
    /// `done`: edges were removed. `no_change`: the vertex had none. `no_memory`: the vertex has edges left, for whose
    /// removal the heap had no memory; the same call goes on where this one ended.
    edge_result result = edge_result::no_change;
    std::uint64_t removed = 0;  ///< directions of edges
};

/// The view of a `graph` in kernels, which reads it and changes it. Trivially copyable; pass it by value. It is valid
/// while the graph lives.
///
/// Any threads of any kernels may add and remove edges and vertices at the same time, in any divergence, beside readers
/// of snapshots. What reads the graph itself (`graph_view`) runs while no thread changes it: in another kernel on the
/// same stream, or on a snapshot.
/// @tparam Heap  the view of the memory that the graph lies in: `device::memory_of_tables`
template <class Property = no_property, class Heap = heap_ref>
class graph_ref : public graph_view<Property> {
    using rows = device::graph_rows<Property, Heap>;
    using layout = device::graph_layout<Property>;

public:
    /// The greatest number of a vertex.
    static constexpr std::uint32_t max_vertex = 0xfffffffeu;

    graph_ref() = default;
    ORCHARD_FN graph_ref(const Heap& heap, device::graph_state* state)
        : graph_view<Property>(&state->table), rows_{heap, state} {}

    /// Adds the edge from `u` to `v`, with a property. If the edge is there already it keeps its property. `u`, `v` <=
    /// `max_vertex`.
    ///
    /// Cost: the lanes that call it together work on one lane's edge after the other: a lock (two atomics), log2(d)
    /// loads for a vertex of `d` edges, and on average d / 2 edges that they move; `malloc` and `free` each time that d
    /// has grown by a third to a half. It waits for other calls that change edges of `u`.
    ORCHARD_FN edge_result insert(std::uint32_t u, std::uint32_t v, const Property& property = {}) const {
        const auto put = [&](std::uint32_t, std::uint64_t run, std::uint32_t place, std::uint32_t target) {
            layout::targets(run)[place].set(target);
            if constexpr (layout::has_property) {
                simt::write_element(layout::properties(run)[place], property);
            }
        };
        return for_each_lane<edge_result>(call::insert, u, v,
                                          [&](const device::graph_group& g, std::uint32_t uu, std::uint32_t vv) {
                                              return change<true>(g, uu, vv, put);
                                          });
    }

    /// Removes the edge from `u` to `v`. Cost: as `insert`. It needs memory only if an open snapshot has the edges of
    /// `u`.
    ORCHARD_FN edge_result erase(std::uint32_t u, std::uint32_t v) const {
        const auto put = [](std::uint32_t, std::uint64_t, std::uint32_t, std::uint32_t) {};
        return for_each_lane<edge_result>(call::erase, u, v,
                                          [&](const device::graph_group& g, std::uint32_t uu, std::uint32_t vv) {
                                              return change<false>(g, uu, vv, put);
                                          });
    }

    /// Makes vertex `u` known, and all below it, as `graph::reserve_vertices` does: `vertices` is above `u` afterwards.
    /// Returns true if `u` was unknown, false if it was known or is above `max_vertex`. Of several calls for one
    /// vertex, at most one returns true. The vertex takes no memory before it has edges. Cost: a load; an atomic if `u`
    /// is unknown.
    ORCHARD_FN bool insert_vertex(std::uint32_t u) const {
        auto& known = this->table_->vertices;
        std::uint32_t found = known.load_cached();
        while (u <= max_vertex && found <= u) {
            if (known.template compare_exchange<simt::order::relaxed>(found, u + 1)) {
                return true;
            }
        }
        return false;
    }

    /// Removes all edges from `u` and, for each edge from `u` to some `v`, the edge from `v` to `u`. Returns the number
    /// of edges removed, and whether memory was short. A vertex whose edges are in both directions has none afterwards,
    /// unless other calls add edges of `u` meanwhile. The vertex stays known.
    ///
    /// In a directed graph, the edges to `u` from vertices to which `u` has no edge stay; `graph::erase_vertices`,
    /// which reads the whole graph, finds these.
    ///
    /// The edges are removed one by one, and of both directions that to `u` first, so that other calls may see one
    /// without the other. Calls for one vertex at the same time share the work, and each returns the number that it has
    /// removed; one may return while another is at its last edge. An edge of `u` that another call adds meanwhile stays
    /// or goes. If a thread adds both directions of an edge, that to `u` first, and neither was there before, both stay
    /// or both go, unless `v` is erased meanwhile, too.
    ///
    /// It needs memory only if an open snapshot has the edges of `u` or of a neighbour. It ends at the first shortage:
    /// `u` still has an edge to each vertex that has kept its edge to `u`, so that the next call finds it.
    ///
    /// Cost: for each edge from `u`, two calls of `erase`, and a lock with log2(d) loads. The lanes that call it
    /// together work on one lane's vertex after the other.
    ORCHARD_FN vertex_result erase_vertex(std::uint32_t u) const {
        return for_each_lane<vertex_result>(
            call::erase_vertex, u, u,
            [&](const device::graph_group& g, std::uint32_t uu, std::uint32_t) { return erase_all(g, uu); });
    }

    /// For the host's kernels.
    [[nodiscard]] ORCHARD_INLINE const rows& changes() const { return rows_; }
    [[nodiscard]] ORCHARD_INLINE device::graph_table& table() const { return *this->table_; }

    /// Takes and releases the lock of a record. One lane.
    ORCHARD_FN static void lock(device::graph_vertex& r) {
        for (;;) {
            simt::mutation::weaken_next(simt::mutation::fault::graph_lock);
            // Pairs with the release of `unlock`.
            if ((r.lock.template fetch_or<simt::order::acquire>(1) & 1) == 0) {
                return;
            }
            do {
                simt::pause(100);
            } while ((r.lock.template load<simt::order::relaxed>() & 1) != 0);
        }
    }
    /// @param copied  the number of the last snapshot that has the row
    ORCHARD_FN static void unlock(device::graph_vertex& r, std::uint32_t copied) {
        r.lock.template store<simt::order::release>(copied << 1);
    }
    ORCHARD_FN static void unlock(device::graph_vertex& r) {
        unlock(r, r.lock.template load<simt::order::relaxed>() >> 1);
    }

private:
    enum class call : std::uint64_t { insert, erase, erase_vertex };
    static constexpr std::uint32_t no_vertex = max_vertex + 1;

    /// Calls `act(group, u, v)` for the arguments of each lane that is here, one after the other, with that lane as the
    /// leader. Returns the result of the calling lane's. Lanes of different calls, or graphs, are never in one group,
    /// even if they meet here.
    template <class Result, class Act>
    ORCHARD_FN Result for_each_lane(call what, std::uint32_t u, std::uint32_t v, const Act& act) const {
        const std::uint64_t key = reinterpret_cast<std::uint64_t>(&rows_.state()) | static_cast<std::uint64_t>(what);
        const simt::lane_mask here = simt::match(simt::converge(), key);
        Result mine{};
        for (simt::lane_mask left = here; left != 0; left &= left - 1) {
            const int lane = simt::lowest_bit(left);
            const device::graph_group g = device::graph_group::of(here, lane);
            const std::uint32_t uu = simt::shuffle(here, u, lane);
            const std::uint32_t vv = simt::shuffle(here, v, lane);
            const Result result = act(g, uu, vv);
            mine = g.leads() ? result : mine;
        }
        return mine;
    }

    /// Adds or removes one edge. All lanes of the group; the leader has the edge, and writes it by `put`.
    template <bool Insert, class Put>
    ORCHARD_FN edge_result change(const device::graph_group& g, std::uint32_t u, std::uint32_t v,
                                  const Put& put) const {
        std::uint64_t record = 0;
        if (g.leads() && u <= max_vertex && v <= max_vertex) {
            auto* const r = Insert ? this->table_->make(rows_.heap(), u) : this->table_->acquire(u);
            record = reinterpret_cast<std::uint64_t>(r);
        }
        record = simt::shuffle(g.mask, record, g.leader);
        if (record == 0) {
            return Insert ? edge_result::no_memory : edge_result::no_change;
        }
        auto& r = *simt::global_pointer<device::graph_vertex>(record);
        std::uint32_t early = 0;
        if (simt::mutation::is(simt::mutation::fault::graph_look) && g.leads()) {
            lock(r);
            early = rows::open(r).edges().contains(v) ? 1 : 2;
            unlock(r);
        }
        if (g.leads()) {
            lock(r);
        }
        simt::sync(g.mask);
        const graph_row<Property> edges = rows::open(r).edges();
        const std::uint32_t place = edges.lower_bound(v);
        bool is_there = place < edges.size() && edges[place] == v;
        if (simt::mutation::is(simt::mutation::fault::graph_look)) {
            is_there = simt::shuffle(g.mask, early, g.leader) == 1;
        }
        edge_result result = edge_result::no_change;
        if (is_there != Insert) {
            const auto at = [place](std::uint32_t) { return place; };
            bool done = false;
            if constexpr (Insert) {
                const auto write = [&](std::uint32_t k, std::uint64_t run, std::uint32_t to) { put(k, run, to, v); };
                done = rows_.insert(g, r, 1, at, write);
            } else {
                done = rows_.remove(g, r, 1, at);
            }
            result = done ? edge_result::done : edge_result::no_memory;
        } else {
            simt::sync(g.mask);  // all have read the row
        }
        if (g.leads()) {
            if (Insert && result == edge_result::done) {
                note_vertices((u > v ? u : v) + 1);  // before a snapshot can have the edge
            }
            unlock(r);
        }
        return result;
    }
    /// Removes the edge from `u` to `v`. All lanes of the group.
    ORCHARD_NOINLINE edge_result remove(const device::graph_group& g, std::uint32_t u, std::uint32_t v) const {
        return change<false>(g, u, v, [](std::uint32_t, std::uint64_t, std::uint32_t, std::uint32_t) {});
    }
    /// Removes the edges of one vertex. All lanes of the group. It goes from neighbour to lesser neighbour, so that it
    /// ends although others add edges; while none do, `remove` takes the last edge of `u` and moves no other.
    ORCHARD_FN vertex_result erase_all(const device::graph_group& g, std::uint32_t u) const {
        vertex_result all;
        for (std::uint32_t v = last_below(g, u, no_vertex); v != no_vertex; v = last_below(g, u, v)) {
            // Without memory for the second removal, `u` keeps an edge by which the next call finds the rest.
            const bool to_u_first = !simt::mutation::is(simt::mutation::fault::vertex_order);
            edge_result r = edge_result::done;
            for (std::uint32_t k = 0; k < 2 && r != edge_result::no_memory; ++k) {
                const bool is_to_u = (k == 0) == to_u_first;
                r = remove(g, is_to_u ? v : u, is_to_u ? u : v);
                all.removed += r == edge_result::done ? 1 : 0;
            }
            if (r == edge_result::no_memory) {
                all.result = r;
                return all;
            }
        }
        all.result = all.removed != 0 ? edge_result::done : edge_result::no_change;
        return all;
    }
    /// Returns the greatest neighbour of `u` below `bound`; `no_vertex` if there is none. All lanes of the group; the
    /// leader looks.
    ORCHARD_FN std::uint32_t last_below(const device::graph_group& g, std::uint32_t u, std::uint32_t bound) const {
        std::uint32_t last = no_vertex;
        device::graph_vertex* const r = g.leads() && u <= max_vertex ? this->table_->acquire(u) : nullptr;
        if (r != nullptr) {
            if (!simt::mutation::is(simt::mutation::fault::vertex_look)) {
                lock(*r);
            }
            const graph_row<Property> edges = rows::open(*r).edges();
            const std::uint32_t place = edges.lower_bound(bound);
            last = place == 0 ? no_vertex : edges[place - 1];
            if (!simt::mutation::is(simt::mutation::fault::vertex_look)) {
                unlock(*r);
            }
        }
        return simt::shuffle(g.mask, last, g.leader);
    }
    /// Raises the number of vertices, mostly without an atomic.
    ORCHARD_INLINE void note_vertices(std::uint32_t count) const {
        if (this->table_->vertices.load_cached() < count) {
            this->table_->vertices.template raise<simt::order::relaxed>(count);
        }
    }

    rows rows_;
};

static_assert(std::is_trivially_copyable_v<graph_ref<>>);

}  // namespace orchard
