// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Runs of the search tree and of the octree, in a heap and in an array that was made beforehand.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "examples/trees/octree.cuh"
#include "examples/trees/search_tree.cuh"
#include "runtime/cli/progress.hpp"
#include "runtime/heap/heap.hpp"

namespace orchard::examples {

/// The times of repeated builds, in microseconds of kernels.
struct build_times {
    std::vector<double> build_us;
    std::vector<double> free_us;  ///< empty where nothing is freed
};

struct search_tree_result {
    build_times times;
    std::uint64_t nodes = 0;  ///< as the threads have counted
    std::uint64_t edges = 0;
    std::uint64_t spared = 0;      ///< nodes that a thread could not put, as another one had put the same key
    std::uint64_t left_out = 0;    ///< edges without memory
    std::vector<key_record> keys;  ///< what the last tree says of each key
};

/// Returns `repeats` builds of the tree of `edges` by `threads` threads. `keys`: all keys are below it. Memory: null
/// `bump_bytes`: in `h`; else in an array of so many bytes. Errors: those of the device.
absl::StatusOr<search_tree_result> run_search_tree(heap& h, std::uint64_t bump_bytes, std::span<const key_pair> edges,
                                                   std::uint32_t keys, std::uint64_t threads, int repeats,
                                                   command_line::progress& bar);

/// Returns the builds of the search tree in another allocator, of so many bytes; otherwise as `run_search_tree`
/// (examples/report/other_allocators.hpp).
using tree_in_allocator = std::function<absl::StatusOr<search_tree_result>(
    const simt::executor&, std::uint64_t bytes, std::span<const key_pair>, std::uint32_t keys, std::uint64_t threads,
    int repeats, command_line::progress&)>;

struct octree_result {
    build_times times;
    std::uint64_t cells = 0;              ///< blocks of the heap
    std::uint64_t bodies = 0;             ///< in the tree, by the root's sum
    std::uint64_t left_out = 0;           ///< bodies without memory
    std::vector<std::uint64_t> at_depth;  ///< bodies by the depth of their last cell
    double sum_us = 0;
    double force_us = 0;
    std::vector<force> forces;
};

/// Returns `repeats` builds of the octree of `bodies` by `threads` threads in `h`; the last one with the forces.
/// Errors: those of the device.
absl::StatusOr<octree_result> run_octree(heap& h, std::span<const body> bodies, std::uint32_t threads, double opening,
                                         double softening, int repeats, command_line::progress& bar);

}  // namespace orchard::examples
