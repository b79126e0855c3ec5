// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The kernels of batches of a `graph`. All are launched in whole warps, one behind the other up to `graph_bands`; the
/// host waits for all of them together.
///
/// A batch becomes an array of keys, (source, target) in one word, which is sorted, so that the edges of a vertex lie
/// side by side in the order of its row:
///
///     graph_begin       one thread          counts of zero
///     graph_keys        a thread an edge    keys; segments of the table, before edges are added
///     sort_keys                             in order
///     graph_search      a thread a key      where in its row the edge goes or is
///     sum_before                            numbers the rows, and the edges that change the graph
///     graph_gather      a thread a key      those edges side by side, and where each row begins
///     graph_row_keys    a thread a row      keys of the rows by what is to be done for them
///     sort_rows                             rows that are alike side by side
///     graph_bands       a thread a row      where each kind of rows begins
///     then, beside each other:
///         graph_change_hubs, graph_change_rows   of the rows that stay where they are
///         graph_choose                           runs for the rows that move, a thread a row; and then
///         graph_change_hubs, graph_change_rows   of these, and
///         graph_free_left                        of the runs that they have left
///     graph_list_left   a thread a row      only after a shortage: the edges that found no memory
///
/// A block changes a hub, a row of many edges; a warp changes a wide row, and a tile of 8 lanes a narrow one. Which it
/// is says the capacity of its class of runs.
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

/// The key by which the rows of a batch are sorted: first the rows that need another run, then those that stay where
/// they are; longest first, and rows of one size side by side. So the lanes of a warp ask the heap for blocks of one
/// class, their rows take equally long, and the rows that stay need not wait for the heap.
///
///     0 ... 119       rows that move, of class 119 - key
///     120 ... 239     rows that stay, of class 239 - key
///     255             rows without a change: behind all others
struct graph_row_key {
    static constexpr std::uint8_t unchanged = 255;
    static constexpr std::uint32_t classes = 120;  ///< of runs
    // Which team changes a row: a block a hub, a warp a wide row, a tile of a warp a narrow one.
    static constexpr std::uint32_t hub = 0;
    static constexpr std::uint32_t wide = 1;
    static constexpr std::uint32_t narrow = 2;
    static constexpr std::uint32_t teams = 3;
    static constexpr std::uint32_t hub_degree = 4096;                         ///< of hubs: above
    static constexpr std::uint32_t narrow_degree = device::graph_tile::most;  ///< of narrow rows: up to
    static constexpr std::uint32_t bands = 2 * teams + 1;  ///< of the rows that move, of those that stay, and the end

    /// Classes from 119 on, of rows that need more than 24 GiB, have one key.
    [[nodiscard]] ORCHARD_INLINE static std::uint8_t of(std::uint32_t size_class, bool stays) {
        const std::uint32_t last = (stays ? 2 * classes : classes) - 1;
        return static_cast<std::uint8_t>(last - (size_class < classes ? size_class : classes - 1));
    }
    [[nodiscard]] ORCHARD_INLINE static bool stays(std::uint8_t key) { return key >= classes; }
    [[nodiscard]] ORCHARD_INLINE static std::uint32_t class_of(std::uint8_t key) {
        return (stays(key) ? 2 * classes : classes) - 1 - key;
    }
};

/// What the kernels of a batch count.
struct graph_counts {
    simt::device_word<std::uint64_t> taken;  ///< of `erase_vertices`
    simt::device_word<std::uint64_t> left;
    simt::device_word<std::uint64_t> loops;     ///< edges of an undirected batch from a vertex to itself
    simt::device_word<std::uint64_t> changing;  ///< edges that are not there already, or are there to be removed
    simt::device_word<std::uint32_t> greatest;
    simt::device_word<std::uint64_t> listed;  ///< by `graph_list_left`
    simt::device_word<std::uint32_t> rows;
    simt::device_word<std::uint64_t> longest;  ///< edges of the longest row that would have too many; 0: none would
    simt::device_word<std::uint32_t> first_of_band[graph_row_key::bands];  ///< where in the order each begins
};

/// A batch in device memory.
struct graph_batch {
    static constexpr std::uint32_t none = 0xffffffffu;  ///< the place of an edge that changes nothing
    static constexpr std::uint32_t max_vertex = 0xfffffffeu;

