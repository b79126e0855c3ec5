// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The kernels of `graph` but those of batches (graph_batch_kernels.hpp). All are launched in whole warps.

#include <cstdint>

#include "runtime/containers/graph_batch_kernels.hpp"

namespace orchard::detail {

/// Turns keys back into edges.
template <class Property>
struct graph_edges_of {
    const std::uint64_t* keys;
    const std::uint32_t* values;
    const Property* properties;
    std::uint64_t count;
    int bits;
    std::uint32_t* sources;
    std::uint32_t* targets;
    Property* their_properties;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t i = at.global_thread(); i < count; i += at.threads()) {
            sources[i] = static_cast<std::uint32_t>(keys[i] >> bits);
            targets[i] = static_cast<std::uint32_t>(keys[i] & ((std::uint64_t{1} << bits) - 1));
            if constexpr (device::graph_layout<Property>::has_property) {
                their_properties[i] = properties == nullptr ? Property{} : properties[values[i]];
            }
        }
    }
};

template <class Property>
struct graph_contains {
    graph_view<Property> graph;
    const std::uint32_t* sources;
    const std::uint32_t* targets;
    std::uint64_t count;
    std::uint8_t* result;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t i = at.global_thread(); i < count; i += at.threads()) {
            result[i] = graph.contains(sources[i], targets[i]) ? 1 : 0;
        }
    }
};

/// Raises the number of vertices.
struct graph_reserve {
    device::graph_table* table;
    std::uint32_t vertices;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.global_thread() == 0) {
            table->vertices.raise<simt::order::relaxed>(vertices);
        }
    }
};

/// Calls `act(word)` for the word of each segment in the levels of a table; all threads of a grid.
template <class Act>
ORCHARD_FN void for_each_segment(const device::graph_table& table, simt::thread_position at, const Act& act) {
    for (std::uint32_t k = 0; k < device::graph_table::max_levels; ++k) {
        if (table.levels[k].load<simt::order::acquire>() <= device::graph_table::in_making) {
            continue;
        }
        const std::uint32_t first = device::graph_table::first_of(k);
        const std::uint32_t end = device::graph_table::end_of(k);
        for (std::uint64_t s = first + at.global_thread(); s < end; s += at.threads()) {
            act(static_cast<std::uint32_t>(s), *table.acquire_segment_word(static_cast<std::uint32_t>(s)));
        }
    }
}

/// Calls `act(u, record)` for all vertices of the segments that a table has; all threads of a grid, a warp a segment.
template <class Act>
ORCHARD_FN void for_each_record(const device::graph_table& table, simt::thread_position at, const Act& act) {
    constexpr std::uint32_t vertices = 1u << device::graph_table::log_segment;
    for (std::uint32_t k = 0; k < device::graph_table::max_levels; ++k) {
        if (table.levels[k].load<simt::order::acquire>() <= device::graph_table::in_making) {
            continue;
        }
        const std::uint32_t end = device::graph_table::end_of(k);
        for (std::uint64_t s = device::graph_table::first_of(k) + at.global_warp(); s < end;
             s += at.threads() / simt::warp_size) {
            const auto first = static_cast<std::uint32_t>(s * vertices);
            device::graph_vertex* const records = table.acquire(first);
            for (auto i = static_cast<std::uint32_t>(simt::lane_id()); records != nullptr && i < vertices;
                 i += simt::warp_size) {
                act(first + i, records[i]);
            }
        }
    }
}

