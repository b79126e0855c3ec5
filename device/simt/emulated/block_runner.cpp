// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The execution of blocks on the emulated device; see block_runner.hpp.
///
/// The end of a launch that fails:
///
///     launch_state::fail      keeps the first error; `stopping` is true from now on
///     run_block               each worker leaves its loop when its current lane has waited or ended
///       unwind_lanes          resumes every lane that has begun
///         suspend             throws `lane_stopped`, which leaves the kernel and runs the destructors on its way
///         lane_main           catches it: the stack is empty
///     work_off                takes no further block
///
/// A lane that makes a further call of the seam on its way (in a handler) gets `lane_stopped` again.

#include "device/simt/emulated/block_runner.hpp"

#include <absl/strings/str_format.h>

#include <algorithm>
#include <bit>
#include <exception>
#include <limits>
#include <utility>

#include "device/simt/emulated/recorder.hpp"
#include "device/simt/emulated/report.hpp"

namespace orchard::simt::emulated {

namespace {

/// Thrown to make a lane leave its kernel when the launch stops. Not a std::exception, so that a handler in the kernel
/// does not catch it as an error of its own.
struct lane_stopped {};

constexpr std::uint32_t no_hint = std::numeric_limits<std::uint32_t>::max();
// Rounds of pauses between two searches for lanes that are stuck while other lanes pause.
constexpr std::uint32_t rounds_between_searches = 64;

/// Returns the number of writes, by which `between_rounds` tells work from waiting: lanes that only wait read.
std::uint64_t writes_in(const costs& c) {
    return c.device_stores + c.device_atomics + c.host_words_written + c.host_atomics;
}

}  // namespace

// The first error wins: later ones are often its consequences.
void launch_state::fail(std::string error) {
    const std::lock_guard lock(mutex_);
    if (error_.empty()) {
        error_ = std::move(error);
    }
    stopping_.store(true, std::memory_order_relaxed);
}

void launch_state::note_absence(std::string error) {
    const std::lock_guard lock(mutex_);
    absence_ = std::move(error);
}

void launch_state::add_costs(const costs& of_worker) {
    const std::lock_guard lock(mutex_);
    costs_ += of_worker;
}

launch_result launch_state::result() {
    const std::lock_guard lock(mutex_);
    // Blocks are left although the launch did not fail: every worker was absent.
    if (error_.empty() && next_block_.load(std::memory_order_relaxed) < shape_.blocks) {
        error_ = absence_;
    }
    return {error_.empty(), error_, costs_};
}

void block_runner::work_off(launch_state& launch) {
    // Before the first block: a worker that stopped in a block would end the kernels of all others half-way.
    try {
        ensure_lanes(launch.shape().threads_per_block);
    } catch (const std::exception& error) {  // no memory for stacks
        launch.note_absence(error.what());
        return;
    }
    // The seam on this thread now counts for this launch. The pointers are empty again before `launch` may be
    // destroyed.
    launch_ = &launch;
    costs_ = {};
    current_costs = &costs_;
    current_recorder = launch.recorder();
    try {
        for (std::uint64_t block = 0; !launch.stopping() && (block = launch.take_block()) < launch.shape().blocks;) {
            begin_block(static_cast<std::uint32_t>(block));
            run_block();
        }
    } catch (const std::exception& error) {  // no memory for a report
        launch.fail(error.what());
    }
    current_costs = nullptr;
    current_recorder = nullptr;
    launch.add_costs(costs_);
    launch_ = nullptr;
}

/// Makes lanes with stacks, up to `count` of them. Those of a larger block before stay.
/// @throws std::exception  if memory is lacking
void block_runner::ensure_lanes(std::uint32_t count) {
    // Space first: after it, only the creation of a fiber can fail, which leaves the two lists equally long.
    lanes_.reserve(count);
    fibers_.reserve(count);
    while (lanes_.size() < count) {
        const auto thread = static_cast<std::uint32_t>(lanes_.size());
        fibers_.push_back(std::make_unique<lane_fiber>(thread));
        lanes_.push_back({this, &warps_[thread / warp_size], fibers_.back().get(), thread,
                          static_cast<int>(thread % warp_size), false});
    }
}

/// Puts all lanes of the block into the queue, in the order of their indices, at the begin of the kernel.
void block_runner::begin_block(std::uint32_t block) {
    block_ = block;
    live_ = launch_->shape().threads_per_block;
    rounds_ = 0;
    pause_ns_ = no_hint;
    work_before_ = 0;
    summands_ = 0;
    scheduler_.reset();
    backoff_.reset();
    for (std::uint32_t first = 0; first < live_; first += warp_size) {
        warps_[first / warp_size].reset(static_cast<int>(std::min<std::uint32_t>(warp_size, live_ - first)));
    }
    for (std::uint32_t thread = 0; thread < live_; ++thread) {
        lane& l = lanes_[thread];
        l.started = false;
        l.fiber->assign(&block_runner::lane_main, &l);
        scheduler_.add(thread);
    }
}

/// Runs the block until all lanes have ended, or the launch stops, by an error of this block or of another one.
void block_runner::run_block() {
    while (live_ != 0 && !launch_->stopping()) {
        // Lanes live, but none can run: all of them wait in collectives. Pausing lanes are in the queue, and `converge`
        // releases its lanes when no other lane of the warp can run.
        if (scheduler_.empty()) {
            launch_->fail(describe_stuck(warps(), block_));
            break;
        }
        if (scheduler_.begins_round_of_pauses()) {
            between_rounds();
        }
        lane& l = lanes_[scheduler_.next()];
        if ((l.group->paused() >> l.id & 1) != 0) {
            unpause_warp(*l.group);
        }
        run_lane(l);
    }
    if (live_ != 0) {
        unwind_lanes();
    }
}

/// Runs a lane until it waits or ends.
void block_runner::run_lane(lane& l) {
    l.started = true;
    current_lane = &l;
    l.fiber->resume();
    current_lane = nullptr;
}

/// Ends the pause of all pausing lanes of a warp, so that the next `converge` gathers them. They keep their places in
/// the queue.
void block_runner::unpause_warp(warp& of) {
    const lane_mask paused = of.paused();
    scheduler_.unpaused(static_cast<std::uint32_t>(std::popcount(paused)));
    for_each_lane(paused, [&](int id) { of.unpause(id); });
}

/// Lets other host threads run, because all lanes of this block that can run only pause.
void block_runner::between_rounds() {
    // Writes of this worker and ended lanes: if there were none since the last round, the block has only waited.
    const std::uint64_t work = writes_in(costs_) + (launch_->shape().threads_per_block - live_);
    backoff_.wait(work != std::exchange(work_before_, work), std::exchange(pause_ns_, no_hint));
    // Pausing lanes may wait in an endless loop for lanes that are stuck.
    if (++rounds_ % rounds_between_searches == 0 && any_stuck()) {
        launch_->fail(describe_stuck(warps(), block_));
    }
}

/// Lets every lane that has begun leave its kernel, so that its stack is empty for the next block. A resumed lane finds
/// that the launch stops, and throws `lane_stopped` (`suspend`). Lanes that have not begun never do.
void block_runner::unwind_lanes() {
    for (std::uint32_t thread = 0; thread < launch_->shape().threads_per_block; ++thread) {
        lane& l = lanes_[thread];
        if (l.started && (l.group->ended() >> l.id & 1) == 0) {
            run_lane(l);
        }
    }
}

void block_runner::lane_main(void* argument) noexcept {
    // An exception must not leave the fiber: nothing on its stack could catch it.
    lane& l = *static_cast<lane*>(argument);
    block_runner& runner = *l.runner;
    const auto report = [&](const char* what) {
        runner.launch_->fail(
            absl::StrFormat("block %d, thread %d: the kernel threw an exception: %s", runner.block_, l.thread, what));
    };
    try {
        runner.launch_->call_kernel(runner.position_of(l));
    } catch (const lane_stopped&) {  // the launch has recorded its error already
    } catch (const std::exception& error) {
        report(error.what());
    } catch (...) {
        report("not a std::exception");
    }
    runner.end(l);
}

/// Notes that a lane has left its kernel. Called on the lane's stack.
void block_runner::end(lane& l) {
    --live_;
    l.group->end(l.id);
    if (launch_->stopping()) {
        return;
    }
    if (l.group->waiting_for_ended() != 0) {
        launch_->fail(describe_early_end(*l.group, block_, l.thread));
    }
    // This lane may have been the last that could run in its warp.
    release_converging(*l.group);
}

std::uint64_t block_runner::meet(lane& l, const meeting& at, std::uint64_t operand, int source) {
    if (acts_alone()) {
        return operand;
    }
    // Before the lane arrives, so that a rejected call leaves the warp as it was, for the report.
    const refusal why = l.group->check(l.id, at, source);
    if (why != refusal::none) {
        fail_in_lane(describe_rejection(why, *l.group, at, source, block_, l.thread));
    }
    const lane_mask released = l.group->arrive(l.id, at, operand, source);
    if (released != 0) {
        ++costs_.collectives;
        record_meeting(*l.group, released);
        make_runnable(*l.group, released & ~(lane_mask{1} << l.id));  // the last lane to arrive continues at once
    } else {
        // Lanes in `converge` wait for the lanes that can run, of which this one is none now.
        release_converging(*l.group);
        suspend(l);
    }
    return l.group->result_of(l.id);
}

lane_mask block_runner::converge(lane& l, site where) {
    const lane_mask own = lane_mask{1} << l.id;
    if (acts_alone()) {
        return own;
    }
    l.group->arrive_at_converge(l.id, where);
    // The last lane that could run releases all of them, and continues without a switch.
    if (l.group->runnable() == 0) {
        make_runnable(*l.group, converge_by_site(*l.group) & ~own);
    } else {
        suspend(l);
    }
    return static_cast<lane_mask>(l.group->result_of(l.id));
}

void block_runner::pause(lane& l, std::uint32_t nanoseconds, site where) {
    if (acts_alone()) {
        return;
    }
    // The shortest hint of the round counts, because one sleep holds up all lanes of the block.
    ++costs_.pauses;
    pause_ns_ = std::min(pause_ns_, nanoseconds);
    // A pausing lane does not hold up a `converge`: it may wait for a lane that converges.
    l.group->pause(l.id, where);
    scheduler_.add_paused(l.thread);
    release_converging(*l.group);
    suspend(l);
}

// The last thread to arrive computes the sums. The next results replace no sum that a thread has yet to read: they
// need all threads, and a thread's own sum is in its own place.
block_sum block_runner::sum(lane& l, std::uint64_t value, site where) {
    const std::uint32_t threads = launch_->shape().threads_per_block;
    const std::uint64_t before = sums_made_;
    summed_[l.thread] = value;
    if (++summands_ == threads) {
        summands_ = 0;
        ++sums_made_;
        sum_of_all_ = 0;
        for (std::uint32_t i = 0; i < threads; ++i) {
            sum_of_all_ += std::exchange(summed_[i], sum_of_all_);
        }
    }
    while (sums_made_ == before) {
        if (acts_alone()) {
            return {0, value};
        }
        if (live_ != threads) {
            fail_in_lane(
                absl::StrFormat("block %d: a thread of the block has ended, and others wait for its value at "
                                "%s:%d",
                                block_, where.file, where.line));
        }
        pause(l, 0, where);
    }
    return {summed_[l.thread], sum_of_all_};
}

thread_position block_runner::position_of(const lane& l) const {
    const grid shape = launch_->shape();
    return {block_, l.thread, shape.threads_per_block, shape.blocks};
}

/// Returns to the scheduler until it runs the lane again. Throws `lane_stopped` if the launch has failed meanwhile.
void block_runner::suspend(lane& l) {
    l.fiber->suspend();
    if (launch_->stopping()) {
        throw lane_stopped{};
    }
}

/// Puts lanes of a warp, which `warp` has made runnable, into the queue.
void block_runner::make_runnable(const warp& of, lane_mask lanes) {
    // The place of the warp in the block gives the index of its first thread.
    const auto first = static_cast<std::uint32_t>(&of - warps_.data()) * warp_size;
    for_each_lane(lanes, [&](int id) { scheduler_.add(first + static_cast<std::uint32_t>(id)); });
}

/// Ends the waiting of the lanes in `converge` if no other lane of the warp can run. Every function that makes a lane
/// wait or end calls it; otherwise these lanes would wait for ever.
void block_runner::release_converging(warp& of) {
    if (of.runnable() == 0 && of.converging() != 0) {
        make_runnable(of, converge_by_site(of));
    }
}

/// Releases the lanes in `converge`, and records each group as a meeting. Returns the lanes released.
lane_mask block_runner::converge_by_site(warp& of) {
    const lane_mask released = of.converge_by_site();
    for (lane_mask rest = released; rest != 0 && current_recorder != nullptr;) {
        const auto group = static_cast<lane_mask>(of.result_of(std::countr_zero(rest)));
        record_meeting(of, group);
        rest &= ~group;
    }
    return released;
}

/// Records that lanes have met, if the launch is recorded: their next accesses get the same step.
void block_runner::record_meeting(const warp& of, lane_mask lanes) {
    if (current_recorder != nullptr) {
        const auto first = static_cast<std::uint32_t>(&of - warps_.data()) * warp_size;
        current_recorder->meet(position_of(lanes_[first]).global_warp(), lanes);
    }
}

/// Returns whether a destructor makes this call while an exception leaves the kernel. The lane must not wait then: the
/// exception's state belongs to the host thread, and another lane would find it there. The launch has failed, or fails
/// if the exception leaves the kernel. Throws `lane_stopped` if the launch stops and no exception is in flight.
bool block_runner::acts_alone() const {
    if (std::uncaught_exceptions() != 0) {
        return true;
    }
    if (launch_->stopping()) {
        throw lane_stopped{};
    }
    return false;
}

/// Fails the launch, and leaves the kernel of the calling lane.
void block_runner::fail_in_lane(std::string error) {
    launch_->fail(std::move(error));
    throw lane_stopped{};
}

/// Returns the warps of the current block; the array has room for the largest block.
std::span<const warp> block_runner::warps() const {
    return {warps_.data(), (launch_->shape().threads_per_block + warp_size - 1) / warp_size};
}

/// Returns whether any lane of the block can never continue. Cost: O(lanes^2) for each warp, hence seldom called.
bool block_runner::any_stuck() const {
    for (const warp& w : warps()) {
        if (w.stuck() != 0) {
            return true;
        }
    }
    return false;
}

}  // namespace orchard::simt::emulated