    static constexpr std::uint64_t no_run = ~std::uint64_t{0};

    std::uint64_t* keys;    ///< in order, from `sort_keys` on
    std::uint32_t* values;  ///< the edges' numbers in the batch; null without properties
    std::uint32_t* places;  ///< of the keys
    std::uint64_t* numbers;
    std::uint64_t* changing_keys;
    std::uint32_t* changing_values;
    std::uint32_t* changing_places;
    std::uint32_t* rows;  ///< where each begins among the changing keys; one more at the end

    // Of the rows, in memory that the arrays above no longer need, but for `old_runs` and `degrees`.
    std::uint8_t* row_keys;   ///< `graph_row_key`, in order from `sort_rows` on
    std::uint32_t* order;     ///< the rows in the order of their keys
    std::uint64_t* runs;      ///< of each row: where it goes, or `no_run`
    std::uint64_t* old_runs;  ///< where it was; from `graph_list_left` on, the keys of edges that found no memory
    std::uint32_t* degrees;   ///< before the change

    graph_counts* counts;
    std::uint64_t count;
    int bits;  ///< of a target

    [[nodiscard]] ORCHARD_INLINE std::uint32_t source(std::uint64_t key) const {
        return static_cast<std::uint32_t>(key >> bits);
    }
    [[nodiscard]] ORCHARD_INLINE std::uint32_t target(std::uint64_t key) const {
        return static_cast<std::uint32_t>(key & ((std::uint64_t{1} << bits) - 1));
    }
    /// Changing keys of one row: `n` from `start` on.
    struct share {
        std::uint32_t start = 0;
        std::uint32_t n = 0;
    };
    [[nodiscard]] ORCHARD_INLINE share share_of(std::uint32_t row) const {
        return {rows[row], rows[row + 1] - rows[row]};
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
            for (auto* const sum : {&counts->taken, &counts->left, &counts->loops, &counts->changing, &counts->listed,
                                    &counts->longest}) {
                sum->store<simt::order::relaxed>(0);
            }
            for (auto* const sum : {&counts->greatest, &counts->rows}) {
                sum->store<simt::order::relaxed>(0);
            }
        }
    }
};

/// Makes the keys, and, before edges are added, the segments of the table that the sources need: the kernels behind it
/// need no memory for the table. `malloc` in the search would leave it a third of its warps.
template <class Property, bool Insert, class Heap = heap_ref>
struct graph_keys {
    graph_ref<Property, Heap> graph;
    const std::uint32_t* sources;
    const std::uint32_t* targets;
    std::uint64_t count;
    bool undirected;
    graph_batch to;

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
            to.counts->greatest.template raise<simt::order::relaxed>(greatest);
        }
        add_warp_sum(to.counts->loops, loops);
    }

