// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A commit does not end, as if another call of the process delayed the driver. Every request gets free memory, or null
/// with the reason `commit_blocked`, in time. Then the commit ends, all of the memory can be allocated again, and
/// nothing was lost.

#include "absl/strings/str_format.h"
#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

constexpr std::uint64_t timeout_ns = 500'000;
constexpr std::uint64_t blocked_page = 256 << 10;
constexpr std::uint64_t portion = 600 << 10;

/// Allocates a block, uses it, and frees it, or gets null because nothing can be committed; in time.
void use(heap_world& heap, std::uint64_t bytes) {
    const std::uint64_t began = simt::clock_ns();
    void* const p = heap.take(bytes);
    const std::uint64_t waited = simt::clock_ns() - began;
    // One deadline for the request itself, one for a group of its warp that asked before, and one more because the
    // simulation stretches pauses.
    heap.s.check(waited <= timeout_ns * 3 + heap.s.stood_still_ns(),
                 absl::StrFormat("a request waited for %d ns, longer than three times its deadline", waited));
    if (p != nullptr) {
        heap.give(p, bytes);
    }
}

void run_blocked(world& w, bool unzeroed) {
    heap_world heap(w, {.segments = 16,
                        .committed_at_start = w.s.pick(4),
                        .extent = 2,
                        .ahead = w.s.pick(2),
                        .cache_target = w.s.pick(3),
                        .timeout_ns = timeout_ns,
                        .unzeroed = unzeroed});
    heap.memory.commit_ns = 2'000;
    heap.memory.commits_before_block = static_cast<int>(w.s.pick(3));
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position at) {
        for (int i = 0; i < w.size.operations; ++i) {
            const std::uint64_t large = w.s.pick(2) == 0 ? 3 * segment_bytes : portion;
            use(heap, (at.global_thread() + static_cast<std::uint64_t>(i)) % 2 == 0 ? blocked_page : large);
        }
    });
    if (!w.s.run()) {
        return;
    }
    const auto first = heap.first_failure();
    // The service may have stood still too.
    w.s.check(first == failure_reason::none || first == failure_reason::commit_blocked ||
                  first == failure_reason::service_not_responding,
              "a request failed for no good reason");
    heap.memory.is_blocked = false;
    heap.memory.commits_before_block = -1;  // even if no commit has been made so far
    // The following requests must complete, however long actors stand still.
    heap.view.mailbox.timeout_ns = 1'000'000'000;
    heap.ref = heap_ref(heap.view);
    w.s.add_kernel({{1}}, [&](simt::thread_position) {
        while (heap.grower.is_blocked(0)) {
            simt::pause(50'000);
        }
        void* p = heap.take(3 * segment_bytes);
        for (int i = 0; i < 20 && p == nullptr; ++i) {  // growth may stand still meanwhile
            simt::pause(1'000'000);
            p = heap.take(3 * segment_bytes);
        }
        heap.s.check(p != nullptr, absl::StrFormat("null, although nothing is blocked any more: %d failures, %d for a "
                                                   "blocked commit",
                                                   heap.failures(), heap.failures(failure_reason::commit_blocked)));
        heap.give(p, 3 * segment_bytes);
    });
    if (w.s.run() && heap.settle({class_of(blocked_page)})) {
        heap.check_empty();
    }
}

void run_blocked_commit(world& w) { run_blocked(w, false); }
void run_blocked_unzeroed(world& w) { run_blocked(w, true); }

const registrar blocked_commit_unzeroed{{"blocked_commit_unzeroed",
                                         "The same, where the metadata of segments holds anything at first.",
                                         {{{3, 2}, {2}}, 2},
                                         run_blocked_unzeroed}};
const registrar blocked_commit{
    {"blocked_commit",
     "A commit does not end: requests get null at their deadline, those behind them at once.",
     {{{3, 2}, {2}}, 2},
     run_blocked_commit}};

}  // namespace
}  // namespace orchard::explore