/// Frees all runs, in the segments of the table.
template <class Heap = heap_ref>
struct graph_free_runs {
    Heap heap;
    device::graph_table* table;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        for_each_record(*table, at, [&](std::uint32_t, device::graph_vertex& r) {
            const std::uint64_t run = r.run.get();
            if (run != 0) {
                heap.free(device::graph_run::address(run));
                r.run.set(0);
                r.degree.set(0);
            }
        });
    }
};
template <class Heap = heap_ref>
struct graph_free_segments {
    Heap heap;
    device::graph_table* table;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        for_each_segment(*table, at, [&](std::uint32_t, device::graph_table::word& w) {
            const std::uint64_t segment = w.load<simt::order::relaxed>();
            if (segment > device::graph_table::in_making) {
                device::memory_of_tables(heap).free(reinterpret_cast<void*>(segment));
                w.store<simt::order::relaxed>(device::graph_table::none);
            }
        });
    }
};
template <class Heap = heap_ref>
struct graph_free_levels {
    Heap heap;
    device::graph_table* table;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t k = at.global_thread(); k < device::graph_table::max_levels; k += at.threads()) {
            const std::uint64_t level = table->levels[k].load<simt::order::relaxed>();
            if (level > device::graph_table::in_making) {
                device::memory_of_tables(heap).free(reinterpret_cast<void*>(level));
            }
            table->levels[k].store<simt::order::relaxed>(device::graph_table::none);
        }
        if (at.global_thread() == 0) {
            table->vertices.store<simt::order::relaxed>(0);
        }
    }
};

/// Opens a snapshot: makes the segments of its table. `failures` counts those without memory.
template <class Heap = heap_ref>
struct graph_snapshot_segments {
    Heap heap;
    device::graph_state* state;
    std::uint32_t slot;
    std::uint32_t oldest;  ///< the number of the oldest open snapshot from now on
    simt::device_word<std::uint64_t>* failures;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        device::graph_table& to = state->snapshots[slot];
        if (at.global_thread() == 0) {
            // As in `graph_free_retired`, whose word this one may replace.
            state->oldest.store<simt::order::release>(oldest);
        }
        for_each_segment(state->table, at, [&](std::uint32_t s, const device::graph_table::word& w) {
            if (w.load<simt::order::relaxed>() > device::graph_table::in_making &&
                to.make(heap, s << device::graph_table::log_segment) == nullptr) {
                failures->fetch_add<simt::order::relaxed>(1);
            }
        });
    }
};
/// Copies the records, each under its lock.
struct graph_snapshot_copy {
    device::graph_state* state;
    std::uint32_t slot;
    std::uint32_t number;

    ORCHARD_FN void copy(std::uint32_t u) const {
        device::graph_vertex* const r = state->table.acquire(u);
        device::graph_vertex* const to = state->snapshots[slot].find(u);
        if (r != nullptr && to != nullptr) {
            graph_ref<>::lock(*r);
            to->degree.set(r->degree.get());
            to->run.set(r->run.get());
            graph_ref<>::unlock(*r, number);
        }
    }
    ORCHARD_FN void operator()(simt::thread_position at) const {
        for_each_record(state->snapshots[slot], at, [&](std::uint32_t u, device::graph_vertex&) { copy(u); });
    }
};
/// Counts the vertices of a snapshot, after all records were copied: none of its edges leads to a vertex beyond.
struct graph_snapshot_vertices {
    device::graph_state* state;
    std::uint32_t slot;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.global_thread() == 0) {
            const std::uint32_t vertices = state->table.vertices.load<simt::order::relaxed>();
            state->snapshots[slot].vertices.store<simt::order::relaxed>(vertices);
        }
    }
};
/// Closes a snapshot: frees the runs that no open snapshot has.
template <class Heap = heap_ref>
struct graph_free_retired {
    Heap heap;
    device::graph_state* state;
    std::uint32_t oldest;  ///< the oldest of those that stay open; 0 if none does

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.global_thread() == 0) {
            // Pairs with the acquire in `graph_rows::is_shared`: the snapshot's readers have ended.
            state->oldest.store<simt::order::release>(oldest);
        }
        const device::graph_rows<no_property, Heap> rows(heap, state);
        for (std::uint64_t i = at.global_thread(); i < device::graph_state::retired_lists; i += at.threads()) {
            rows.free_retired(static_cast<std::uint32_t>(i), oldest);
        }
    }
};

