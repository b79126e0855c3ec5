// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The kernels of the runtime. Each is a function object around a function of `device/`.
///
///     kernel               blocks x threads         device code
///     retire_kernel        class_count x 32         retire_empty_slabs, one class a block
///     settle_kernel        1 x 32                   settle
///     quarantine_kernel    1 x 32                   empty_quarantine
///
/// They may run beside kernels of the application, and use the heap as those do.

#include "runtime/heap/detail_kernels.hpp"

#include "device/free_alone.cuh"
#include "device/guarded_free.cuh"
#include "device/small/small_path.cuh"
#include "runtime/heap/launch_status.hpp"

namespace orchard::detail {
namespace {

/// One warp for each class: retires the empty slabs of the class. The class is the number of the block, and each block
/// has one warp, so that all lanes are in the mask.
struct retire_kernel {
    device::heap_view heap;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        device::retire_empty_slabs(heap, 0xffffffffu, at.block);
    }
};

/// One warp: frees the blocks that the host has queued, drains the segment cache (if requested) and delivers responses
/// until no request is outstanding.
struct settle_kernel {
    device::heap_view heap;
    bool drain;

    ORCHARD_FN void operator()(simt::thread_position) const { device::settle(heap, 0xffffffffu, drain); }
};

/// One warp: frees the blocks in the quarantine of a hardened heap.
struct quarantine_kernel {
    device::heap_view heap;

    ORCHARD_FN void operator()(simt::thread_position) const { device::empty_quarantine(heap, 0xffffffffu); }
};

constexpr simt::grid one_warp{1, simt::warp_size};

}  // namespace

/// The list must have every kernel of this file: one that is loaded at its first launch may wait for a kernel that
/// waits for the heap.
absl::Status preload_own_kernels(const simt::executor& on) {
    absl::Status status = to_status(simt::preload<retire_kernel>(on));
    status.Update(to_status(simt::preload<settle_kernel>(on)));
    status.Update(to_status(simt::preload<quarantine_kernel>(on)));
    return status;
}

/// The kernels follow each other on the heap's stream: a retired slab is a segment in the segment cache, which the
/// second kernel returns to the host.
absl::Status run_trim(const simt::executor& on, const device::heap_view& view) {
    absl::Status status = to_status(simt::launch(on, simt::grid{class_count, simt::warp_size}, retire_kernel{view}));
    status.Update(to_status(simt::launch(on, one_warp, settle_kernel{view, true})));
    return status;
}

/// Without draining: the segment cache stays as it is, since only `trim` returns it.
absl::Status run_settle(const simt::executor& on, const device::heap_view& view) {
    return to_status(simt::launch(on, one_warp, settle_kernel{view, false}));
}

/// Returns when the kernel has ended, as every launch of the seam does.
absl::Status run_empty_quarantine(const simt::executor& on, const device::heap_view& view) {
    return view.quarantine_slots == 0 ? absl::OkStatus()
                                      : to_status(simt::launch(on, one_warp, quarantine_kernel{view}));
}

}  // namespace orchard::detail
