// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The numbers of the pollers (poller.cuh): how much one reads at once, how long a turn is, and when another group
/// takes the lease of a poller that has stopped.

#include <cstdint>

#include "device/simt/lane.cuh"

namespace orchard::device {

namespace poller {
/// Words that each lane of a poller reads at once while there is traffic: 128 responses for a full warp. The loads are
/// in flight together, so that the round still costs about one round trip to host memory. Without traffic each lane
/// reads one word.
inline constexpr std::uint32_t depth = 4;
/// The most responses that a poller reads at once.
inline constexpr std::uint32_t longest_batch = depth * simt::warp_size;
/// Responses that a lane delivers at once, with their atomics in flight together: as many as registers allow.
inline constexpr std::uint32_t at_once = 2;
/// Rounds for which a poller serves other groups after its own response has arrived. If it left at once, the ring would
/// often have no poller, until some group looks at the lease again.
inline constexpr std::uint32_t rounds_for_others = 8;
/// Rounds after which a poller gives up its lease, so that its word changes even while no response arrives. Waiting
/// groups can then tell a poller at work from one that has stopped.
inline constexpr std::uint32_t longest_turn = 64;
/// If a poller word has not changed for this long, its poller is taken for stopped.
inline constexpr std::uint64_t lost_after_ns = 5'000'000;
}  // namespace poller

}  // namespace orchard::device
