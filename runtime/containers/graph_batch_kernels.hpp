// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The kernels of batches of a `graph`. All are launched in whole warps, one behind the other; the host waits for the
/// last one alone.
///
/// A batch becomes an array of keys, (source, target) in one word, which is sorted, so that the edges of a vertex lie
/// side by side in the order of its row:
///
///     graph_begin       one thread          counts of zero
///     graph_keys        a thread an edge    keys
///     sort_keys                             in order
///     graph_segments    a thread a key      makes segments of the table, before edges are added
///     graph_search      a thread a key      where in its row the edge goes or is
///     sum_before                            numbers the rows, and the edges that change the graph
///     graph_gather      a thread a key      those edges side by side, and where each row begins
///     graph_merge       a lane a row        32 rows at a time: chooses runs; then 8 lanes change a short row, the
///                                           warp a long one
///     graph_merge_hubs  a block a row       changes the rows of many edges
///
///     keys      1>5  1>7  1>9  3>2  4>1  4>4         edge 1>7 is there already, and 3>2
///     numbers   row 0,0,0,1,2,2   change 0,1,1,2,2,3
///     changing  1>5  1>9  4>1  4>4                   rows begin at 0, 2, 2; row 1 has no change
///
/// If a vertex has more bits than the last batch had, the kernels after `graph_keys` do nothing, and the host launches
/// all of them again.

#include <cstdint>

#include "device/containers/graph.cuh"
#include "device/simt/launch.cuh"

namespace orchard::detail {

/// The sum of `value` over a whole warp, in every lane.
ORCHARD_FN inline std::uint64_t warp_sum(std::uint64_t value) {
    constexpr simt::lane_mask whole = ~simt::lane_mask{0};
    for (int distance = 16; distance != 0; distance /= 2) {
        value += simt::shuffle(whole, value, simt::lane_id() ^ distance);
    }
    return value;
}
ORCHARD_FN inline void add_warp_sum(simt::device_word<std::uint64_t>& to, std::uint64_t value) {
    const std::uint64_t sum = warp_sum(value);
    if (simt::lane_id() == 0 && sum != 0) {
        to.fetch_add<simt::order::relaxed>(sum);
    }
}

/// What the kernels of a batch count.
struct graph_counts {
    simt::device_word<std::uint64_t> taken;  ///< of `erase_vertices`
    simt::device_word<std::uint64_t> left;
    simt::device_word<std::uint64_t> loops;     ///< edges of an undirected batch from a vertex to itself
    simt::device_word<std::uint64_t> changing;  ///< edges that are not there already, or are there to be removed
    simt::device_word<std::uint32_t> greatest;
    simt::device_word<std::uint32_t> rows;
    simt::device_word<std::uint32_t> hubs;
};

/// The run that a block's row moves to.
struct graph_plan {
    std::uint64_t run;
    std::uint64_t note;
    std::uint64_t left;  ///< without memory: where the row's edges go among those that are left
    std::uint64_t fits;
};

/// A batch in device memory.
struct graph_batch {
    static constexpr std::uint32_t none = 0xffffffffu;  ///< the place of an edge that changes nothing
    static constexpr std::uint32_t max_vertex = 0xfffffffeu;

    std::uint64_t* keys;    ///< in order, from `sort_keys` on; at the end those that found no memory
    std::uint32_t* values;  ///< the edges' numbers in the batch; null without properties
    std::uint32_t* places;  ///< of the keys; from `graph_gather` on, the rows that blocks change
    std::uint64_t* numbers;
    std::uint64_t* changing_keys;
    std::uint32_t* changing_values;
    std::uint32_t* changing_places;
    std::uint32_t* rows;  ///< where each begins among the changing keys; one more at the end
    graph_plan* plans;    ///< one a block of `graph_merge_hubs`
    graph_counts* counts;
    std::uint64_t count;
    int bits;  ///< of a target

