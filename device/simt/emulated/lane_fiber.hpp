// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The stack that a lane runs on, and the switch between it and the scheduler. Knows nothing of lanes and warps.

#include <boost/context/fiber.hpp>
#include <cstddef>

#include "device/simt/emulated/stack_switch.hpp"

namespace orchard::simt::emulated {

/// Bytes that a lane can use of its stack.
inline constexpr std::size_t lane_stack_bytes = large_frames ? 256u << 10 : 64u << 10;

/// A mapping for one stack, with an inaccessible page below it, so that an overflow is a fault and not corruption.
class guarded_stack {
public:
    /// @param index of the stack among those used together; stacks of different index start at different cache sets
    /// @throws std::system_error when memory cannot be mapped; names the size
    explicit guarded_stack(unsigned index);
    ~guarded_stack();
    guarded_stack(const guarded_stack&) = delete;
    guarded_stack& operator=(const guarded_stack&) = delete;

    [[nodiscard]] const void* bottom() const;
    [[nodiscard]] std::size_t size() const { return usable_; }
    /// What Boost.Context needs to know: the stack's upper end and its size.
    [[nodiscard]] boost::context::stack_context context() const;

private:
    void* base_;          // of the mapping: the guard page comes first
    std::size_t mapped_;  // bytes, with the guard page
    std::size_t usable_;  // bytes from behind the guard page up to the stack's upper end
};

/// A fiber that runs one task after another on one stack, so that blocks reuse it: nothing is allocated after
/// construction. Belongs to one thread at a time, but may pass to another between tasks.
/// Cost: two jumps for `resume` and the `suspend` that answers it, some 10 ns without sanitizers.
class lane_fiber {
public:
    using task = void (*)(void* argument) noexcept;

    /// @throws std::system_error when the stack cannot be mapped
    explicit lane_fiber(unsigned index);
    /// Precondition: no task is half done.
    ~lane_fiber();
    lane_fiber(const lane_fiber&) = delete;
    lane_fiber& operator=(const lane_fiber&) = delete;

    /// Sets what the next `resume` begins. Precondition: no task is half done.
    void assign(task run, void* argument) {
        run_ = run;
        argument_ = argument;
    }
    /// Called by the scheduler: runs the task until it suspends or has returned.
    void resume();
    /// Called by the task, on the fiber's stack: goes back to the `resume` that it runs in.
    void suspend();

private:
    boost::context::fiber loop(boost::context::fiber&& from);

    guarded_stack stack_;
    stack_switch switch_;
    boost::context::fiber self_;       // where the task goes on; empty while it runs
    boost::context::fiber scheduler_;  // where `resume` was called; empty while it is not
    task run_ = nullptr;               // null tells the fiber to end
    void* argument_ = nullptr;
};

}  // namespace orchard::simt::emulated
