// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What the threads of one launch ask a heap for, and what they say of the answers: the half of the property tests that
/// runs on the device. The other half, which makes up requests and judges answers, is plain C++.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/heap/heap.hpp"

namespace orchard::test {

enum class action : std::uint32_t { nothing, malloc, calloc, aligned_alloc, realloc, free, free_inside };

/// Memory that the heap gave out: all of its usable bytes bear a stamp.
struct held_block {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;   ///< asked for
    std::uint64_t usable = 0;  ///< as the heap says
    std::uint64_t stamp = 0;
    std::uint64_t page = 0;    ///< 1: of a slab; 0: of a chunk
    std::uint64_t origin = 0;  ///< the warp and launch that asked for it: lanes of one may share a chunk
};

/// What one thread asks for in one round.
struct request {
    action what = action::nothing;
    std::uint64_t bytes = 0;
    std::uint64_t alignment = 0;  ///< of `aligned_alloc`
    std::uint64_t stamp = 0;      ///< for what it gets
    held_block old;               ///< what is freed, reallocated, or freed at a wrong address; maybe null
};

/// What a thread finds wrong, as bits.
enum class complaint : std::uint32_t {
    changed = 1,          ///< a block is not as it was stamped when it is freed or reallocated
    lost = 2,             ///< realloc lost contents
    not_zero = 4,         ///< calloc
    not_owned = 8,        ///< `owns` says no
    usable_changed = 16,  ///< `usable_size` says another thing than when the block was given out
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
/// the other threads. The answers in the same order. Errors: those of the launch.
absl::StatusOr<std::vector<answer>> perform(heap& on, const std::vector<request>& requests);

/// How many of the blocks are not as they were stamped; each is looked at by a thread of a new launch.
absl::StatusOr<std::uint64_t> count_changed(heap& on, const std::vector<held_block>& blocks);

}  // namespace orchard::test
