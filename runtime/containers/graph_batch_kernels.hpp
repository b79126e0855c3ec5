// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The kernels of batches of a `graph`. All are launched in whole warps.
///
/// A batch becomes an array of keys, (source, target) in one word, which is sorted, so that the edges of a vertex lie
/// side by side in the order of its row:
///
///     graph_keys        a thread an edge           keys
///     sort_keys                                    in order
///     graph_segments    a thread an edge           makes segments of the table
///     graph_search      a thread an edge           where in its row the edge goes or is: `places`; counts duplicates
///     graph_merge       8 lanes a row              changes the rows of few edges; lists the others
///     graph_merge_long  a warp a row of those      changes them; those of hubs get another run
///     graph_hub_copy    a block a hub              copies their edges there
///     graph_hub_end     a thread a hub             frees the old run

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
    simt::device_word<std::uint64_t> taken;
    simt::device_word<std::uint64_t> duplicates;
    simt::device_word<std::uint64_t> left;
    simt::device_word<std::uint64_t> loops;  ///< edges of an undirected batch from a vertex to itself
    simt::device_word<std::uint32_t> greatest;
    simt::device_word<std::uint32_t> long_rows;
    simt::device_word<std::uint32_t> hubs;
};

/// A row that several warps copy.
struct graph_hub {
    std::uint64_t vertex;
    std::uint64_t old_run;
    std::uint64_t run;
    std::uint64_t note;
    std::uint64_t start;
    std::uint32_t old_degree;
    std::uint32_t changes;
};

/// A batch in device memory, once it is sorted.
struct graph_batch {
    static constexpr std::uint32_t none = 0xffffffffu;  ///< the place of an edge that changes nothing
    static constexpr std::uint32_t max_hubs = 4096;

    std::uint64_t* keys;
    std::uint32_t* values;  ///< the edges' numbers in the batch; null without properties
    std::uint64_t* rest_keys;
    std::uint32_t* rest_values;
    std::uint32_t* places;
    std::uint32_t* long_rows;
    graph_hub* hubs;
    graph_counts* counts;
    std::uint64_t count;
    int bits;  ///< of a target

    [[nodiscard]] ORCHARD_INLINE std::uint32_t source(std::uint64_t key) const {
        return static_cast<std::uint32_t>(key >> bits);
    }
    [[nodiscard]] ORCHARD_INLINE std::uint32_t target(std::uint64_t key) const {
        return static_cast<std::uint32_t>(key & ((std::uint64_t{1} << bits) - 1));
    }
    // The merging kernels move keys within a row, while other warps look where rows begin: a key's source stays.
    [[nodiscard]] ORCHARD_INLINE std::uint64_t key(std::uint64_t i) const {
        return reinterpret_cast<const simt::device_word<std::uint64_t>*>(keys)[i].load<simt::order::relaxed>();
    }
    ORCHARD_INLINE void set_key(std::uint64_t i, std::uint64_t to) const {
        reinterpret_cast<simt::device_word<std::uint64_t>*>(keys)[i].store<simt::order::relaxed>(to);
    }
    [[nodiscard]] ORCHARD_INLINE bool begins_row(std::uint64_t i) const {
        return i == 0 || source(key(i - 1)) != source(key(i));
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
/// the vertices.
template <class Property>
struct graph_segments {
    graph_ref<Property> graph;
    graph_batch batch;
    std::uint32_t vertices;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.global_thread() == 0) {
            graph.table().vertices.template raise<simt::order::relaxed>(vertices);
        }
        for (std::uint64_t i = at.global_thread(); i < batch.count; i += at.threads()) {
            const std::uint32_t u = batch.source(batch.keys[i]);
            if (batch.begins_row(i) && graph.table().find(u) == nullptr) {
                (void)graph.table().make(graph.changes().heap(), u);
            }
        }
    }
};

template <class Property, bool Insert>
struct graph_search {
    graph_ref<Property> graph;
    graph_batch batch;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        std::uint64_t duplicates = 0;
        for (std::uint64_t i = at.global_thread(); i < batch.count; i += at.threads()) {
            const std::uint64_t key = batch.keys[i];
            std::uint32_t place = graph_batch::none;
            if (i == 0 || batch.keys[i - 1] != key) {
                const graph_row<Property> row = graph.neighbours(batch.source(key));
                const std::uint32_t v = batch.target(key);
                const std::uint32_t found = row.lower_bound(v);
                const bool is_there = found < row.size() && row[found] == v;
                place = is_there != Insert ? found : graph_batch::none;
            }
            batch.places[i] = place;
            duplicates += place == graph_batch::none ? 1 : 0;
        }
        add_warp_sum(batch.counts->duplicates, duplicates);
    }
};

/// What the merging kernels share.
template <class Property, bool Insert>
struct graph_merger {
    using rows = device::graph_rows<Property>;
    using layout = device::graph_layout<Property>;

    graph_ref<Property> graph;
    graph_batch batch;
    const Property* properties;

