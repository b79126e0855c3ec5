// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A Barnes-Hut octree that all bodies build at once, whose cells come from `malloc`.
///
///     a child's word    0: empty     body * 2 + 1: the body, and those at the same place by `same`     else a cell
///
///     insert a body     empty:   the word becomes the body
///                       a body:  a new cell takes that body to its own octant, and the word becomes the cell
///                       a cell:  goes on in it
///
/// A word changes by compare-and-swap, from empty to body to cell, and never back. Positions are integers of 30 bits:
/// the octant in depth d is bit 29 - d of each coordinate, so that the descent and all sums are exact, whatever the
/// order of the threads.
///
/// Source: J. Barnes and P. Hut: A hierarchical O(N log N) force-calculation algorithm (Nature 324, 1986).

#include <cmath>
#include <cstdint>

#include "device/simt/atomic.cuh"
#include "device/simt/launch.cuh"
#include "examples/report/free_lists.cuh"

namespace orchard::examples {

inline constexpr std::uint32_t octree_depth = 30;
inline constexpr std::uint32_t no_body = 0xffffffffu;

/// A body of mass 1.
struct body {
    std::uint32_t x;
    std::uint32_t y;
    std::uint32_t z;
};

struct octree_cell {
    simt::device_word<std::uint64_t> child[8];
    simt::device_word<std::uint64_t> bodies;  ///< below the cell
    simt::device_word<std::uint64_t> sum[3];  ///< of their positions
    octree_cell* made_before;                 ///< the cell that the same thread has made before this one
    std::uint64_t unused;
};

/// The words of a tree that all threads share. The root is no block of the heap.
struct octree {
    octree_cell root;
    simt::device_word<std::uint64_t> cells;                       ///< without the root
    simt::device_word<std::uint64_t> no_memory;                   ///< bodies that were left out for want of memory
    simt::device_word<std::uint64_t> at_depth[octree_depth + 1];  ///< bodies whose last cell has this depth
};

[[nodiscard]] ORCHARD_FN constexpr std::uint32_t octant_of(const body& b, std::uint32_t depth) {
    const std::uint32_t bit = octree_depth - 1 - depth;
    return (b.x >> bit & 1) | (b.y >> bit & 1) << 1 | (b.z >> bit & 1) << 2;
}
[[nodiscard]] ORCHARD_FN constexpr bool is_body(std::uint64_t word) { return (word & 1) != 0; }
[[nodiscard]] ORCHARD_FN constexpr std::uint32_t body_of(std::uint64_t word) {
    return static_cast<std::uint32_t>(word >> 1);
}
[[nodiscard]] ORCHARD_FN constexpr bool same_place(const body& a, const body& b) {
    return a.x == b.x && a.y == b.y && a.z == b.z;
}

/// Inserts bodies; thread i those of its own part, until it finds no memory.
template <class Memory>
struct build_octree {
    Memory memory;
    const body* bodies;
    std::uint32_t count;
    std::uint32_t threads;
    octree* tree;
    std::uint32_t* same;  ///< of each body: the next one at the same place, or `no_body`
    octree_cell** made;   ///< of each thread: the last cell that it has made

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t thread = at.global_thread();
        if (thread >= threads) {
            return;
        }
        octree_cell* spare = nullptr;
        octree_cell* last = nullptr;
        for (std::uint64_t i = thread; i < count; i += threads) {
            if (!insert(static_cast<std::uint32_t>(i), spare, last)) {
                tree->no_memory.template fetch_add<simt::order::relaxed>((count - i + threads - 1) / threads);
                break;
            }
        }
        if (spare != nullptr) {
            memory.free(spare);
        }
        made[thread] = last;
    }

private:
    /// Returns false, and leaves the body out, without memory for a cell.
    ORCHARD_FN bool insert(std::uint32_t mine, octree_cell*& spare, octree_cell*& last) const {
        const body b = bodies[mine];
        octree_cell* cell = &tree->root;
        std::uint32_t depth = 0;
        for (;;) {
            auto& word = cell->child[octant_of(b, depth)];
            // Acquire pairs with the release that put a cell there.
            std::uint64_t seen = word.template load<simt::order::acquire>();
            if (seen != 0 && !is_body(seen)) {
                cell = reinterpret_cast<octree_cell*>(seen);
                ++depth;
            } else if (seen == 0 || same_place(b, bodies[body_of(seen)])) {
                same[mine] = seen == 0 ? no_body : body_of(seen);
                if (word.template compare_exchange<simt::order::release>(seen, std::uint64_t{mine} << 1 | 1)) {
                    return true;
                }
            } else if (!divide(word, seen, depth + 1, spare, last)) {
                return false;
            }
        }
    }