private:
    ORCHARD_FN void put(std::uint64_t i, std::uint32_t u, std::uint32_t v, std::uint64_t number) const {
        to.keys[i] = std::uint64_t{u} << to.bits | v;
        if (to.values != nullptr) {
            to.values[i] = static_cast<std::uint32_t>(number);
        }
        if (Insert && u <= graph_batch::max_vertex && graph.table().find(u) == nullptr) {
            (void)graph.table().make(graph.changes().heap(), u);
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
            if (Insert) {
                graph.table().vertices.template raise<simt::order::relaxed>(
                    batch.counts->greatest.template load<simt::order::relaxed>() + 1);
            }
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

/// What the kernels that change rows share.
template <class Property, bool Insert, class Heap>
struct graph_changer {
    using rows = device::graph_rows<Property, Heap>;
    using layout = device::graph_layout<Property>;
    static constexpr simt::lane_mask whole = ~simt::lane_mask{0};

    graph_ref<Property, Heap> graph;
    graph_batch batch;
    const Property* properties;

    /// A row and its part of the batch.
    struct part : graph_batch::share {
        std::uint32_t degree = 0;
        std::uint64_t old_run = 0;
        std::uint64_t run = graph_batch::no_run;  ///< where the row goes; `no_run`: there was no memory
    };
    /// The places of a part, and what writes its edges.
    struct places_from {
        const std::uint32_t* first;
        ORCHARD_INLINE std::uint32_t operator()(std::uint32_t k) const { return first[k]; }
    };
    struct writer {
        const graph_changer& m;
        std::uint32_t start;
        ORCHARD_INLINE void operator()(std::uint32_t k, std::uint64_t run, std::uint32_t place) const {
            layout::targets(run)[place].set(m.batch.target(m.batch.changing_keys[start + k]));
            if constexpr (layout::has_property) {
                simt::write_element(layout::properties(run)[place], m.properties[m.batch.changing_values[start + k]]);
            }
        }
    };

    /// Returns the number of edges of a row after the change.
    [[nodiscard]] ORCHARD_INLINE static std::uint64_t changed(std::uint32_t degree, std::uint32_t n) {
        return Insert ? std::uint64_t{degree} + n : std::uint64_t{degree} - n;
    }
    /// Returns the number of the first row of a band, in the order of the keys, or of the rows behind it.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t first_of(std::uint32_t band) const {
        return batch.counts->first_of_band[band].template load<simt::order::relaxed>();
    }
    [[nodiscard]] ORCHARD_INLINE device::graph_vertex* vertex_of(std::uint32_t start) const {
        return graph.table().find(batch.source(batch.changing_keys[start]));
    }
    /// Returns the row at place `i` of the order.
    [[nodiscard]] ORCHARD_FN part part_of(std::uint32_t i) const {
        const std::uint32_t row = batch.order[i];
        return {batch.share_of(row), batch.degrees[row], batch.old_runs[row], batch.runs[row]};
    }
    /// Changes a row, whose run was chosen. All threads of the team.
    template <class Team>
    ORCHARD_FN void change(const Team& team, const part& p) const {
        const places_from at{batch.changing_places + p.start};
        if constexpr (Insert) {
            rows::add_edges(team, {p.old_run, p.degree}, p.run, p.n, at, writer{*this, p.start});
        } else {
            rows::remove_edges(team, {p.old_run, p.degree}, p.run, p.n, at);
        }
    }
};

/// Makes the keys by which the rows are sorted, and notes where the rows are. A vertex whose row stays has its new
/// degree then: the kernels below go by the notes.
template <class Property, bool Insert, class Heap = heap_ref>
struct graph_row_keys : graph_changer<Property, Insert, Heap> {
    using base = graph_changer<Property, Insert, Heap>;
    using typename base::layout;
    using typename base::rows;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (!this->batch.is_valid()) {
            return;
        }
        const std::uint32_t count = this->batch.counts->rows.template load<simt::order::relaxed>();
        for (std::uint64_t i = at.global_thread(); i < this->batch.count; i += at.threads()) {
            this->batch.row_keys[i] = i < count ? key_of(static_cast<std::uint32_t>(i)) : graph_row_key::unchanged;
            this->batch.order[i] = static_cast<std::uint32_t>(i);
        }
    }

private:
    [[nodiscard]] ORCHARD_FN std::uint8_t key_of(std::uint32_t row) const {
        const auto [start, n] = this->batch.share_of(row);
        if (n == 0) {
            return graph_row_key::unchanged;
        }
        device::graph_vertex* const v = this->vertex_of(start);
        const typename rows::row old = v == nullptr ? typename rows::row{} : rows::open(*v);
        const std::uint64_t degree = base::changed(old.degree, n);
        const bool stays = v != nullptr && this->graph.changes().stays(*v, old, degree);
        if (stays) {
            v->degree.set(static_cast<std::uint32_t>(degree));
        }
        this->batch.degrees[row] = old.degree;
        this->batch.old_runs[row] = old.run;
        this->batch.runs[row] = old.run;
        return graph_row_key::of(layout::class_for(Insert ? degree : old.degree), stays);
    }
};

/// Notes where the bands of the sorted rows begin.
template <class Property>
struct graph_bands {
    graph_batch batch;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (!batch.is_valid()) {
            return;
        }
        for (std::uint64_t i = at.global_thread(); i < batch.count; i += at.threads()) {
            const std::uint32_t before = i == 0 ? 0 : band_of(batch.row_keys[i - 1]) + 1;
            const std::uint32_t own = band_of(batch.row_keys[i]);
            const std::uint32_t last = i + 1 == batch.count ? graph_row_key::bands - 1 : own;
            for (std::uint32_t b = before; b <= last; ++b) {
                batch.counts->first_of_band[b].store<simt::order::relaxed>(
                    static_cast<std::uint32_t>(b <= own ? i : i + 1));
            }
        }
    }