    /// The edges of a row's part of the batch that change it.
    struct places_from {
        const std::uint32_t* first;
        ORCHARD_INLINE std::uint32_t operator()(std::uint32_t k) const { return first[k]; }
    };
    struct writer {
        const graph_merger& m;
        std::uint64_t start;
        ORCHARD_INLINE void operator()(std::uint32_t k, std::uint64_t run, std::uint32_t place) const {
            layout::targets(run)[place].set(m.batch.target(m.batch.keys[start + k]));
            if constexpr (layout::has_property) {
                simt::touched(layout::properties(run)[place]) = m.properties[m.batch.values[start + k]];
            }
        }
    };

    /// Moves the edges of the row from `start` on that change it together, and returns their number.
    ORCHARD_FN std::uint32_t compact(const device::graph_group& g, std::uint64_t start) const {
        const std::uint32_t u = batch.source(batch.key(start));
        std::uint32_t n = 0;
        bool is_whole = true;
        for (std::uint64_t i = start; is_whole; i += g.size) {
            const std::uint64_t mine = i + g.rank;
            const std::uint64_t key = mine < batch.count ? batch.key(mine) : 0;
            const bool here = mine < batch.count && batch.source(key) == u;
            const std::uint32_t place = here ? batch.places[mine] : graph_batch::none;
            const std::uint32_t value = here && layout::has_property ? batch.values[mine] : 0;
            const bool changes = place != graph_batch::none;
            const simt::lane_mask changing = simt::ballot(g.mask, changes);
            is_whole = simt::ballot(g.mask, here) == g.mask;
            simt::sync(g.mask);  // all have read
            const std::uint64_t to = start + n + static_cast<std::uint64_t>(simt::rank_in(changing));
            if (changes && to != mine) {
                batch.set_key(to, key);
                batch.places[to] = place;
                if (layout::has_property) {
                    batch.values[to] = value;
                }
            }
            n += static_cast<std::uint32_t>(simt::popcount(changing));
        }
        simt::sync(g.mask);
        return n;
    }

    /// Returns the record of the row's vertex; null if its segment found no memory.
    [[nodiscard]] ORCHARD_FN device::graph_vertex* record_of(std::uint64_t start) const {
        return graph.table().find(batch.source(batch.key(start)));
    }

    /// Notes `n` edges that found no memory.
    ORCHARD_FN void leave(const device::graph_group& g, std::uint64_t start, std::uint32_t n) const {
        std::uint64_t to = 0;
        if (g.leads()) {
            to = batch.counts->left.template fetch_add<simt::order::relaxed>(n);
        }
        to = simt::shuffle(g.mask, to, g.leader);
        for (std::uint32_t k = g.rank; k < n; k += g.size) {
            batch.rest_keys[to + k] = batch.keys[start + k];
            if (layout::has_property) {
                batch.rest_values[to + k] = batch.values[start + k];
            }
        }
    }

    /// Changes a row by `n` > 0 edges. Returns how many were taken, in the leader: n or 0.
    ORCHARD_FN std::uint32_t merge(const device::graph_group& g, device::graph_vertex* r, std::uint64_t start,
                                   std::uint32_t n) const {
        const places_from at{batch.places + start};
        bool done = r != nullptr;
        if constexpr (Insert) {
            done = done && graph.changes().insert(g, *r, n, at, writer{*this, start});
        } else {
            done = done && graph.changes().remove(g, *r, n, at);
        }
        if (!done) {
            leave(g, start, n);
        }
        return done && g.leads() ? n : 0;
    }
};

template <class Property, bool Insert>
struct graph_merge : graph_merger<Property, Insert> {
    static constexpr int max_registers = 64;            ///< twice as many warps as without
    static constexpr std::uint32_t tile = 8;            ///< lanes of a row
    static constexpr std::uint32_t short_degree = 512;  ///< of a row that a tile changes
    static constexpr std::uint32_t short_part = 64;     ///< edges of the batch that a tile takes

    ORCHARD_FN bool is_long(std::uint64_t start) const {
        const graph_batch& b = this->batch;
        const std::uint32_t u = b.source(b.key(start));
        return this->graph.degree(u) > short_degree ||
               (start + short_part < b.count && b.source(b.key(start + short_part)) == u);
    }
    /// Changes the row that begins at `start`, or lists it. Returns the edges taken, in the leader.
    ORCHARD_FN std::uint32_t change(const device::graph_group& g, std::uint64_t start) const {
        if (is_long(start)) {
            if (g.leads()) {
                const std::uint32_t i = this->batch.counts->long_rows.template fetch_add<simt::order::relaxed>(1);
                this->batch.long_rows[i] = static_cast<std::uint32_t>(start);
            }
            return 0;
        }
        const std::uint32_t n = this->compact(g, start);
        return n == 0 ? 0 : this->merge(g, this->record_of(start), start, n);
    }
    /// A warp takes 32 keys at a time; its four tiles take the rows that begin there.
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t warps = at.threads() / simt::warp_size;
        const auto lane = static_cast<std::uint32_t>(simt::lane_id());
        const std::uint32_t mine = lane / tile;
        const device::graph_group g = device::graph_group::of(((simt::lane_mask{1} << tile) - 1) << (mine * tile));
        std::uint64_t taken = 0;
        for (std::uint64_t first = at.global_warp() * simt::warp_size; first < this->batch.count;
             first += warps * simt::warp_size) {
            const std::uint64_t i = first + lane;
            simt::lane_mask heads =
                simt::ballot(~simt::lane_mask{0}, i < this->batch.count && this->batch.begins_row(i));
            // All heads are known before a tile moves keys.
            while (heads != 0) {
                simt::lane_mask own = heads;
                for (std::uint32_t j = 0; j < simt::warp_size / tile; ++j) {
                    own = j < mine ? own & (own - 1) : own;
                    heads &= heads - 1;
                }
                if (own != 0) {
                    taken += change(g, first + static_cast<std::uint64_t>(simt::lowest_bit(own)));
                }
            }
            simt::sync(~simt::lane_mask{0});
        }
        add_warp_sum(this->batch.counts->taken, taken);
    }
};

