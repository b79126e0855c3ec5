// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The sums of a block's threads on the emulated device; see device/simt/block.cuh.

#include <cstdint>

#include "device/simt/config.cuh"

namespace orchard::simt {

/// The sum of the values of a block's threads, and of those before one of them.
struct block_sum {
    std::uint64_t before;
    std::uint64_t all;
};

namespace emulated {

/// Returns the sums, when all threads of the block have called it. A thread that runs no lane is a block of its own.
/// The launch fails if a thread of the block has left its kernel. In a simulation that is a violation.
block_sum sum_in_block(std::uint64_t value, site where);

}  // namespace emulated

}  // namespace orchard::simt
