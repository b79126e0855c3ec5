// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Tells the sanitizers that a thread switches from one stack to another. Without a sanitizer, all of it is empty.
///
/// The address sanitizer must know the bounds of the current stack: when an exception skips frames, it clears the marks
/// of all memory between the current frame and the end of the stack. With its checks of use after return, locals may
/// lie in a *fake stack*, other memory for each stack; a switch saves that of the stack left, and restores that of the
/// stack entered. The thread sanitizer keeps a list of the functions entered, which would mix those of several stacks;
/// it must take each stack for a thread of its own. A switch orders both sides for it (flags 0), so that it finds no
/// race between lanes of one block, but races between blocks.
///
/// Source: the interfaces `sanitizer/common_interface_defs.h` and `sanitizer/tsan_interface.h`.

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define ORCHARD_FIBERS_ASAN 1
#else
#define ORCHARD_FIBERS_ASAN 0
#endif
#if defined(__SANITIZE_THREAD__)
#define ORCHARD_FIBERS_TSAN 1
#else
#define ORCHARD_FIBERS_TSAN 0
#endif
#if ORCHARD_FIBERS_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if ORCHARD_FIBERS_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace orchard::simt::emulated {

/// True if stack frames are larger than usual because a sanitizer adds to them.
inline constexpr bool large_frames = ORCHARD_FIBERS_ASAN != 0 || ORCHARD_FIBERS_TSAN != 0;

/// The switches between one lane's stack and the stack of whichever thread resumes it. Each jump is announced before
/// (`to_...`, by the side that leaves) and confirmed after (`in_...`, by the side that arrives):
///
///     scheduler: to_lane()      | jump |  lane:      in_lane()
///     lane:      to_scheduler() | jump |  scheduler: in_scheduler()
///
/// The pairs may also be called without a jump, in order to act as the lane for a moment (at construction).
class stack_switch {
public:
    /// @param bottom lowest address of the lane's stack, of `size` bytes
    stack_switch([[maybe_unused]] const void* bottom, [[maybe_unused]] std::size_t size) {
#if ORCHARD_FIBERS_ASAN
        bottom_ = bottom;
        size_ = size;
#endif
#if ORCHARD_FIBERS_TSAN
        lane_ = __tsan_create_fiber(0);
#endif
    }
    stack_switch(const stack_switch&) = delete;
    stack_switch& operator=(const stack_switch&) = delete;

    /// Announces the jump from the scheduler to the lane. Call this on the scheduler's stack, directly before the jump.
    void to_lane() {
#if ORCHARD_FIBERS_ASAN
        __sanitizer_start_switch_fiber(&scheduler_fake_, bottom_, size_);
#endif
#if ORCHARD_FIBERS_TSAN
        scheduler_ = __tsan_get_current_fiber();
        __tsan_switch_to_fiber(lane_, 0);
#endif
    }
    /// Confirms the arrival on the lane's stack, and notes the bounds of the scheduler's: each `resume` may come from
    /// another thread.
    void in_lane() {
#if ORCHARD_FIBERS_ASAN
        __sanitizer_finish_switch_fiber(lane_fake_, &scheduler_bottom_, &scheduler_size_);
#endif
    }
    /// Announces the jump back. Call this on the lane's stack.
    void to_scheduler() {
#if ORCHARD_FIBERS_ASAN
        __sanitizer_start_switch_fiber(&lane_fake_, scheduler_bottom_, scheduler_size_);
#endif
#if ORCHARD_FIBERS_TSAN
        __tsan_switch_to_fiber(scheduler_, 0);
#endif
    }
    /// Confirms the arrival on the scheduler's stack.
    void in_scheduler() {
#if ORCHARD_FIBERS_ASAN
        __sanitizer_finish_switch_fiber(scheduler_fake_, nullptr, nullptr);
#endif
    }

    /// Call this instead of `to_scheduler` before the lane's last jump. Boost still returns from its own functions on
    /// the lane's stack afterwards. Their frames end where they began, and the lane's fake stack must outlive them.
    void to_scheduler_for_good() {
#if ORCHARD_FIBERS_ASAN
        __sanitizer_start_switch_fiber(&lane_fake_, scheduler_bottom_, scheduler_size_);
#endif
    }
    /// Call this instead of `in_scheduler` after the lane's last jump. It frees what the sanitizers hold for the lane.
    void in_scheduler_for_good() {
#if ORCHARD_FIBERS_ASAN
        __sanitizer_finish_switch_fiber(scheduler_fake_, nullptr, nullptr);
        // Only the current fake stack can be freed: act as the lane once more.
        to_lane();
        in_lane();
        __sanitizer_start_switch_fiber(nullptr, scheduler_bottom_, scheduler_size_);
        __sanitizer_finish_switch_fiber(scheduler_fake_, nullptr, nullptr);
        __asan_unpoison_memory_region(bottom_, size_);
#endif
#if ORCHARD_FIBERS_TSAN
        __tsan_switch_to_fiber(scheduler_, 0);
        __tsan_destroy_fiber(lane_);
#endif
    }

private:
#if ORCHARD_FIBERS_ASAN
    const void* bottom_ = nullptr;
    std::size_t size_ = 0;
    const void* scheduler_bottom_ = nullptr;
    std::size_t scheduler_size_ = 0;
    void* lane_fake_ = nullptr;  // the fake stack of each side, while the other runs
    void* scheduler_fake_ = nullptr;
#endif
#if ORCHARD_FIBERS_TSAN
    void* lane_ = nullptr;
    void* scheduler_ = nullptr;
#endif
};

}  // namespace orchard::simt::emulated