/// What a graph holds, counted.
struct graph_sums {
    simt::device_word<std::uint64_t> edges;
    simt::device_word<std::uint64_t> row_bytes;
    simt::device_word<std::uint64_t> table_bytes;
};
struct graph_count {
    const device::graph_table* table;
    graph_sums* to;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        std::uint64_t edges = 0;
        std::uint64_t row_bytes = 0;
        std::uint64_t table_bytes = 0;
        for_each_record(*table, at, [&](std::uint32_t, const device::graph_vertex& r) {
            edges += r.degree.get();
            row_bytes += device::graph_run::bytes(r.run.get());
        });
        for_each_segment(*table, at, [&](std::uint32_t, const device::graph_table::word& w) {
            const bool is_there = w.load<simt::order::relaxed>() > device::graph_table::in_making;
            table_bytes += sizeof(w) + (is_there ? device::graph_table::bytes_of_segment : 0);
        });
        add_warp_sum(to->edges, edges);
        add_warp_sum(to->row_bytes, row_bytes);
        add_warp_sum(to->table_bytes, table_bytes);
    }
};

/// Sums the bytes of the runs in each segment of the heap, in units of 16 B, and notes their class. Runs beyond the
/// classes of pages have segments of their own, and are not counted.
struct graph_weigh {
    heap_ref heap;
    const device::graph_table* table;
    simt::device_word<std::uint32_t>* weights;
    simt::device_word<std::uint32_t>* classes;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for_each_record(*table, at, [&](std::uint32_t, const device::graph_vertex& r) {
            const std::uint64_t run = r.run.get();
            const std::uint32_t c = device::graph_run::class_of_run(run);
            if (run != 0 && c < class_count) {
                const std::uint32_t s = heap.view().segment_of(device::graph_run::address(run));
                weights[s].fetch_add<simt::order::relaxed>(class_bytes(c) / quantum_bytes);
                classes[s].store<simt::order::relaxed>(c);
            }
        });
    }
};
/// Moves the runs out of the segments that are marked. The heap may offer pages in these segments; a thread keeps them
/// in a chain, so that they are not offered again, until `graph_free_chains` frees them. A lane finds a page for a row;
/// the warp copies the row.
template <class Property>
struct graph_move_out {
    heap_ref heap;
    device::graph_state* state;
    const simt::device_word<std::uint32_t>* marks;
    std::uint64_t* chains;  ///< one a thread

    ORCHARD_FN bool is_marked(const void* p) const { return marks[heap.view().segment_of(p)].load_cached() != 0; }
    ORCHARD_FN void* page_elsewhere(std::uint32_t size_class, std::uint64_t& chain) const {
        for (;;) {
            void* const p = heap.malloc(class_bytes(size_class));
            if (p == nullptr || !is_marked(p)) {
                return p;
            }
            *static_cast<std::uint64_t*>(p) = chain;
            chain = reinterpret_cast<std::uint64_t>(p);
        }
    }
    ORCHARD_FN void operator()(simt::thread_position at) const {
        using rows = device::graph_rows<Property>;
        constexpr simt::lane_mask whole = ~simt::lane_mask{0};
        const device::graph_group g = device::graph_group::of(whole);
        std::uint64_t chain = 0;
        for_each_record(state->table, at, [&](std::uint32_t, device::graph_vertex& r) {
            const auto old = rows::open(r);
            const std::uint32_t c = device::graph_run::class_of_run(old.run);
            void* p = nullptr;
            if (old.run != 0 && c < class_count && is_marked(device::graph_run::address(old.run))) {
                p = page_elsewhere(c, chain);
            }
            const std::uint64_t run = p == nullptr ? 0 : device::graph_run::pack(p, c);
            simt::sync(whole);  // what `malloc` has acquired
            for (simt::lane_mask left = simt::ballot(whole, run != 0); left != 0; left &= left - 1) {
                const int from = simt::lowest_bit(left);
                const typename rows::row row{simt::shuffle(whole, old.run, from),
                                             simt::shuffle(whole, old.degree, from)};
                rows::copy(g, row, simt::shuffle(whole, run, from));
            }
            simt::sync(whole);  // all have read and written
            if (run != 0) {
                r.run.set(run);
                heap.free(device::graph_run::address(old.run));
            }
        });
        chains[at.global_thread()] = chain;
    }
};
struct graph_free_chains {
    heap_ref heap;
    const std::uint64_t* chains;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t p = chains[at.global_thread()]; p != 0;) {
            const std::uint64_t next = *reinterpret_cast<const std::uint64_t*>(p);
            heap.free(reinterpret_cast<void*>(p));
            p = next;
        }
    }
};