    [[nodiscard]] ORCHARD_INLINE std::uint32_t source(std::uint64_t key) const {
        return static_cast<std::uint32_t>(key >> bits);
    }
    [[nodiscard]] ORCHARD_INLINE std::uint32_t target(std::uint64_t key) const {
        return static_cast<std::uint32_t>(key & ((std::uint64_t{1} << bits) - 1));
    }
    /// Returns whether all vertices have at most `bits` bits; known from `graph_keys` on.
    [[nodiscard]] ORCHARD_INLINE bool is_valid() const {
        const std::uint32_t greatest = counts->greatest.load<simt::order::relaxed>();
        return greatest <= max_vertex && std::uint64_t{greatest} >> bits == 0;
    }
};

struct graph_begin {
    graph_counts* counts;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.global_thread() == 0) {
            for (auto* const sum : {&counts->taken, &counts->left, &counts->loops, &counts->changing}) {
                sum->store<simt::order::relaxed>(0);
            }
            for (auto* const sum : {&counts->greatest, &counts->rows, &counts->hubs}) {
                sum->store<simt::order::relaxed>(0);
            }
        }
    }
};

struct graph_keys {
    const std::uint32_t* sources;
    const std::uint32_t* targets;
    std::uint64_t count;
    bool undirected;
    graph_batch to;

    ORCHARD_FN void put(std::uint64_t i, std::uint32_t u, std::uint32_t v, std::uint64_t number) const {
        to.keys[i] = std::uint64_t{u} << to.bits | v;
        if (to.values != nullptr) {
            to.values[i] = static_cast<std::uint32_t>(number);
        }
    }
    ORCHARD_FN void operator()(simt::thread_position at) const {
        std::uint32_t greatest = 0;
        std::uint64_t loops = 0;
        for (std::uint64_t i = at.global_thread(); i < count; i += at.threads()) {
            const std::uint32_t u = sources[i];
            const std::uint32_t v = targets[i];
            greatest = u > greatest ? u : greatest;
            greatest = v > greatest ? v : greatest;
            put(i, u, v, i);
            if (undirected) {
                put(count + i, v, u, i);
                loops += u == v ? 1 : 0;
            }
        }
        greatest = simt::reduce_max(~simt::lane_mask{0}, greatest);
        if (simt::lane_id() == 0) {
            to.counts->greatest.raise<simt::order::relaxed>(greatest);
        }
        add_warp_sum(to.counts->loops, loops);
    }
};

/// Makes the segments of the table that the sources of a batch need, so that the kernels after it need not, and counts
/// the vertices. A kernel of its own: with `malloc` in it, the search would run with a third of its warps.
template <class Property, class Heap = heap_ref>
struct graph_segments {
    graph_ref<Property, Heap> graph;
    graph_batch batch;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (!batch.is_valid()) {
            return;
        }
        if (at.global_thread() == 0) {
            graph.table().vertices.template raise<simt::order::relaxed>(
                batch.counts->greatest.template load<simt::order::relaxed>() + 1);
        }
        for (std::uint64_t i = at.global_thread(); i < batch.count; i += at.threads()) {
            const std::uint32_t u = batch.source(batch.keys[i]);
            const bool begins = i == 0 || batch.source(batch.keys[i - 1]) != u;
            if (begins && graph.table().find(u) == nullptr) {
                (void)graph.table().make(graph.changes().heap(), u);
            }
        }
    }
};

