// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The requests of the threads of one launch, and their results: the half of the property tests that runs on the
/// device. The other half, which generates requests and judges results, is plain C++.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/heap/heap.hpp"

namespace orchard::test {

enum class action : std::uint32_t { nothing, malloc, calloc, aligned_alloc, realloc, free, free_inside };

/// Memory that the heap gave out: all of its usable bytes bear a stamp.
struct held_block {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;   ///< requested size
    std::uint64_t usable = 0;  ///< size that the heap reports
    std::uint64_t stamp = 0;
    std::uint64_t page = 0;    ///< 1: of a slab; 0: of a chunk
    std::uint64_t origin = 0;  ///< the warp and launch that allocated it: lanes of one warp may share a chunk
};

/// The request of one thread in one round.
struct request {
    action what = action::nothing;
    std::uint64_t bytes = 0;
    std::uint64_t alignment = 0;  ///< of `aligned_alloc`
    std::uint64_t stamp = 0;      ///< for the new block
    held_block old;               ///< the block to free, to reallocate, or to free at a wrong address; may be null
};

/// The errors that a thread finds, as bits.
enum class complaint : std::uint32_t {
    changed = 1,          ///< the contents of a block changed before it was freed or reallocated
    lost = 2,             ///< realloc lost contents
    not_zero = 4,         ///< calloc
    not_owned = 8,        ///< `owns` returned false
    usable_changed = 16,  ///< `usable_size` differs from its value when the block was allocated
};

struct answer {
    std::uint64_t address = 0;
    std::uint64_t usable = 0;
    std::uint32_t complaints = 0;
};

/// The launch that all requests are made in: four warps in two blocks.
inline constexpr std::uint32_t launch_warps = 4;
inline constexpr std::uint32_t launch_threads = launch_warps * 32;

/// Makes requests [round * launch_threads + thread]: each thread its own, one round after another, without waiting for
/// the other threads. Returns the answers in the same order. Errors: those of the launch.
absl::StatusOr<std::vector<answer>> perform(heap& on, const std::vector<request>& requests);

/// Returns the number of blocks whose contents differ from their stamps; a thread of a new launch checks each block.
absl::StatusOr<std::uint64_t> count_changed(heap& on, const std::vector<held_block>& blocks);

}  // namespace orchard::test
