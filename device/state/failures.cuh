// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Recording of failed requests in the records of failure_record.cuh. All of it is off the path of successful requests.
/// A lane whose request failed calls it alone, before the request returns null.

#include "device/state/event_writer.cuh"

namespace orchard::device {

/// Writes a record. No other lane may write it at the same time; the caller has the reason's turn, or writes the first
/// record of all. Cost: eight stores to host memory and a fence.
///
/// The fields must not become visible before `begun`: a reader could otherwise see the new fields between the old
/// `begun` and `ended`, which are equal.
inline ORCHARD_NOINLINE void write_failure(failure_record& to, std::uint64_t number, failure_reason why,
                                           std::uint64_t bytes, std::uint32_t page_class) {
    const simt::thread_position at = simt::position();
    to.begun.store<order::relaxed>(number);
    if (!simt::mutation::is(fault::record_fence)) {
        simt::fence<simt::scope::system>();  // pairs with the fence in `failure_record::read`
    }
    to.reason.store<simt::store_after_fence>(static_cast<std::uint32_t>(why));
    to.bytes.store<simt::store_after_fence>(bytes);
    to.page_class.store<simt::store_after_fence>(page_class);
    to.block.store<simt::store_after_fence>(at.block);
    to.thread.store<simt::store_after_fence>(at.thread);
    to.time_ns.store<simt::store_after_fence>(simt::clock_ns());
    to.ended.store<order::release>(number);  // pairs with `failure_record::read`
}

/// Counts a failure, and records it for the host as the newest one of its reason. If another lane is recording a
/// failure of that reason, this one is only counted; the other is just as recent. One lane calls it alone. It never
/// waits. Cost: two atomics, one of them without a used result, a load; if it records, an atomic and `write_failure`.
///
/// The acquire and the release of `turn` order the stores of two lanes to one record. Without them, the stores of the
/// former writer could arrive among those of the next.
inline ORCHARD_NOINLINE void record_failure(const heap_view& h, failure_reason why, std::uint64_t bytes,
                                            std::uint32_t page_class) {
    if (h.reports_notes()) {
        note_event(h, device_event::shortage, bytes, static_cast<std::uint32_t>(why));
    }
    h.add(counter::failed_allocations, 1);
    failure_counts& counts = h.state->failure;
    const auto reason = static_cast<std::uint32_t>(why);
    const std::uint64_t number = counts.of_reason[reason].fetch_add<order::relaxed>(1) + 1;
    if (h.failures == nullptr) {
        return;
    }
    // Only the first failure of a reason can be the first of all, so that later ones skip the atomic on `any`.
    if (number == 1 && counts.any.exchange<order::relaxed>(1) == 0) {
        write_failure(h.failures->first, number, why, bytes, page_class);
    }
    std::uint32_t turn = counts.turn[reason].load<order::relaxed>();
    // Pairs with the release below by the lane that wrote the previous record.
    const bool is_free = turn % 2 == 0 || simt::mutation::is(fault::record_turn);
    if (is_free && counts.turn[reason].compare_exchange<order::acquire>(turn, turn + 1)) {
        write_failure(h.failures->newest[reason][turn / 2 % 2], number, why, bytes, page_class);
        counts.turn[reason].store<order::release>(turn + 2);  // pairs with the acquire above
    }
}

/// The same for a lane that asked for a page. Such a lane was counted as one that gets a page (`page_counts`); this
/// counts the exception. Cost: one more atomic, whose result is not used.
inline ORCHARD_NOINLINE void record_no_page(const heap_view& h, failure_reason why, std::uint64_t bytes,
                                            std::uint32_t page_class) {
    // Always true, but compilers do not see that at every call.
    if (page_class < class_count) {
        h.state->pages[heap_view::own_shard()][page_class].nulls.fetch_add<order::relaxed>(1);
    }
    record_failure(h, why, bytes, page_class);
}

/// Records the failure as `record_no_page`, and returns null.
inline ORCHARD_NOINLINE void* fail_page(const heap_view& h, failure_reason why, std::uint64_t bytes,
                                        std::uint32_t page_class) {
    record_no_page(h, why, bytes, page_class);
    return nullptr;
}

/// Counts an invalid free, and notes the first such address. One lane calls it alone.
/// Cost: two atomics, one of them without a used result.
inline ORCHARD_NOINLINE void record_invalid_free(const heap_view& h, const void* p) {
    h.add(counter::invalid_frees, 1);
    std::uint64_t expected = 0;
    h.state->failure.first_invalid_free.compare_exchange<order::relaxed>(expected, reinterpret_cast<std::uintptr_t>(p));
}

}  // namespace orchard::device