/// Finds the places of the keys in their rows.
template <class Property, bool Insert, class Heap = heap_ref>
struct graph_search {
    graph_ref<Property, Heap> graph;
    graph_batch batch;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (!batch.is_valid()) {
            return;
        }
        if (at.global_thread() == 0) {
            batch.numbers[batch.count] = 0;
        }
        for (std::uint64_t i = at.global_thread(); i < batch.count; i += at.threads()) {
            const std::uint64_t key = batch.keys[i];
            const std::uint32_t u = batch.source(key);
            const bool begins = i == 0 || batch.source(batch.keys[i - 1]) != u;
            std::uint32_t place = graph_batch::none;
            if (i == 0 || batch.keys[i - 1] != key) {
                const graph_row<Property> row = graph.neighbours(u);
                const std::uint32_t v = batch.target(key);
                const std::uint32_t found = row.lower_bound(v);
                const bool is_there = found < row.size() && row[found] == v;
                place = is_there != Insert ? found : graph_batch::none;
            }
            batch.places[i] = place;
            batch.numbers[i] = std::uint64_t{begins ? 1u : 0u} << 32 | (place != graph_batch::none ? 1u : 0u);
        }
    }
};

/// Puts the keys that change the graph side by side. `numbers` are those of rows and of changing keys before each key.
template <bool HasProperty>
struct graph_gather {
    graph_batch batch;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (!batch.is_valid()) {
            return;
        }
        for (std::uint64_t i = at.global_thread(); i <= batch.count; i += at.threads()) {
            const std::uint64_t own = batch.numbers[i];
            const auto row = static_cast<std::uint32_t>(own >> 32);
            const auto to = static_cast<std::uint32_t>(own);
            if (i == batch.count) {
                batch.rows[row] = to;
                batch.counts->rows.store<simt::order::relaxed>(row);
                batch.counts->changing.store<simt::order::relaxed>(to);
                continue;
            }
            const std::uint64_t next = batch.numbers[i + 1];
            if (static_cast<std::uint32_t>(next >> 32) != row) {
                batch.rows[row] = to;
            }
            if (static_cast<std::uint32_t>(next) != to) {
                batch.changing_keys[to] = batch.keys[i];
                batch.changing_places[to] = batch.places[i];
                if (HasProperty) {
                    batch.changing_values[to] = batch.values[i];
                }
            }
        }
    }
};

/// What the merging kernels share.
template <class Property, bool Insert, class Heap>
struct graph_merger {
    using rows = device::graph_rows<Property, Heap>;
    using layout = device::graph_layout<Property>;

    graph_ref<Property, Heap> graph;
    graph_batch batch;
    const Property* properties;

    /// A row and its part of the batch: `n` keys from `start` on.
    struct part {
        std::uint32_t start = 0;
        std::uint32_t n = 0;
        device::graph_vertex* vertex = nullptr;  ///< null if its segment found no memory
        typename rows::row old{};

        [[nodiscard]] ORCHARD_INLINE std::uint64_t degree() const {
            return Insert ? std::uint64_t{old.degree} + n : std::uint64_t{old.degree} - n;
        }
    };
    /// The places of a part, and what writes its edges.
    struct places_from {
        const std::uint32_t* first;
        ORCHARD_INLINE std::uint32_t operator()(std::uint32_t k) const { return first[k]; }
    };
    struct writer {
        const graph_merger& m;
        std::uint32_t start;
        ORCHARD_INLINE void operator()(std::uint32_t k, std::uint64_t run, std::uint32_t place) const {
            layout::targets(run)[place].set(m.batch.target(m.batch.changing_keys[start + k]));
            if constexpr (layout::has_property) {
                simt::touched(layout::properties(run)[place]) = m.properties[m.batch.changing_values[start + k]];
            }
        }
    };

