// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What the pointers that an allocator returned show: checked on the host, by sorting them.

#include <cstdint>
#include <vector>

#include "profiling/arena/task.hpp"

namespace orchard::arena {

/// A request and its answer.
struct block {
    std::uint64_t address = 0;  ///< 0: null
    std::uint64_t bytes = 0;    ///< as asked for
};

/// What a set of live blocks shows.
struct findings {
    std::uint64_t blocks = 0;       ///< that are not null
    std::uint64_t nulls = 0;        ///< requests that were refused
    std::uint64_t misaligned = 0;   ///< blocks that are not aligned to 16 B
    std::uint64_t overlapping = 0;  ///< blocks that begin before the one below them ends
    std::uint64_t bytes = 0;        ///< of all blocks, each rounded up to 16 B
    std::uint64_t span = 0;         ///< bytes from the lowest to the end of the highest block
};

/// Returns what the blocks show. Cost: a sort.
findings inspect(std::vector<block> blocks);

/// Notes overlaps, wrong alignments and nulls.
/// @param nulls_allowed  the memory was meant to run out
void note(outcome& result, const findings& found, bool nulls_allowed = false);

}  // namespace orchard::arena