private:
    [[nodiscard]] ORCHARD_INLINE std::uint32_t band_of(std::uint8_t key) const {
        if (key == graph_row_key::unchanged) {
            return graph_row_key::bands - 1;
        }
        const std::uint32_t most =
            device::graph_layout<Property>::capacity(device::graph_run::bytes_of(graph_row_key::class_of(key)));
        const std::uint32_t team = most > graph_row_key::hub_degree      ? graph_row_key::hub
                                   : most > graph_row_key::narrow_degree ? graph_row_key::wide
                                                                         : graph_row_key::narrow;
        return (graph_row_key::stays(key) ? graph_row_key::teams : 0) + team;
    }
};

/// Chooses the runs of the rows that move, a thread for each, gives them to the vertices, and counts the edges of the
/// rows that find no memory, or would have too many.
template <class Property, bool Insert, class Heap = heap_ref>
struct graph_choose : graph_changer<Property, Insert, Heap> {
    using base = graph_changer<Property, Insert, Heap>;
    using typename base::rows;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (!this->batch.is_valid()) {
            return;
        }
        const std::uint32_t end = this->first_of(graph_row_key::teams);
        for (std::uint64_t i = at.global_thread(); i < end; i += at.threads()) {
            choose(this->batch.order[i]);
        }
    }

private:
    ORCHARD_FN void choose(std::uint32_t row) const {
        const auto [start, n] = this->batch.share_of(row);
        device::graph_vertex* const v = this->vertex_of(start);
        const typename rows::row old{this->batch.old_runs[row], this->batch.degrees[row]};
        const std::uint64_t degree = base::changed(old.degree, n);
        const device::graph_move to =
            v == nullptr ? device::graph_move{} : this->graph.changes().choose(*v, old, degree);
        if (!to.fits) {
            this->batch.counts->left.template fetch_add<simt::order::relaxed>(n);
            if (degree > device::graph_max_degree) {
                this->batch.counts->longest.template raise<simt::order::relaxed>(degree);
            }
            this->batch.runs[row] = graph_batch::no_run;
            return;
        }
        if (to.note != nullptr) {
            this->graph.changes().retire(*v, old, to);
        }
        v->degree.set(static_cast<std::uint32_t>(degree));
        v->run.set(to.run);
        this->batch.runs[row] = to.run;
    }
};

/// Changes the rows but hubs, of those that move or of those that stay: 8 lanes a narrow one, a warp a wide one.
template <class Property, bool Insert, class Heap = heap_ref>
struct graph_change_rows : graph_changer<Property, Insert, Heap> {
    using base = graph_changer<Property, Insert, Heap>;
    using typename base::part;
    static constexpr int max_registers = 64;  ///< twice as many warps as without

    std::uint32_t first_band;  ///< 0: of the rows that move; `graph_row_key::teams`: of those that stay

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (!this->batch.is_valid()) {
            return;
        }
        const std::uint64_t warps = at.threads() / simt::warp_size;
        const std::uint64_t wide = this->first_of(first_band + graph_row_key::wide);
        const std::uint64_t narrow = this->first_of(first_band + graph_row_key::narrow);
        const std::uint64_t end = this->first_of(first_band + graph_row_key::teams);
        std::uint64_t i = wide + at.global_warp();
        part p = i < narrow ? this->part_of(static_cast<std::uint32_t>(i)) : part();
        for (; i < narrow; i += warps) {
            const bool is_last = narrow - i <= warps;
            const part next = is_last ? part() : this->part_of(static_cast<std::uint32_t>(i + warps));
            fetch(next);
            if (p.run != graph_batch::no_run) {
                this->change(device::graph_warp{static_cast<std::uint32_t>(simt::lane_id())}, p);
            }
            simt::sync(base::whole);
            p = next;
        }
        // The warps that have had a wide row less than others begin.
        i = narrow + (i - narrow) * simt::warp_size;
        for (; i < end; i += warps * simt::warp_size) {
            const std::uint64_t own = i + static_cast<std::uint64_t>(simt::lane_id());
            change_narrow(own < end ? this->part_of(static_cast<std::uint32_t>(own)) : part());
            simt::sync(base::whole);
        }
    }