    /// Replaces a body's word by a cell that has the body as its child, unless another thread changes the word first.
    /// Two bodies of different places differ in one of the depths left. Returns false without memory.
    ORCHARD_FN bool divide(simt::device_word<std::uint64_t>& word, std::uint64_t seen, std::uint32_t depth,
                           octree_cell*& spare, octree_cell*& last) const {
        spare = spare != nullptr ? spare : static_cast<octree_cell*>(memory.malloc(sizeof(octree_cell)));
        if (spare == nullptr) {
            return false;
        }
        for (auto& child : spare->child) {
            child.template store<simt::order::relaxed>(0);
        }
        spare->child[octant_of(bodies[body_of(seen)], depth)].template store<simt::order::relaxed>(seen);
        spare->bodies.template store<simt::order::relaxed>(0);
        for (auto& sum : spare->sum) {
            sum.template store<simt::order::relaxed>(0);
        }
        spare->made_before = last;
        if (word.template compare_exchange<simt::order::release>(seen, reinterpret_cast<std::uint64_t>(spare))) {
            last = spare;
            spare = nullptr;
            tree->cells.template fetch_add<simt::order::relaxed>(1);
        }
        return true;
    }
};

/// Adds each body to all cells above it.
struct sum_octree {
    const body* bodies;
    std::uint32_t count;
    octree* tree;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i >= count) {
            return;
        }
        const body b = bodies[i];
        octree_cell* cell = &tree->root;
        for (std::uint32_t depth = 0;; ++depth) {
            cell->bodies.fetch_add<simt::order::relaxed>(1);
            cell->sum[0].fetch_add<simt::order::relaxed>(b.x);
            cell->sum[1].fetch_add<simt::order::relaxed>(b.y);
            cell->sum[2].fetch_add<simt::order::relaxed>(b.z);
            const std::uint64_t child = cell->child[octant_of(b, depth)].load<simt::order::relaxed>();
            if (child == 0 || is_body(child)) {
                tree->at_depth[depth].fetch_add<simt::order::relaxed>(1);
                return;
            }
            cell = reinterpret_cast<octree_cell*>(child);
        }
    }
};

/// A force, in units of 1 / (2^30)^2.
struct force {
    double x = 0;
    double y = 0;
    double z = 0;

    /// Adds the pull of `mass` at (px, py, pz) on a body. Bodies nearer than `softening` pull as if they were farther.
    ORCHARD_FN void add(const body& on, double px, double py, double pz, double mass, double softening) {
        constexpr double unit = 1.0 / (1u << octree_depth);
        const double dx = (px - on.x) * unit;
        const double dy = (py - on.y) * unit;
        const double dz = (pz - on.z) * unit;
        const double d2 = dx * dx + dy * dy + dz * dz + softening * softening;
        const double pull = mass / (d2 * std::sqrt(d2));
        x += dx * pull;
        y += dy * pull;
        z += dz * pull;
    }
};

/// Computes the force on each body. A cell counts as one mass where its width is less than `opening` times its
/// distance; with `opening` 0 none does, and the sum is that of all pairs.
struct pull_bodies {
    const body* bodies;
    std::uint32_t count;
    const octree* tree;
    const std::uint32_t* same;
    double opening;
    double softening;
    force* forces;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i >= count) {
            return;
        }
        const body b = bodies[i];
        force f;
        // Each cell that is opened leaves at most seven others of its depth.
        struct waiting {
            const octree_cell* cell;
            std::uint32_t depth;
        };
        waiting stack[7 * octree_depth + 1];
        std::uint32_t top = 0;
        stack[top++] = {&tree->root, 0};
        while (top != 0) {
            const waiting now = stack[--top];
            for (const auto& word : now.cell->child) {
                const std::uint64_t child = word.load<simt::order::relaxed>();
                if (child == 0) {
                    continue;
                }
                if (is_body(child)) {
                    for (std::uint32_t other = body_of(child); other != no_body; other = same[other]) {
                        if (other != i) {
                            f.add(b, bodies[other].x, bodies[other].y, bodies[other].z, 1, softening);
                        }
                    }
                    continue;
                }
                const auto* const cell = reinterpret_cast<const octree_cell*>(child);
                const auto mass = static_cast<double>(cell->bodies.load<simt::order::relaxed>());
                const double px = static_cast<double>(cell->sum[0].load<simt::order::relaxed>()) / mass;
                const double py = static_cast<double>(cell->sum[1].load<simt::order::relaxed>()) / mass;
                const double pz = static_cast<double>(cell->sum[2].load<simt::order::relaxed>()) / mass;
                const double dx = px - b.x;
                const double dy = py - b.y;
                const double dz = pz - b.z;
                const double width = static_cast<double>(1u << (octree_depth - 1 - now.depth));
                if (width * width < opening * opening * (dx * dx + dy * dy + dz * dz)) {
                    f.add(b, px, py, pz, mass, softening);
                } else {
                    stack[top++] = {cell, now.depth + 1};
                }
            }
        }
        forces[i] = f;
    }
};

/// Each thread frees the cells that it has made.
template <class Memory>
using free_octree = free_lists<Memory, octree_cell, &octree_cell::made_before>;

}  // namespace orchard::examples
