// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Walkers, one for each thread, that append visited vertices to lists that grow by `malloc`.
///
///     walker_record    size 8, capacity 8     list -> [ 8 vertices ]
///     the ninth visit  malloc of 16, copy 8, free the old list
///                      size 9, capacity 16    list -> [ 8 vertices | ninth | . . . ]
///
/// The record is the thread's own until the end of the walk. Only `visits` is shared by walkers.

#include <cstdint>

#include "examples/walk/records.cuh"
#include "examples/walk/walk_rule.hpp"

namespace orchard::examples {

/// Entries of a walker's first list.
inline constexpr std::uint32_t first_walk_capacity = 8;

/// Runs walkers [first, first + count): fills their records and adds to `visits`, one word for each vertex.
///
/// A full list is copied to one of twice the size. The lanes of a warp are at the same step, so they allocate together.
/// The graph does not change during the walk. Its words are read relaxed, because an earlier kernel wrote them.
///
/// `Heap`: `void* malloc(std::uint64_t) const`, `void free(void*) const`.
template <class Heap>
struct walk_graph {
    Heap heap;
    walk_rule rule;
    const vertex_record* vertices;       ///< the graph; not changed
    walker_record* walkers;              ///< of all walkers, by number
    std::uint64_t first;                 ///< the first walker of this launch
    std::uint64_t count;                 ///< walkers of this launch
    device_word<std::uint64_t>* visits;  ///< how often each vertex was visited
    trouble* problem;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.global_thread() >= count) {
            return;
        }
        const std::uint64_t walker = first + at.global_thread();
        walker_record walk{};
        std::uint32_t vertex = rule.start(walker);
        bool walking = visit(walk, walker, vertex);
        for (std::uint32_t step = 1; walking && step <= rule.steps; ++step) {
            const std::uint32_t degree = vertices[vertex].size.template load<order::relaxed>();
            if (degree != 0) {
                const std::uint64_t list = vertices[vertex].list.template load<order::relaxed>();
                vertex = reinterpret_cast<const std::uint32_t*>(list)[rule.neighbour(walker, step, degree)];
            } else if (rule.at_dead_end == dead_end::restart) {
                vertex = rule.restart(walker, step);
            } else {
                break;
            }
            walking = visit(walk, walker, vertex);
        }
        walkers[walker] = walk;
    }

private:
    /// Appends `vertex` to the walk and counts the visit. Returns false, and does neither, if the list is full and
    /// there is no memory for a longer one: the walk ends there.
    ORCHARD_FN bool visit(walker_record& walk, std::uint64_t walker, std::uint32_t vertex) const {
        if (walk.size == walk.capacity && !grow(walk, walker)) {
            return false;
        }
        walk.list[walk.size++] = vertex;
        // Relaxed: the counts are read after the kernel has ended.
        visits[vertex].template fetch_add<order::relaxed>(1);
        return true;
    }

    /// Moves the walk to a list of twice the capacity. `realloc` would do this in one call, as `insert_edges` does it.
    ORCHARD_FN bool grow(walker_record& walk, std::uint64_t walker) const {
        if (problem->any()) {
            return false;
        }
        const std::uint32_t capacity = walk.capacity == 0 ? first_walk_capacity : walk.capacity * 2;
        auto* list = static_cast<std::uint32_t*>(heap.malloc(std::uint64_t{capacity} * sizeof(std::uint32_t)));
        if (list == nullptr) {
            problem->record(trouble_kind::no_memory, walker);
            return false;
        }
        for (std::uint32_t i = 0; i < walk.size; ++i) {
            list[i] = walk.list[i];
        }
        heap.free(walk.list);
        walk.list = list;
        walk.capacity = capacity;
        return true;
    }
};

}  // namespace orchard::examples
