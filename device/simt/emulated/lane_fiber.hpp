// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The stack of a lane, and the switch between it and the scheduler. This code knows nothing of lanes and warps.
///
///     scheduler                      lane's stack
///     resume() ------ jump ------>   the task runs
///                                    the task calls suspend()
///     returns <------ jump -------
///     resume() ------ jump ------>   suspend() returns, the task continues
///                                    the task returns
///     returns <------ jump -------   `loop` waits for the next task

#include <boost/context/fiber.hpp>
#include <cstddef>

#include "device/simt/emulated/stack_switch.hpp"

namespace orchard::simt::emulated {

/// Bytes of its stack that a lane can use. Frames of sanitizers are larger, hence the larger stack for them. The
/// mappings are not reserved, so that a stack takes only the memory that its lane has touched.
inline constexpr std::size_t lane_stack_bytes = large_frames ? 256u << 10 : 64u << 10;

/// A mapping for one stack, with an inaccessible page below it, so that an overflow faults instead of corrupting
/// memory.
///
///     base_                                                              base_ + mapped_
///     | guard: one page | lane_stack_bytes        | start area, 12 KiB   |
///                       ^ bottom()                        ^ begin of the stack, which grows to the left
class guarded_stack {
public:
    /// @param index  of the stack among those used together; stacks of different index begin at different cache sets
    ///   @throws std::system_error if memory cannot be mapped; names the size
    explicit guarded_stack(unsigned index);
    ~guarded_stack();
    guarded_stack(const guarded_stack&) = delete;
    guarded_stack& operator=(const guarded_stack&) = delete;

    /// Returns the lowest address of the stack, above the guard.
    [[nodiscard]] const void* bottom() const;
    /// Returns the bytes from `bottom` to the begin of the stack; at least `lane_stack_bytes`.
    [[nodiscard]] std::size_t size() const { return usable_; }
    /// Returns what Boost.Context needs: the stack's upper end and its size.
    [[nodiscard]] boost::context::stack_context context() const;

private:
    void* base_;          // begin of the mapping, with the guard page
    std::size_t mapped_;  // bytes with the guard page
    std::size_t usable_;  // bytes from the end of the guard page to the stack's upper end
};

/// A fiber that runs one task after another on one stack, so that blocks reuse it; nothing is allocated after
/// construction. It belongs to one thread at a time, but may pass to another thread between tasks. Cost: two jumps for
/// `resume` and the matching `suspend`, about 10 ns without sanitizers.
class lane_fiber {
public:
    /// A task must not throw: no frame below it on its stack could catch the exception.
    using task = void (*)(void* argument) noexcept;

    /// @throws std::system_error if the stack cannot be mapped
    explicit lane_fiber(unsigned index);
    /// Precondition: no task is half done.
    ~lane_fiber();
    lane_fiber(const lane_fiber&) = delete;
    lane_fiber& operator=(const lane_fiber&) = delete;

    /// Sets the task that the next `resume` begins. Precondition: no task is half done.
    void assign(task run, void* argument) {
        run_ = run;
        argument_ = argument;
    }
    /// Runs the task until it suspends or returns. The scheduler calls it.
    void resume();
    /// Returns to the `resume` that runs the task. The task calls it, on the fiber's stack.
    void suspend();

private:
    /// The first function on the lane's stack: runs tasks until the fiber is to end. Returns the place to continue at.
    boost::context::fiber loop(boost::context::fiber&& from);

    guarded_stack stack_;
    stack_switch switch_;
    boost::context::fiber self_;       // where the task continues; empty while it runs
    boost::context::fiber scheduler_;  // where `resume` was called; empty while the task does not run
    task run_ = nullptr;               // null: the fiber is to end
    void* argument_ = nullptr;
};

}  // namespace orchard::simt::emulated
