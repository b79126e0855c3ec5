// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What is recorded of requests that fail.

#include "device/heap_state.cuh"

namespace orchard::device {

/// Keeps the first failure for the host, and counts it. Any lane, alone.
inline ORCHARD_NOINLINE void record_failure(const heap_view& h, failure_reason why, std::uint64_t bytes,
                                            std::uint32_t page_class) {
    h.add(counter::failed_allocations, 1);
    auto& f = h.state->failure;
    if (f.count.fetch_add<order::relaxed>(1) == 0) {
        const simt::thread_position at = simt::position();
        f.reason.store<order::relaxed>(static_cast<std::uint32_t>(why));
        f.bytes.store<order::relaxed>(bytes);
        f.size_class.store<order::relaxed>(page_class);
        f.block.store<order::relaxed>(at.block);
        f.thread.store<order::relaxed>(at.thread);
        f.time_ns.store<order::relaxed>(simt::clock_ns());
        f.ready.store<order::release>(1);
        if (h.failure_signal != nullptr) {
            h.failure_signal->store<order::release>(1);
        }
    }
}

/// The same for a lane that asked for a page, and was counted as one that gets one.
inline ORCHARD_NOINLINE void record_no_page(const heap_view& h, failure_reason why, std::uint64_t bytes,
                                            std::uint32_t page_class) {
    // Always so, which compilers do not see from every call.
    if (page_class < class_count) {
        h.state->pages[heap_view::own_shard()][page_class].nulls.fetch_add<order::relaxed>(1);
    }
    record_failure(h, why, bytes, page_class);
}

/// That, and null.
inline ORCHARD_NOINLINE void* refuse_page(const heap_view& h, failure_reason why, std::uint64_t bytes,
                                          std::uint32_t page_class) {
    record_no_page(h, why, bytes, page_class);
    return nullptr;
}

}  // namespace orchard::device