template <class Property, bool Insert>
struct graph_merge_long : graph_merger<Property, Insert> {
    static constexpr int max_registers = 64;
    static constexpr std::uint64_t hub_degree = 8192;

    /// Finds another run for a hub, to which a block copies its edges. Returns false if that cannot be.
    ORCHARD_FN bool plan_hub(const device::graph_group& g, device::graph_vertex& r, std::uint64_t start,
                             std::uint32_t n) const {
        const auto old = graph_merger<Property, Insert>::rows::open(r);
        if (std::uint64_t{old.degree} + n < hub_degree) {
            return false;
        }
        std::uint32_t number = 0;
        if (g.leads()) {
            number = this->batch.counts->hubs.template fetch_add<simt::order::relaxed>(1);
        }
        number = simt::shuffle(g.mask, number, g.leader);
        if (number >= graph_batch::max_hubs) {
            return false;
        }
        const std::uint64_t degree = Insert ? std::uint64_t{old.degree} + n : std::uint64_t{old.degree} - n;
        const device::graph_move to = this->graph.changes().begin(g, r, old, degree, false);
        if (g.leads()) {
            graph_hub& h = this->batch.hubs[number];
            h = {to.fits ? reinterpret_cast<std::uint64_t>(&r) : 0,
                 old.run,
                 to.run,
                 reinterpret_cast<std::uint64_t>(to.note),
                 start,
                 old.degree,
                 n};
        }
        return to.fits;
    }
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const device::graph_group g = device::graph_group::of(~simt::lane_mask{0});
        const std::uint32_t count = this->batch.counts->long_rows.template load<simt::order::relaxed>();
        std::uint64_t taken = 0;
        for (std::uint64_t i = at.global_warp(); i < count; i += at.threads() / simt::warp_size) {
            const std::uint64_t start = this->batch.long_rows[i];
            const std::uint32_t n = this->compact(g, start);
            device::graph_vertex* const r = n == 0 ? nullptr : this->record_of(start);
            if (r != nullptr && plan_hub(g, *r, start, n)) {
                taken += g.leads() ? n : 0;
            } else if (n != 0) {
                taken += this->merge(g, r, start, n);
            }
        }
        add_warp_sum(this->batch.counts->taken, taken);
    }
};

template <class Property, bool Insert>
struct graph_hub_copy : graph_merger<Property, Insert> {
    ORCHARD_FN void operator()(simt::thread_position at) const {
        using base = graph_merger<Property, Insert>;
        const std::uint32_t found = this->batch.counts->hubs.template load<simt::order::relaxed>();
        const std::uint32_t hubs = found < graph_batch::max_hubs ? found : graph_batch::max_hubs;
        for (std::uint32_t i = at.block; i < hubs; i += at.blocks) {
            const graph_hub& h = this->batch.hubs[i];
            if (h.vertex == 0 || h.run == 0) {
                continue;
            }
            const typename base::rows::row old{h.old_run, h.old_degree};
            const typename base::places_from places{this->batch.places + h.start};
            if constexpr (Insert) {
                base::rows::copy_up(old, h.run, at.thread, at.threads_per_block, h.changes, places);
                base::rows::put_all(h.run, at.thread, at.threads_per_block, h.changes, places,
                                    typename base::writer{*this, h.start});
            } else {
                base::rows::copy_down(old, h.run, at.thread, at.threads_per_block, h.changes, places);
            }
        }
    }
};

template <class Property, bool Insert>
struct graph_hub_end : graph_merger<Property, Insert> {
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint32_t found = this->batch.counts->hubs.template load<simt::order::relaxed>();
        const std::uint32_t hubs = found < graph_batch::max_hubs ? found : graph_batch::max_hubs;
        for (std::uint64_t i = at.global_thread(); i < hubs; i += at.threads()) {
            const graph_hub& h = this->batch.hubs[i];
            if (h.vertex != 0) {
                this->graph.changes().end(*reinterpret_cast<device::graph_vertex*>(h.vertex), {h.old_run, h.old_degree},
                                          {h.run, reinterpret_cast<device::graph_retired_run*>(h.note), true},
                                          Insert ? h.old_degree + h.changes : h.old_degree - h.changes);
            }
        }
    }
};

}  // namespace orchard::detail
