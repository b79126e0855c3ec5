// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Stacks and fibers of lanes; see lane_fiber.hpp.

#include "device/simt/emulated/lane_fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <absl/strings/str_format.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace orchard::simt::emulated {

namespace {

/// Returns the size of the guard: one page, which is 64 KiB on some ARM machines.
std::size_t guard_bytes() {
    static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    return page;
}

// If all stacks began at a multiple of 64 KiB, they would share a few cache sets, and each switch would miss. 32 start
// points, five lines apart, spread the warm frames of a warp over the first-level cache.
constexpr std::size_t start_points = 32;
constexpr std::size_t start_point_bytes = 5 * 64;
constexpr std::size_t start_area_bytes = 12u << 10;
static_assert(start_points * start_point_bytes <= start_area_bytes);

/// Passes a stack with another owner to Boost.Context, which would otherwise allocate and free it. The `guarded_stack`
/// keeps it.
struct borrowed_stack {
    boost::context::stack_context context;
    boost::context::stack_context allocate() { return context; }
    void deallocate(boost::context::stack_context&) noexcept {}
};

/// Switches stacks; no other code does. Not inlined, so that the thread sanitizer's shadow call stack sees matching
/// entries and exits on both sides, however the code is optimized.
[[gnu::noinline]] void jump(boost::context::fiber& to) { to = std::move(to).resume(); }

}  // namespace

guarded_stack::guarded_stack(unsigned index)
    : base_{nullptr},
      mapped_{guard_bytes() + lane_stack_bytes + start_area_bytes},
      usable_{lane_stack_bytes + start_area_bytes - index % start_points * start_point_bytes} {
    // MAP_NORESERVE: thousands of stacks exist, of which each usually touches few pages.
    base_ = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK,
                   -1, 0);
    if (base_ == MAP_FAILED) {
        throw std::system_error(errno, std::generic_category(),
                                absl::StrFormat("cannot map %d bytes for the stack of an emulated lane", mapped_));
    }
    // Below the stack, which grows downwards. It divides the mapping into two for the operating system (`max_stacks` in
    // run_grid.cpp counts both).
    if (::mprotect(base_, guard_bytes(), PROT_NONE) != 0) {
        const int error = errno;
        ::munmap(base_, mapped_);
        throw std::system_error(error, std::generic_category(), "cannot protect the end of an emulated lane's stack");
    }
}

guarded_stack::~guarded_stack() { ::munmap(base_, mapped_); }

const void* guarded_stack::bottom() const { return static_cast<const char*>(base_) + guard_bytes(); }

boost::context::stack_context guarded_stack::context() const {
    // `usable_` is shorter by the start point, and with it the upper end is lower.
    boost::context::stack_context result;
    result.size = usable_;
    result.sp = static_cast<char*>(base_) + guard_bytes() + usable_;
    return result;
}

lane_fiber::lane_fiber(unsigned index) : stack_{index}, switch_{stack_.bottom(), stack_.size()} {
    // Boost's constructor already runs the fiber's first steps, on the lane's stack, and comes back. The sanitizers see
    // these steps as the lane's.
    switch_.to_lane();
    switch_.in_lane();
    self_ = boost::context::fiber(std::allocator_arg, borrowed_stack{stack_.context()},
                                  [this](boost::context::fiber&& from) { return loop(std::move(from)); });
    switch_.to_scheduler();
    switch_.in_scheduler();
}

lane_fiber::~lane_fiber() {
    // Lets `loop` return, so that Boost ends the fiber on its own stack. `stack_` is unmapped after that.
    run_ = nullptr;
    switch_.to_lane();
    jump(self_);
    switch_.in_scheduler_for_good();
}

void lane_fiber::resume() {
    switch_.to_lane();
    jump(self_);
    switch_.in_scheduler();
}

void lane_fiber::suspend() {
    switch_.to_scheduler();
    jump(scheduler_);
    switch_.in_lane();
}

boost::context::fiber lane_fiber::loop(boost::context::fiber&& from) {
    // The first `resume` begins here, or the destructor if there was none. Every later jump arrives in `suspend`.
    scheduler_ = std::move(from);
    switch_.in_lane();
    while (run_ != nullptr) {
        run_(argument_);
        suspend();  // the next `resume` finds the next task, or none
    }
    switch_.to_scheduler_for_good();
    return std::move(scheduler_);
}

}  // namespace orchard::simt::emulated
