// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The kernels of the graph cases (Winter et al., PPoPP 2021, Fig. 11f and g): each vertex has its neighbours in a
/// block whose capacity is a power of two. A block that is full is replaced by one of twice the capacity.

#include "profiling/arena/kernels.cuh"
#include "profiling/arena/task.hpp"

namespace orchard::arena {

/// The row of a vertex.
struct graph_row {
    std::uint32_t* neighbours;
    std::uint32_t degree;
    std::uint32_t capacity;
};

/// The graph that a launch builds. All numbers follow from the vertex, so that each kernel computes them again.
struct graph_shape {
    static constexpr std::uint32_t least_capacity = 4;
    static constexpr std::uint32_t pressed_vertices = 1000;

    std::uint32_t vertices;
    std::uint32_t steps;    ///< degrees are 1 to 2^steps, each power of two as frequent as the next
    bool pressure;          ///< an update adds to the first 1,000 vertices alone
    bool doubling = false;  ///< an update adds as many neighbours as there are

    [[nodiscard]] ORCHARD_INLINE std::uint32_t degree(std::uint32_t v) const {
        const std::uint32_t from = 1u << simt::below32(simt::random_bits(3, v, 0), steps);
        return from + simt::below32(simt::random_bits(4, v, 0), from);
    }
    /// Returns the neighbours that an update adds, unless it doubles: one a vertex on the average, or as many in all
    /// for few vertices.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t added(std::uint32_t v) const {
        const std::uint32_t pressed = pressed_vertices < vertices ? pressed_vertices : vertices;
        return !pressure ? simt::below32(simt::random_bits(5, v, 0), 3) : v < pressed ? vertices / pressed : 0;
    }
    [[nodiscard]] ORCHARD_INLINE std::uint32_t neighbour(std::uint32_t v, std::uint32_t k) const { return v * 31 + k; }
    [[nodiscard]] static ORCHARD_INLINE std::uint32_t capacity_for(std::uint32_t degree) {
        std::uint32_t capacity = least_capacity;
        while (capacity < degree) {
            capacity *= 2;
        }
        return capacity;
    }
    /// Returns the bytes of the largest row. @param updates  of a `doubling` graph
    [[nodiscard]] std::uint64_t largest(std::uint32_t updates) const {
        const std::uint32_t built = (2u << (steps - 1)) - 1;
        const std::uint32_t most = doubling ? built << updates : built + added(0) + (pressure ? 0 : 2);
        return std::uint64_t{capacity_for(most)} * 4;
    }
};

/// Returns the graph of a case: rows of one neighbour that double, or the degrees of Winter et al.
inline graph_shape graph_of(const arena_case& c) {
    return c.what == kind::graph_expand ? graph_shape{c.threads, 1, false, true}
                                        : graph_shape{c.threads, c.rounds, c.pressure};
}

/// Thread v allocates the row of vertex v and writes its neighbours.
template <class View>
struct graph_init_kernel {
    View view;
    graph_shape shape;
    graph_row* rows;
    counts* count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto v = static_cast<std::uint32_t>(at.global_thread());
        if (v >= shape.vertices) {
            return;
        }
        const std::uint32_t degree = shape.degree(v);
        const std::uint32_t capacity = graph_shape::capacity_for(degree);
        auto* words = static_cast<std::uint32_t*>(view.malloc(std::uint64_t{capacity} * 4));
        note_block(count, words);
        for (std::uint32_t k = 0; words != nullptr && k < degree; ++k) {
            words[k] = shape.neighbour(v, k);
        }
        rows[v] = {words, words == nullptr ? 0 : degree, capacity};
    }
};

/// Thread v adds the new neighbours of vertex v. A row without memory stays as it is.
template <class View>
struct graph_update_kernel {
    View view;
    graph_shape shape;
    graph_row* rows;
    counts* count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto v = static_cast<std::uint32_t>(at.global_thread());
        const std::uint32_t more = v >= shape.vertices ? 0 : shape.doubling ? rows[v].degree : shape.added(v);
        if (more == 0) {
            return;
        }
        graph_row row = rows[v];
        if (row.degree + more > row.capacity) {
            const std::uint32_t capacity = graph_shape::capacity_for(row.degree + more);
            auto* words = static_cast<std::uint32_t*>(view.malloc(std::uint64_t{capacity} * 4));
            note_block(count, words);
            if (words == nullptr) {
                return;
            }
            for (std::uint32_t k = 0; k < row.degree; ++k) {
                words[k] = row.neighbours[k];
            }
            view.free(row.neighbours);
            row = {words, row.degree, capacity};
        }
        for (std::uint32_t k = 0; k < more; ++k) {
            row.neighbours[row.degree + k] = shape.neighbour(v, row.degree + k);
        }
        row.degree += more;
        rows[v] = row;
    }
};

/// Thread v counts the row of vertex v as wrong if a neighbour is not the one that was written, and frees it.
template <class View>
struct graph_free_kernel {
    View view;
    graph_shape shape;
    graph_row* rows;
    counts* count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto v = static_cast<std::uint32_t>(at.global_thread());
        if (v >= shape.vertices) {
            return;
        }
        const graph_row row = rows[v];
        bool right = true;
        for (std::uint32_t k = 0; k < row.degree; ++k) {
            right = right && row.neighbours[k] == shape.neighbour(v, k);
        }
        if (!right) {
            count->wrong.fetch_add<order::relaxed>(1);
        }
        view.free(row.neighbours);
        rows[v] = {nullptr, 0, 0};
    }
};

}  // namespace orchard::arena
