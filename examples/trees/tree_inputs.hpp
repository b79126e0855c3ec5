// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The inputs of `orchard tree`, and what plain programs on the host make of them.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/strings/str_format.h"
#include "device/simt/random.hpp"
#include "examples/graph/host_memory.hpp"
#include "examples/graph/parallel.hpp"
#include "examples/trees/octree.cuh"
#include "examples/trees/search_tree.cuh"

namespace orchard::examples {

/// Returns the bytes of an array that has room for the search tree of so many edges: each may need itself and two
/// nodes, which other threads may put first.
inline std::uint64_t search_tree_bytes(std::uint64_t edges) {
    return edges * (2 * sizeof(search_node) + sizeof(list_edge));
}

/// Returns ResourceExhausted if the inputs and results of so many edges, keys and bodies exceed the memory `have` of
/// the host. On the emulated device, the arrays of the device are there, too.
inline absl::Status check_tree_memory(std::uint64_t edges, std::uint32_t keys, std::uint32_t bodies,
                                      simt::device_kind device, std::uint64_t have = host_memory_bytes()) {
    // What each key must have, and what it has in two trees.
    std::uint64_t bytes =
        edges * sizeof(key_pair) + keys * 3 * sizeof(key_record) + bodies * (sizeof(body) + sizeof(force));
    if (device == simt::device_kind::emulated) {
        bytes += edges * sizeof(key_pair) + search_tree_bytes(edges) + keys * sizeof(key_record) +
                 bodies * (sizeof(body) + sizeof(force));
    }
    return check_host_memory(bytes, absl::StrFormat("--edges %d --nodes %d --bodies %d", edges, keys, bodies), have,
                             "give smaller numbers");
}

/// Returns random directed edges between `keys` vertices.
inline std::vector<key_pair> random_edges(std::uint64_t count, std::uint32_t keys, std::uint64_t seed) {
    std::vector<key_pair> edges(count);
    for (std::uint64_t i = 0; i < count; ++i) {
        edges[i] = {simt::below32(simt::random_bits(seed, 0, i), keys),
                    simt::below32(simt::random_bits(seed, 1, i), keys)};
    }
    return edges;
}

/// Returns what a tree of the edges must say of each key.
inline std::vector<key_record> expected_keys(std::span<const key_pair> edges, std::uint32_t keys) {
    std::vector<key_record> all(keys);
    for (const key_pair& e : edges) {
        all[e.from].is_there = 1;
        all[e.to].is_there = 1;
        ++all[e.from].edges;
        all[e.from].sum += mix_key(e.to);
    }
    return all;
}

/// Returns bodies in clusters: each lies around one of 16 centres, at distances of all magnitudes, so that the tree is
/// much deeper there than elsewhere. One of 256 lies where the one before it does.
inline std::vector<body> random_bodies(std::uint32_t count, std::uint64_t seed) {
    std::vector<body> bodies(count);
    for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint64_t centre = simt::random_bits(seed, 10, i) & 15;
        const std::uint64_t shift = 2 + simt::random_bits(seed, 11, i) % 16;
        const auto along = [&](std::uint64_t axis) {
            const std::uint64_t middle = (1u << 28) + (simt::random_bits(seed, 12 + axis, centre) & ((1u << 29) - 1));
            const std::uint64_t width = std::uint64_t{1} << (octree_depth - shift);
            return static_cast<std::uint32_t>(middle + simt::random_bits(seed, 15 + axis, i) % width - width / 2);
        };
        bodies[i] = {along(0), along(1), along(2)};
        if (i % 256 == 255) {
            bodies[i] = bodies[i - 1];
        }
    }
    return bodies;
}

/// Returns the force on body `i` by all others, one after the other.
inline force all_pairs(std::span<const body> bodies, std::size_t i, double softening) {
    force f;
    for (std::size_t other = 0; other < bodies.size(); ++other) {
        if (other != i) {
            f.add(bodies[i], bodies[other].x, bodies[other].y, bodies[other].z, 1, softening);
        }
    }
    return f;
}

/// Returns the root mean square of the relative errors of up to `most` forces, evenly chosen, against all pairs.
inline double force_error(std::span<const body> bodies, std::span<const force> forces, double softening,
                          std::size_t most) {
    const std::size_t every = (bodies.size() + most - 1) / most;
    const std::size_t chosen = (bodies.size() + every - 1) / every;
    std::vector<double> squares(chosen);
    parallel_for(chosen, [&](std::uint64_t n) {
        const std::size_t i = n * every;
        const force right = all_pairs(bodies, i, softening);
        const double dx = forces[i].x - right.x;
        const double dy = forces[i].y - right.y;
        const double dz = forces[i].z - right.z;
        const double size = right.x * right.x + right.y * right.y + right.z * right.z;
        squares[n] = (dx * dx + dy * dy + dz * dz) / std::max(size, 1e-300);
    });
    double sum = 0;
    for (const double s : squares) {
        sum += s;
    }
    return std::sqrt(sum / static_cast<double>(chosen));
}

}  // namespace orchard::examples