    [[nodiscard]] ORCHARD_FN part part_of(std::uint32_t row) const {
        part p;
        p.start = batch.rows[row];
        p.n = batch.rows[row + 1] - p.start;
        if (p.n != 0) {
            p.vertex = graph.table().find(batch.source(batch.changing_keys[p.start]));
            p.old = p.vertex == nullptr ? p.old : rows::open(*p.vertex);
        }
        return p;
    }
    /// Changes a row, whose run was chosen. All threads of the team.
    template <class Team>
    ORCHARD_FN void change(const Team& team, const typename rows::row& old, std::uint64_t run, std::uint32_t start,
                           std::uint32_t n) const {
        const places_from at{batch.changing_places + start};
        if constexpr (Insert) {
            rows::add_edges(team, old, run, n, at, writer{*this, start});
        } else {
            rows::remove_edges(team, old, run, n, at);
        }
    }
    /// Returns where the edges of a part without memory go: `leave` writes them there. One thread.
    ORCHARD_FN std::uint64_t room_to_leave(std::uint32_t n) const {
        return batch.counts->left.template fetch_add<simt::order::relaxed>(n);
    }
    template <class Team>
    ORCHARD_FN void leave(const Team& team, std::uint64_t to, std::uint32_t start, std::uint32_t n) const {
        for (std::uint32_t k = team.rank; k < n; k += team.size) {
            batch.keys[to + k] = batch.changing_keys[start + k];
            if (layout::has_property) {
                batch.values[to + k] = batch.changing_values[start + k];
            }
        }
    }
};

/// Changes the rows but those of many edges, which it lists. A warp takes 32 rows at a time, whose lanes choose the
/// runs together, and free the old ones together: the heap serves lanes that call at the same time by few atomics.
template <class Property, bool Insert, class Heap = heap_ref>
struct graph_merge : graph_merger<Property, Insert, Heap> {
    using base = graph_merger<Property, Insert, Heap>;
    static constexpr int max_registers = 64;                                ///< twice as many warps as without
    static constexpr std::uint32_t short_moves = device::graph_tile::most;  ///< edges that a tile moves and adds
    static constexpr std::uint32_t hub_degree = 4096;  ///< of a row that a block changes, with its part
    static constexpr simt::lane_mask whole = ~simt::lane_mask{0};

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (!this->batch.is_valid()) {
            return;
        }
        const std::uint64_t warps = at.threads() / simt::warp_size;
        const std::uint32_t count = this->batch.counts->rows.template load<simt::order::relaxed>();
        for (std::uint64_t first = at.global_warp() * simt::warp_size; first < count;
             first += warps * simt::warp_size) {
            change_32(static_cast<std::uint32_t>(first), count);
        }
    }

