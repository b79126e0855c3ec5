// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The functions of a heap for blocks that the host allocates and frees. `host_blocks` cuts and queues; these functions
/// get memory from the service and check arguments.

#include "absl/strings/str_format.h"
#include "device/large/chunk_path.cuh"
#include "runtime/heap/detail_kernels.hpp"
#include "runtime/heap/heap_impl.hpp"

namespace orchard {

/// Called when the growth thread and the service exist. The two functions run jobs on the service's thread, since only
/// that may change the service's structures. The return of a grant is posted, so that it goes back even if the service
/// is late; the wait lets the memory be free when the call returns.
void heap::impl::make_host_blocks() {
    // Both functions capture this object, which does not move (heap_impl.hpp).
    host_blocks_ = std::make_unique<host_blocks>(
        view, *memory_, [this](std::uint32_t segments, leaf_count leaves) { return take_for_host(segments, leaves); },
        [this](const mailbox::grant& g) {
            thread_->post([&service = *service_, g] { service.give_back_from_host(g); });
            run("allocate_on_host", [] {}).IgnoreError();
        });
}

/// Returns a place for `segments` segments and a tail. Errors: ResourceExhausted, with the numbers, if there is none;
/// DeadlineExceeded after `request_timeout` for a commit. Several threads may call it at the same time. Cost: one job
/// on the service's thread if memory is free.
absl::StatusOr<mailbox::grant> heap::impl::take_for_host(std::uint32_t segments, leaf_count leaves) {
    // The segments that suffice in one piece: a tail may need one of its own.
    const std::uint32_t most = segments + (to_underlying(leaves) != 0 ? 1 : 0);
    // First memory that is there already: nothing is committed as long as a free place exists.
    std::optional<mailbox::grant> got;
    const auto take = [&] { return run("allocate_on_host", [&] { got = service_->take_for_host(segments, leaves); }); };
    if (absl::Status ran = take(); !ran.ok()) {
        return ran;
    }
    // Then memory that must be committed. It is tried again as long as commits succeed: other threads may take the
    // committed memory first, and memory that was committed ahead of demand may be all there is.
    bool failed = false;
    for (bool grows = true; !got && grows && !failed;) {
        const auto have = static_cast<std::uint32_t>(service_->counters().segments_committed.get());
        // As much more as the request needs in one piece, as long as the heap has addresses for it.
        grows = have + most <= view.segments;
        absl::Status status = grows ? grow("allocate_on_host", have + most, most, &failed) : absl::OkStatus();
        // Tried even after an error of `grow`: the memory may have come from elsewhere, such as a free on the device.
        status.Update(take());
        if (grows) {
            thread_->post([&service = *service_] { service.end_want(); });
        }
        if (!got && !status.ok()) {
            return status;
        }
    }
    if (got) {
        return *got;
    }
    // The numbers may differ from those at the time of the attempts; they tell the user which limit is near.
    const memory_levels now = levels();
    return absl::ResourceExhaustedError(absl::StrFormat(
        "no %d segments of 2 MiB and %d leaves of 64 KiB in one piece: %d bytes are in use of %d committed, the "
        "largest "
        "free piece is %d, the budgets are %d on the device and %d on the host; call trim(), free memory, or raise the "
        "option capacity",
        segments, to_underlying(leaves), now.in_use, now.committed, now.largest_free, now.device_budget,
        now.host_budget));
}

/// Returns OK, or FailedPrecondition if a published algorithm serves the heap: such a heap has no blocks of the host.
absl::Status heap::impl::check_host_blocks(const char* what) const {
    return walk_.algorithm == device::page_policy::default_walk
               ? absl::OkStatus()
               : absl::FailedPreconditionError(
                     absl::StrFormat("the host cannot %s blocks of a heap that %s serves; create it by heap::create",
                                     what, std::string(device::name_of(walk_.algorithm))));
}

/// `is_closed_` is relaxed: a call that comes at the same time as `close` may still succeed, and the service decides.
absl::StatusOr<void*> heap::impl::allocate_on_host(std::uint64_t bytes) {
    if (absl::Status s = check_host_blocks("allocate"); !s.ok()) {
        return s;
    }
    if (is_closed_.load(std::memory_order_relaxed)) {
        return absl::FailedPreconditionError("the heap was closed and gives no more memory; create another heap");
    }
    // As `malloc(0)` in a kernel.
    if (bytes == 0) {
        return nullptr;
    }
    if (view.is_hardened()) {
        return absl::FailedPreconditionError(
            "a heap with the option hardened gives blocks to kernels alone, since the host writes no guards; allocate "
            "in "
            "a kernel, or set hardened to off (ORCHARD_HARDENED, --hardened)");
    }
    // Checked here, so that a size that can never be served gets InvalidArgument and no wait for memory.
    const std::uint64_t most = std::uint64_t{view.max_slabs} << segment_shift;
    if (bytes > most || bytes > device::max_chunk_bytes) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "cannot allocate %d bytes in one piece: this heap has at most %d; ask for less, or raise the "
            "option capacity",
            bytes, most));
    }
    auto block = host_blocks_->allocate(bytes);
    if (block.ok() && trace_ != nullptr) {
        const std::uint64_t offset = view.offset_of(*block);
        if (absl::Status s = trace_->note_host_block(event_kind::block_allocated, offset, bytes); !s.ok()) {
            host_blocks_->free(*block).IgnoreError();
            return s;
        }
    }
    return block;
}

/// Null is checked after the algorithm, so that a wrong call is reported with any argument.
absl::Status heap::impl::free_on_host(void* p) {
    absl::Status s = check_host_blocks("free");
    if (s.ok() && p != nullptr && trace_ != nullptr && view.owns(p)) {
        s = trace_->note_host_block(event_kind::block_freed, view.offset_of(p), 0);
    }
    return !s.ok() || p == nullptr ? s : host_blocks_->free(p);
}

/// Waits until no request is outstanding and every block that the host has queued is freed. The ring may be too short
/// for the queue, so that flushing and the kernel that takes frees alternate until the queue is empty. Errors: the
/// device's own.
absl::Status heap::impl::settle() {
    for (;;) {
        const auto waiting = host_blocks_->flush();
        absl::Status s = waiting.ok() ? detail::run_settle(own_executor(), view) : waiting.status();
        if (!s.ok() || *waiting == 0) {
            return s;
        }
    }
}

}  // namespace orchard
