// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The order in which the requests of a trace are made again.
///
/// The events of blocks are cut into batches, one kernel each. In a batch, each thread of the record is a thread of the
/// kernel, and makes its requests in its order. No thread needs what another thread of its batch does: a batch ends
/// before a free of a block that another thread has allocated in it. Threads of one batch run at the same time, so that
/// frees and allocations of different threads may change places within it.
///
/// Interleaved arrays of one chunk were asked for together, by lanes of one warp. A batch with such a group has whole
/// warps, and all lanes of the warp have a step at which they meet; those of the group allocate there. Lanes 1 and 3 of
/// a warp have asked together:
///
///     lane 0    meet
///     lane 1    allocate 7    allocate_together 8
///     lane 2    meet          free 5
///     lane 3    allocate_together 9
///     ...       meet

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "host/events/event.hpp"
#include "uvm/geometry/block_request.hpp"

namespace orchard::traces {

/// A block of the trace.
struct replay_block {
    std::uint64_t bytes = 0;
    std::uint32_t tag = 0;    ///< the last one that it got
    std::uint32_t array = 0;  ///< if it is an interleaved array: its number among these
    block_request asked{};
};

/// A request of a thread, or a place where it meets the other lanes of its warp.
struct replay_step {
    enum class action : std::uint32_t { allocate, free, allocate_together, meet };

    std::uint32_t block = 0;
    action what = action::meet;
};

/// The requests of one kernel: thread i makes [first[i], first[i + 1]) of `steps`. If there are groups, thread i is
/// lane i mod 32 of its warp.
struct replay_batch {
    std::vector<replay_step> steps;
    std::vector<std::uint32_t> first;
};

/// Sizes and tags of blocks, with their number.
using block_counts = std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint64_t>;

struct replay_plan {
    std::vector<replay_batch> batches;
    std::vector<replay_block> blocks;  ///< a block's number is its place here
    std::vector<bool> is_live;         ///< of each block: the trace does not free it
    std::uint32_t arrays = 0;          ///< the number of interleaved arrays
    std::uint64_t allocations = 0;
    std::uint64_t frees = 0;
    std::uint64_t unknown = 0;     ///< events that fit no block in use
    std::uint64_t shortages = 0;   ///< requests that failed
    std::uint64_t peak_bytes = 0;  ///< most bytes that were asked for and in use at once
    block_counts at_end;           ///< the blocks in use at the end
};

/// Returns the plan for the events of a complete trace. Blocks of 0 bytes do not occur.
/// @param most_steps  of one batch; more where lanes of a group that has begun are the last ones. A lone request or a
///     free between the lanes of a group may end the batch before the group is whole.
replay_plan plan_replay(const std::vector<event>& events, std::uint64_t most_steps);

}  // namespace orchard::traces
