// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Derived parameters of the walk; see walk_options.hpp.

#include "examples/walk/walk_options.hpp"

#include <algorithm>
#include <bit>

#include "runtime/options/byte_size.hpp"
#include "uvm/geometry/geometry.hpp"

namespace orchard::examples {

std::uint64_t walk_options::batch_of(std::uint64_t edges) const {
    constexpr std::uint64_t smallest = 4096;
    constexpr std::uint64_t largest = 4ull << 20;
    return batch != 0 ? batch : std::clamp(edges / 16, smallest, largest);
}

std::uint64_t suggested_capacity(std::uint32_t vertices, std::uint64_t edges, const walk_options& options) {
    constexpr std::uint64_t entry_bytes = sizeof(std::uint32_t);
    constexpr std::uint64_t growth = 4;  // 2 for capacities above sizes, 2 for the lists before the last
    const std::uint64_t adjacency = edges * 2 * entry_bytes * growth + std::uint64_t{vertices} * 16;
    // A walker's last list, and as much again for the lists that it has grown out of.
    const std::uint64_t walk = std::bit_ceil(std::uint64_t{options.steps} + 1) * entry_bytes * 2;
    const std::uint64_t logs = 64 * mib + std::uint64_t{options.steps} * entry_bytes;
    const std::uint64_t at_hand = 512 * mib;  // for the segment cache, and nearly empty slabs of every class
    const std::uint64_t sum = adjacency + options.walkers * walk + logs + at_hand;
    return std::max(gib, segments_for(sum) * segment_bytes);
}

}  // namespace orchard::examples
