// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Lanes record failures while the host reads them. A record that the host reads belongs to one failure, every failure
/// is counted once, and a failure after all others is the newest.

#include "device/state/failures.cuh"
#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

/// Few, so that lanes meet.
constexpr std::uint32_t reasons = 2;

/// Returns the size that a lane requests in one round; other lanes and other rounds never request the same.
std::uint64_t bytes_of(std::uint32_t block, std::uint32_t thread, std::uint32_t round) {
    return (block + 1) * 10'000 + thread * 100 + round;
}

failure_reason reason_of(std::uint64_t bytes) { return static_cast<failure_reason>(1 + bytes % reasons); }

void fail(heap_world& heap, simt::thread_position at, std::uint32_t round) {
    const std::uint64_t bytes = bytes_of(at.block, at.thread, round);
    device::record_failure(heap.view, reason_of(bytes), bytes, static_cast<std::uint32_t>(bytes % 7));
}

void check_whole(heap_world& heap, const std::optional<device::recorded_failure>& r, bool of_this_reason) {
    if (!r) {
        return;
    }
    const bool whole = r->bytes == bytes_of(r->at.block, r->at.thread, static_cast<std::uint32_t>(r->bytes % 100)) &&
                       r->page_class == r->bytes % 7 && r->reason == reason_of(r->bytes);
    heap.s.check(whole && of_this_reason, "a record is of two failures");
}

/// The host's side, played by a lane that does nothing else.
void read_as_host(heap_world& heap, int looks) {
    for (int i = 0; i < looks; ++i) {
        const auto why = static_cast<failure_reason>(1 + heap.s.pick(reasons));
        const auto newest = heap.view.failures->newest_of(why);
        check_whole(heap, newest, !newest || newest->reason == why);
        check_whole(heap, heap.view.failures->first.read(), true);
    }
}

void run_failure_records(world& w) {
    heap_world heap(w);
    std::uint64_t failed = 0;
    w.s.add_kernel({{1}}, [&](simt::thread_position) { read_as_host(heap, 8 * w.size.operations); });
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position at) {
        for (int i = 0; i < w.size.operations; ++i) {
            fail(heap, at, static_cast<std::uint32_t>(i));
            ++failed;
        }
    });
    if (!w.s.run()) {
        return;
    }
    w.s.check(heap.failures() == failed && heap.sum(device::counter::failed_allocations) == failed,
              "a failure was counted twice, or not at all");
    w.s.check(heap.view.failures->first.read().has_value(), "the first failure was not recorded");
    w.s.add_kernel({{1}}, [&](simt::thread_position at) { fail(heap, at, 99); });
    if (w.s.run()) {
        const std::uint64_t last = bytes_of(0, 0, 99);
        const auto newest = heap.view.failures->newest_of(reason_of(last));
        w.s.check(newest && newest->bytes == last, "the newest failure is not that which came last");
    }
}

const registrar failure_records{{"failure_records",
                                 "Lanes record failures, which the host reads meanwhile.",
                                 {{{3, 2}, {3}}, 3},
                                 run_failure_records}};

}  // namespace
}  // namespace orchard::explore