private:
    ORCHARD_FN void change_32(std::uint32_t first, std::uint32_t count) const {
        const auto lane = static_cast<std::uint32_t>(simt::lane_id());
        typename base::part p;
        if (first + lane < count) {
            p = this->part_of(first + lane);
        }
        if (p.n != 0 && std::uint64_t{p.old.degree} + p.n > hub_degree) {
            const std::uint32_t i = this->batch.counts->hubs.template fetch_add<simt::order::relaxed>(1);
            this->batch.places[i] = first + lane;
            p.n = 0;
        }
        simt::sync(whole);
        device::graph_move to;
        if (p.n != 0 && p.vertex != nullptr) {
            to = this->graph.changes().choose(*p.vertex, p.old, p.degree());
        }
        // Edges that are moved and added. Those before the first change stay, if the run does.
        std::uint32_t moves = p.old.degree + p.n;
        if (to.fits && to.run == p.old.run) {
            moves -= this->batch.changing_places[p.start];
        }
        simt::sync(whole);  // what `malloc` has acquired
        change_short(p, to.run, simt::ballot(whole, to.fits && moves <= short_moves));
        for (simt::lane_mask left = simt::ballot(whole, to.fits && moves > short_moves); left != 0; left &= left - 1) {
            change_of(device::graph_group::of(whole), p, to.run, simt::lowest_bit(left), true);
        }
        leave_all(p, simt::ballot(whole, p.n != 0 && !to.fits));
        simt::sync(whole);  // all have read the old runs and written the new ones
        if (to.fits) {
            this->graph.changes().end(*p.vertex, p.old, to, static_cast<std::uint32_t>(p.degree()));
        }
        simt::sync(whole);
    }

    /// Changes the rows of the lanes `lanes`, each by a tile.
    ORCHARD_FN void change_short(const typename base::part& p, std::uint64_t run, simt::lane_mask lanes) const {
        constexpr std::uint32_t tiles = simt::warp_size / device::graph_tile::size;
        const auto lane = static_cast<std::uint32_t>(simt::lane_id());
        while (lanes != 0) {
            simt::lane_mask own = lanes;
            for (std::uint32_t j = 0; j < tiles; ++j) {
                own = j < lane / device::graph_tile::size ? own & (own - 1) : own;
                lanes &= lanes - 1;
            }
            change_of(device::graph_tile{lane % device::graph_tile::size}, p, run, own != 0 ? simt::lowest_bit(own) : 0,
                      own != 0);
        }
    }
    /// Changes the row of lane `from`, or none: an empty one. All lanes of the warp, each with its team.
    template <class Team>
    ORCHARD_FN void change_of(const Team& team, const typename base::part& p, std::uint64_t run, int from,
                              bool has_one) const {
        const std::uint32_t start = simt::shuffle(whole, p.start, from);
        const std::uint32_t n = simt::shuffle(whole, p.n, from);
        const std::uint32_t degree = simt::shuffle(whole, p.old.degree, from);
        const std::uint64_t old_run = simt::shuffle(whole, p.old.run, from);
        run = simt::shuffle(whole, run, from);
        this->change(team, {has_one ? old_run : 0, has_one ? degree : 0}, has_one ? run : 0, has_one ? start : 0,
                     has_one ? n : 0);
    }
    /// Notes the edges of the lanes `lanes` as those that found no memory.
    ORCHARD_FN void leave_all(const typename base::part& p, simt::lane_mask lanes) const {
        const device::graph_group g = device::graph_group::of(whole);
        std::uint64_t room = 0;
        if ((lanes >> simt::lane_id() & 1) != 0) {
            room = this->room_to_leave(p.n);
        }
        for (; lanes != 0; lanes &= lanes - 1) {
            const int from = simt::lowest_bit(lanes);
            const std::uint32_t start = simt::shuffle(whole, p.start, from);
            const std::uint32_t n = simt::shuffle(whole, p.n, from);
            this->leave(g, simt::shuffle(whole, room, from), start, n);
        }
    }
};

/// Changes the rows that `graph_merge` has listed.
template <class Property, bool Insert, class Heap = heap_ref>
struct graph_merge_hubs : graph_merger<Property, Insert, Heap> {
    using base = graph_merger<Property, Insert, Heap>;
    static constexpr int max_registers = 64;
    static constexpr std::uint32_t max_blocks = 264;  ///< two on each of 132 multiprocessors

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (!this->batch.is_valid()) {
            return;
        }
        const device::graph_block team{at.thread, at.threads_per_block};
        graph_plan& plan = this->batch.plans[at.block];
        const std::uint32_t hubs = this->batch.counts->hubs.template load<simt::order::relaxed>();
        for (std::uint32_t i = at.block; i < hubs; i += at.blocks) {
            const auto p = this->part_of(this->batch.places[i]);
            if (team.leads()) {
                const device::graph_move to = p.vertex == nullptr
                                                  ? device::graph_move{}
                                                  : this->graph.changes().choose(*p.vertex, p.old, p.degree());
                plan = {to.run, reinterpret_cast<std::uint64_t>(to.note), to.fits ? 0 : this->room_to_leave(p.n),
                        to.fits ? std::uint64_t{1} : 0};
            }
            team.sync();
            const graph_plan to = plan;
            if (to.fits != 0) {
                this->change(team, p.old, to.run, p.start, p.n);
            } else {
                this->leave(team, to.left, p.start, p.n);
            }
            team.sync();  // as in `graph_merge`; and all have read the plan
            if (team.leads() && to.fits != 0) {
                this->graph.changes().end(*p.vertex, p.old,
                                          {to.run, reinterpret_cast<device::graph_retired_run*>(to.note), true},
                                          static_cast<std::uint32_t>(p.degree()));
            }
        }
    }
};

}  // namespace orchard::detail
