// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The execution of blocks on the emulated device; see block_runner.hpp.

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

std::uint64_t writes_in(const costs& c) {
    return c.device_stores + c.device_atomics + c.host_words_written + c.host_atomics;
}

}  // namespace

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

void block_runner::ensure_lanes(std::uint32_t count) {
    lanes_.reserve(count);
    fibers_.reserve(count);
    while (lanes_.size() < count) {
        const auto thread = static_cast<std::uint32_t>(lanes_.size());
        fibers_.push_back(std::make_unique<lane_fiber>(thread));
        lanes_.push_back({this, &warps_[thread / warp_size], fibers_.back().get(), thread,
                          static_cast<int>(thread % warp_size), false});
    }
}

void block_runner::begin_block(std::uint32_t block) {
    block_ = block;
    live_ = launch_->shape().threads_per_block;
    rounds_ = 0;
    pause_ns_ = no_hint;
    work_before_ = 0;
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

void block_runner::run_block() {
    while (live_ != 0 && !launch_->stopping()) {
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

void block_runner::between_rounds() {
    const std::uint64_t work = writes_in(costs_) + (launch_->shape().threads_per_block - live_);
    backoff_.wait(work != std::exchange(work_before_, work), std::exchange(pause_ns_, no_hint));
    // Pausing lanes may wait in an endless loop for lanes that are stuck.
    if (++rounds_ % rounds_between_searches == 0 && any_stuck()) {
        launch_->fail(describe_stuck(warps(), block_));
    }
}

void block_runner::unwind_lanes() {
    for (std::uint32_t thread = 0; thread < launch_->shape().threads_per_block; ++thread) {
        lane& l = lanes_[thread];
        if (l.started && (l.group->ended() >> l.id & 1) == 0) {
            run_lane(l);
        }
    }
}

void block_runner::lane_main(void* argument) noexcept {
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

void block_runner::end(lane& l) {
    --live_;
    l.group->end(l.id);
    if (launch_->stopping()) {
        return;
    }
    if (l.group->waiting_for_ended() != 0) {
        launch_->fail(describe_early_end(*l.group, block_, l.thread));
    }
    release_converging(*l.group);
}

std::uint64_t block_runner::meet(lane& l, const meeting& at, std::uint64_t operand, int source) {
    if (acts_alone()) {
        return operand;
    }
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
    ++costs_.pauses;
    pause_ns_ = std::min(pause_ns_, nanoseconds);
    l.group->pause(l.id, where);
    scheduler_.add_paused(l.thread);
    release_converging(*l.group);
    suspend(l);
}

thread_position block_runner::position_of(const lane& l) const {
    const grid shape = launch_->shape();
    return {block_, l.thread, shape.threads_per_block, shape.blocks};
}

void block_runner::suspend(lane& l) {
    l.fiber->suspend();
    if (launch_->stopping()) {
        throw lane_stopped{};
    }
}

void block_runner::make_runnable(const warp& of, lane_mask lanes) {
    const auto first = static_cast<std::uint32_t>(&of - warps_.data()) * warp_size;
    for_each_lane(lanes, [&](int id) { scheduler_.add(first + static_cast<std::uint32_t>(id)); });
}

void block_runner::release_converging(warp& of) {
    if (of.runnable() == 0 && of.converging() != 0) {
        make_runnable(of, converge_by_site(of));
    }
}

lane_mask block_runner::converge_by_site(warp& of) {
    const lane_mask released = of.converge_by_site();
    for (lane_mask rest = released; rest != 0 && current_recorder != nullptr;) {
        const auto group = static_cast<lane_mask>(of.result_of(std::countr_zero(rest)));
        record_meeting(of, group);
        rest &= ~group;
    }
    return released;
}

/// Records that lanes have met.
void block_runner::record_meeting(const warp& of, lane_mask lanes) {
    if (current_recorder != nullptr) {
        const auto first = static_cast<std::uint32_t>(&of - warps_.data()) * warp_size;
        current_recorder->meet(position_of(lanes_[first]).global_warp(), lanes);
    }
}

/// Returns whether a destructor makes this call while an exception leaves the kernel. The lane must not wait then; the
/// launch has failed anyway.
bool block_runner::acts_alone() const {
    if (std::uncaught_exceptions() != 0) {
        return true;
    }
    if (launch_->stopping()) {
        throw lane_stopped{};
    }
    return false;
}

void block_runner::fail_in_lane(std::string error) {
    launch_->fail(std::move(error));
    throw lane_stopped{};
}

std::span<const warp> block_runner::warps() const {
    return {warps_.data(), (launch_->shape().threads_per_block + warp_size - 1) / warp_size};
}

bool block_runner::any_stuck() const {
    for (const warp& w : warps()) {
        if (w.stuck() != 0) {
            return true;
        }
    }
    return false;
}

}  // namespace orchard::simt::emulated
