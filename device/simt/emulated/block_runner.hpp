// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Runs the blocks of a grid, one after another, on the calling thread.
///
///     run_block                          the scheduler's side          a lane's stack
///       scheduler_.next                  the lane that waited longest
///       run_lane ----------------------- jump ---------------------->  lane_main: calls the kernel
///                                                                        meet, not the last of its mask
///                                        <---------------------- jump --   suspend
///       scheduler_.next
///       run_lane ----------------------- jump ---------------------->  another lane
///                                                                        meet, the last: all lanes of the mask
///                                                                        go to the queue, this one continues
///                                                                        pause: to the end of the queue
///                                        <---------------------- jump --   suspend
///       ...
///
/// A lane runs until it waits or ends; there is no preemption. A lane that waits in a loop without a call of the seam
/// that waits (`pause` or a collective) therefore stops its block for ever.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "device/simt/emulated/block_sum.hpp"
#include "device/simt/emulated/fast_scheduler.hpp"
#include "device/simt/emulated/hooks.hpp"
#include "device/simt/emulated/lane_fiber.hpp"
#include "device/simt/emulated/warp.hpp"
#include "device/simt/launch.cuh"

namespace orchard::simt::emulated {

/// One launch; the host threads that work on it share this object.
class launch_state {
public:
    launch_state(grid shape, kernel_body body, const void* kernel, access_recorder* recorder)
        : shape_{shape}, body_{body}, kernel_{kernel}, recorder_{recorder} {}

    [[nodiscard]] grid shape() const { return shape_; }
    void call_kernel(thread_position at) const { body_(kernel_, at); }
    /// Returns the recorder; null if nothing is recorded.
    [[nodiscard]] access_recorder* recorder() const { return recorder_; }

    /// Takes the next block. Relaxed: the index is all that workers agree on here.
    /// @returns its index; `shape().blocks` or more if there is none left
    std::uint64_t take_block() { return next_block_.fetch_add(1, std::memory_order_relaxed); }

    /// Records an error, unless there is one already, and stops the launch.
    void fail(std::string error);
    /// Notes why a worker takes no part. No block is lost: other workers run them, or `result` reports the error.
    void note_absence(std::string error);
    /// Returns whether all blocks must stop because one has failed. Relaxed: a worker that sees it late stops at a
    /// later wait, and reads the error only in `result`, under the lock.
    [[nodiscard]] bool stopping() const { return stopping_.load(std::memory_order_relaxed); }

    /// Adds the costs of all blocks of a worker. Workers call it once each, so that they do not share counters.
    void add_costs(const costs& of_worker);
    /// Returns the result: an error also if blocks are left because no worker took part. No thread may still work on
    /// the launch.
    [[nodiscard]] launch_result result();

private:
    const grid shape_;
    const kernel_body body_;
    const void* const kernel_;
    access_recorder* const recorder_;
    // On separate lines: every wait of every lane reads `stopping_`, which must not miss because a worker takes a
    // block.
    alignas(64) std::atomic<std::uint64_t> next_block_{0};
    alignas(64) std::atomic<bool> stopping_{false};
    std::mutex mutex_;  // guards the members below
    std::string error_;
    std::string absence_;  ///< why a worker takes no part
    costs costs_;
};

class block_runner;

/// One thread of the block that a runner executes. `current_lane` points to it while it runs.
struct lane {
    block_runner* runner = nullptr;
    warp* group = nullptr;  ///< its warp, in the runner
    lane_fiber* fiber = nullptr;
    std::uint32_t thread = 0;  ///< index in its block
    int id = 0;                ///< index in its warp
    bool started = false;      ///< it has run in this block, so that its stack may have frames
};

/// The lanes of one block at a time, with their stacks, which are kept from block to block.
///
/// A lane runs on its own stack until it waits or ends; `run` then picks the next lane. The functions that lanes call
/// change the state (in `warp`), and pass lanes that became runnable to the scheduler. Only `run` and the scheduler
/// decide which lane continues.
class block_runner {
public:
    /// Runs blocks of `launch` until none is left or the launch stops; none if there is no memory for their stacks.
    void work_off(launch_state& launch);

    // Lanes call these functions, on their stacks. Each throws the runner's own exception if the launch stops.

    /// Arrives at a collective, and waits for the other lanes of its mask. Fails the launch if the mask can never be
    /// right. @returns the lane's result of the collective
    std::uint64_t meet(lane& l, const meeting& at, std::uint64_t operand, int source);
    /// Waits until no lane of the warp can run. Returns the lanes of the warp that wait at the same site.
    lane_mask converge(lane& l, site where);
    /// Lets all other lanes of the block run that can. @param nanoseconds  a hint for `idle_backoff`
    void pause(lane& l, std::uint32_t nanoseconds, site where);
    /// Waits until all threads of the block have called it, and returns the sums of their values.
    block_sum sum(lane& l, std::uint64_t value, site where);
    [[nodiscard]] thread_position position_of(const lane& l) const;

private:
    /// The task of a lane's fiber: calls the kernel, and turns an exception into an error of the launch.
    static void lane_main(void* argument) noexcept;

    // The scheduler's side: all of these but `end` run on the worker's own stack.

    void ensure_lanes(std::uint32_t count);
    void begin_block(std::uint32_t block);
    void run_block();
    void run_lane(lane& l);
    void unpause_warp(warp& of);
    void between_rounds();
    void unwind_lanes();
    void end(lane& l);

    // The lanes' side. `suspend` returns when the scheduler has chosen the lane again.

    void suspend(lane& l);
    void make_runnable(const warp& of, lane_mask lanes);
    void release_converging(warp& of);
    lane_mask converge_by_site(warp& of);
    void record_meeting(const warp& of, lane_mask lanes);
    [[nodiscard]] bool acts_alone() const;
    [[noreturn]] void fail_in_lane(std::string error);
    [[nodiscard]] std::span<const warp> warps() const;
    [[nodiscard]] bool any_stuck() const;

    launch_state* launch_ = nullptr;
    std::uint32_t block_ = 0;
    std::uint32_t live_ = 0;         // number of lanes of the block that have not ended
    std::uint32_t rounds_ = 0;       // number of rounds of pauses in this block
    std::uint32_t pause_ns_ = 0;     // shortest hint of the current round
    std::uint64_t work_before_ = 0;  // number of writes and ended lanes when the round began
    std::uint32_t summands_ = 0;     // number of threads of the block that have called `sum` since its last result
    std::uint64_t sums_made_ = 0;    // number of results of `sum`
    std::uint64_t sum_of_all_ = 0;   // the last result
    costs costs_;                    // costs of all blocks run for this launch
    fast_scheduler scheduler_;
    idle_backoff backoff_;
    std::array<warp, max_threads_per_block / warp_size> warps_;
    std::array<std::uint64_t, max_threads_per_block> summed_;  // of `sum`: each thread's value, then the sum before it
    std::vector<lane> lanes_;                                  // this and the stacks grow to the largest block seen
    std::vector<std::unique_ptr<lane_fiber>> fibers_;
};

}  // namespace orchard::simt::emulated