template <class Property>
struct graph_degrees {
    graph_view<Property> graph;
    std::uint64_t* degrees;
    std::uint32_t vertices;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t u = at.global_thread(); u <= vertices; u += at.threads()) {
            degrees[u] = u < vertices ? graph.degree(static_cast<std::uint32_t>(u)) : 0;
        }
    }
};
/// Copies the rows; a warp a vertex.
template <class Property>
struct graph_rows_to_csr {
    graph_view<Property> graph;
    const std::uint64_t* offsets;
    std::uint32_t vertices;
    std::uint32_t* targets;
    Property* properties;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t u = at.global_warp(); u < vertices; u += at.threads() / simt::warp_size) {
            const graph_row<Property> row = graph.neighbours(static_cast<std::uint32_t>(u));
            for (auto i = static_cast<std::uint32_t>(simt::lane_id()); i < row.size(); i += simt::warp_size) {
                targets[offsets[u] + i] = row[i];
                if constexpr (device::graph_layout<Property>::has_property) {
                    properties[offsets[u] + i] = row.property(i);
                }
            }
        }
    }
};
/// Writes the sources of the edges [first, first + count) of a CSR.
struct graph_csr_sources {
    const std::uint64_t* offsets;
    std::uint32_t vertices;
    std::uint64_t first;
    std::uint64_t count;
    std::uint32_t* sources;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t i = at.global_thread(); i < count; i += at.threads()) {
            // The last vertex whose edges begin at edge first + i or before.
            std::uint32_t low = 0;
            std::uint32_t n = vertices;
            while (n > 1) {
                const std::uint32_t half = n / 2;
                low = offsets[low + half] <= first + i ? low + half : low;
                n -= half;
            }
            sources[i] = low;
        }
    }
};

/// Marks vertices in a bitmap.
struct graph_mark {
    const std::uint32_t* chosen;
    std::uint64_t count;
    std::uint32_t vertices;
    simt::device_word<std::uint32_t>* bitmap;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t i = at.global_thread(); i < count; i += at.threads()) {
            if (chosen[i] < vertices) {
                bitmap[chosen[i] / 32].fetch_or<simt::order::relaxed>(1u << chosen[i] % 32);
            }
        }
    }
};
/// Removes all edges from and to the marked vertices; a warp a vertex.
template <class Property, class Heap = heap_ref>
struct graph_remove_marked {
    graph_ref<Property, Heap> graph;
    const simt::device_word<std::uint32_t>* bitmap;
    std::uint32_t vertices;
    graph_counts* counts;

    [[nodiscard]] ORCHARD_FN bool is_marked(std::uint32_t v) const {
        return v < vertices && (bitmap[v / 32].load_cached() >> v % 32 & 1) != 0;
    }
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const device::graph_group g = device::graph_group::of(~simt::lane_mask{0});
        std::uint64_t taken = 0;
        std::uint64_t left = 0;
        for (std::uint64_t i = at.global_warp(); i < vertices; i += at.threads() / simt::warp_size) {
            const auto u = static_cast<std::uint32_t>(i);
            device::graph_vertex* const r = graph.table().find(u);
            if (r == nullptr) {
                continue;
            }
            const bool whole = is_marked(u);
            const std::uint32_t removed =
                graph.changes().remove_if(g, *r, [&](std::uint32_t v) { return whole || is_marked(v); });
            const bool failed = removed == device::graph_rows<Property>::failed;
            taken += g.leads() && !failed ? removed : 0;
            left += g.leads() && failed ? 1 : 0;
        }
        add_warp_sum(counts->taken, taken);
        add_warp_sum(counts->left, left);
    }
};

}  // namespace orchard::detail
