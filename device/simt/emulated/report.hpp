// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The texts of errors of a launch: what happened, which lanes wait where, and what to do.

#include <cstdint>
#include <span>
#include <string>

#include "device/simt/emulated/warp.hpp"

namespace orchard::simt::emulated {

/// Returns which lanes wait where in one warp, with one line for each group of lanes, each ended by a newline:
///
///     block 0, warp 1: lanes 0x00000003 wait at ballot (file.cu:12) for mask 0x00000007; missing 0x00000004, ended
std::string describe_waits(const warp& of, std::uint32_t block, std::uint32_t warp_index);

/// Returns the error for a call that `warp::check` rejected.
std::string describe_rejection(refusal why, const warp& of, const meeting& at, int source, std::uint32_t block,
                               std::uint32_t thread);

/// Returns the error for lanes that wait for a lane that has just ended.
std::string describe_early_end(const warp& of, std::uint32_t block, std::uint32_t thread);

/// Returns the error for a block in which some lanes can never continue.
std::string describe_stuck(std::span<const warp> warps, std::uint32_t block);

}  // namespace orchard::simt::emulated