private:
    /// Brings the first edges of a wide row nearer. All lanes of the warp.
    ORCHARD_INLINE static void fetch(const part& p) {
        const std::uint32_t edge = static_cast<std::uint32_t>(simt::lane_id()) * base::rows::edges_of_line;
        if (edge < p.degree) {
            simt::prefetch(base::layout::targets(p.old_run) + edge);
        }
    }
    /// Changes the rows of all lanes, each by a tile.
    ORCHARD_FN void change_narrow(part own) const {
        constexpr int tiles = simt::warp_size / static_cast<int>(device::graph_tile::size);
        if (own.run == graph_batch::no_run) {
            own = {{0, 0}, 0, 0, 0};  // nothing to change
        } else if (own.degree != 0) {
            simt::prefetch(device::graph_run::address(own.old_run));
        }
        const device::graph_tile team{static_cast<std::uint32_t>(simt::lane_id()) % device::graph_tile::size};
        const int tile = simt::lane_id() / static_cast<int>(device::graph_tile::size);
        for (int first = 0; first < simt::warp_size; first += tiles) {
            const int from = first + tile;
            part p;
            p.start = simt::shuffle(base::whole, own.start, from);
            p.n = simt::shuffle(base::whole, own.n, from);
            p.degree = simt::shuffle(base::whole, own.degree, from);
            p.old_run = simt::shuffle(base::whole, own.old_run, from);
            p.run = simt::shuffle(base::whole, own.run, from);
            this->change(team, p);
        }
    }
};

/// Changes the hubs, a block each, of the rows that move or of those that stay.
template <class Property, bool Insert, class Heap = heap_ref>
struct graph_change_hubs : graph_changer<Property, Insert, Heap> {
    using base = graph_changer<Property, Insert, Heap>;
    static constexpr int max_registers = 64;
    static constexpr std::uint32_t max_blocks = 264;  ///< two on each of 132 multiprocessors

    std::uint32_t first_band;  ///< as of `graph_change_rows`

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (!this->batch.is_valid()) {
            return;
        }
        const device::graph_block team{at.thread, at.threads_per_block};
        const std::uint32_t end = this->first_of(first_band + graph_row_key::wide);
        for (std::uint32_t i = this->first_of(first_band) + at.block; i < end; i += at.blocks) {
            const auto p = this->part_of(i);
            if (p.run != graph_batch::no_run) {
                this->change(team, p);
            }
            team.sync();
        }
    }
};

/// Frees the runs that rows have left, and notes that. A thread for each. What it has done, it does not do again if it
/// is launched once more after an error.
template <class Property, bool Insert, class Heap = heap_ref>
struct graph_free_left : graph_changer<Property, Insert, Heap> {
    using base = graph_changer<Property, Insert, Heap>;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (!this->batch.is_valid()) {
            return;
        }
        const std::uint32_t end = this->first_of(graph_row_key::teams);
        for (std::uint64_t i = at.global_thread(); i < end; i += at.threads()) {
            const auto p = this->part_of(static_cast<std::uint32_t>(i));
            if (p.run != graph_batch::no_run && p.run != p.old_run) {
                this->batch.old_runs[this->batch.order[i]] = p.run;
                this->graph.changes().leave(*this->vertex_of(p.start), {p.old_run, p.degree});
            }
        }
    }
};

/// Puts the edges that found no memory side by side, in `old_runs` and `values`. Behind all others, if there are any.
template <class Property, bool Insert, class Heap = heap_ref>
struct graph_list_left : graph_changer<Property, Insert, Heap> {
    using base = graph_changer<Property, Insert, Heap>;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint32_t end = this->first_of(graph_row_key::teams);
        for (std::uint64_t i = at.global_thread(); i < end; i += at.threads()) {
            const std::uint32_t row = this->batch.order[i];
            if (this->batch.runs[row] != graph_batch::no_run) {
                continue;
            }
            const auto [start, n] = this->batch.share_of(row);
            const std::uint32_t room = simt::mutation::is(simt::mutation::fault::batch_left) ? 1 : n;
            const std::uint64_t to = this->batch.counts->listed.template fetch_add<simt::order::relaxed>(room);
            for (std::uint32_t k = 0; k < n; ++k) {
                this->batch.old_runs[to + k] = this->batch.changing_keys[start + k];
                if (base::layout::has_property) {
                    this->batch.values[to + k] = this->batch.changing_values[start + k];
                }
            }
        }
    }
};

}  // namespace orchard::detail
