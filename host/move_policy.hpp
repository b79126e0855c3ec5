// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Chooses which memory of an elastic heap changes places between the device and the host.
///
///     device budget 3 pieces   | A: 9 | B: 0 | C: 40 |        number: sampled accesses
///     host                     | D: 200 | E: 12 | F: 0 |
///     orders                   B to the host, D to the device; then A against E: 12 is not twice 9, so E stays

#include <cstdint>
#include <span>
#include <vector>

#include "uvm/memory/backing.hpp"

namespace orchard {

/// Memory that moves as a whole, and how much it is in use.
struct rated_memory {
    movable_memory memory;
    double accesses = 0;  ///< sampled accesses to all of it; older ones may count less
};

/// What the choice depends on besides the memory.
struct move_limits {
    std::uint64_t device_room = 0;                        ///< bytes for which the device's budget still has room
    bool is_sampled = false;                              ///< false: no access was ever sampled; the age decides
    std::uint64_t batch_bytes = std::uint64_t{64} << 20;  ///< bytes of orders of one direction in a row
};

/// Returns the orders. Memory of the host that is in use moves, most used first, into the room of the device, and then
/// in exchange for the memory of the device that is used least: as long as it is used more than twice as often, and the
/// difference is more than four to six times what chance explains (the square root of the sum, as for counts of
/// independent events; the more memory, the more times). Independent accesses to all memory therefore move nothing.
/// Without samples, the younger memory counts as used more: a heap that grows beyond its budget has its newest memory
/// on the host.
///
/// Orders to the host come one batch ahead of those to the device that need the room. Cost: sorts the memory.
std::vector<move_order> choose_moves(std::span<const rated_memory> all, const move_limits& limits);

}  // namespace orchard
