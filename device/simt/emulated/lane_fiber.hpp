// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The stack of a lane, and the switch between it and the scheduler. This code knows nothing of lanes and warps.

#include <boost/context/fiber.hpp>
#include <cstddef>

#include "device/simt/emulated/stack_switch.hpp"

namespace orchard::simt::emulated {

/// Bytes of its stack that a lane can use.
inline constexpr std::size_t lane_stack_bytes = large_frames ? 256u << 10 : 64u << 10;

/// A mapping for one stack, with an inaccessible page below it, so that an overflow faults instead of corrupting
/// memory.
class guarded_stack {
public:
    /// @param index  of the stack among those used together; stacks of different index begin at different cache sets
    ///   @throws std::system_error if memory cannot be mapped; names the size
    explicit guarded_stack(unsigned index);
    ~guarded_stack();
    guarded_stack(const guarded_stack&) = delete;
    guarded_stack& operator=(const guarded_stack&) = delete;

    [[nodiscard]] const void* bottom() const;
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
    boost::context::fiber loop(boost::context::fiber&& from);

    guarded_stack stack_;
    stack_switch switch_;
    boost::context::fiber self_;       // where the task continues; empty while it runs
    boost::context::fiber scheduler_;  // where `resume` was called; empty while the task does not run
    task run_ = nullptr;               // null: the fiber is to end
    void* argument_ = nullptr;
};

}  // namespace orchard::simt::emulated
