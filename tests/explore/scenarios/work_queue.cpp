// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Lanes push elements and pop those of others. Each element that was pushed is popped once, complete, and the memory of
/// segments that are read goes back to the heap while others still use the queue.

#include <array>
#include <vector>

#include "absl/strings/str_format.h"
#include "device/containers/work_queue.cuh"
#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

/// An element whose copies are accesses to plain words.
struct queued {
    queued() { id.set(0); }
    explicit queued(std::uint64_t i) { id.set(i); }
    queued(const queued& from) { id.set(from.id.get()); }
    queued& operator=(const queued& from) {
        id.set(from.id.get());
        return *this;
    }
    simt::plain<std::uint64_t> id;
};

void run_work_queue(world& w) {
    // Without a second segment of the heap, chunks and pages of other sizes leave little.
    heap_world heap(w, {.segments = 2, .committed_at_start = 1, .extent = 1, .cache_target = w.s.pick(2)});
    using queue_ref = work_queue_ref<queued>;
    work_queue_state state{};
    // One place would be enough for few segments at once; a longer ring is never full here.
    std::array<queue_ref::ring_word, 16> ring{};
    w.s.name_words(&state, sizeof(state), "queue", 8);
    w.s.name_words(ring.data(), sizeof(ring), "ring", 8);
    const queue_ref queue(heap.ref, &state, 5, ring.data(), ring.size());
    std::vector<std::uint32_t> popped(1, 0);
    const auto note = [&](const queued& got) {
        const std::uint64_t id = got.id.get();
        heap.s.check(id != 0 && id < popped.size(), absl::StrFormat("an element %d, which nobody has pushed", id));
        heap.s.check(++popped[id] == 1, absl::StrFormat("the element %d for the second time", id));
    };
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        for (int i = 0; i < w.size.operations; ++i) {
            for (std::uint32_t pushes = 1 + w.s.pick(3); pushes != 0; --pushes) {
                popped.push_back(0);
                const std::uint64_t id = popped.size() - 1;
                heap.s.check(queue.push(queued(id)), "no memory, although the heap has enough");
            }
            queued got;
            for (std::uint32_t pops = w.s.pick(5); pops != 0 && queue.pop(got); --pops) {
                note(got);
            }
        }
    });
    if (!w.s.run()) {
        return;
    }
    w.s.add_kernel({{3}}, [&](simt::thread_position) {
        queued got;
        while (queue.pop(got)) {
            note(got);
        }
    });
    if (!w.s.run()) {
        return;
    }
    for (std::size_t id = 1; id < popped.size(); ++id) {
        w.s.check(popped[id] == 1, absl::StrFormat("the element %d is lost", id));
    }
    w.s.add_kernel({{1}}, [&](simt::thread_position) {
        std::uint64_t left = 0;
        for (const auto& word : ring) {
            left += word.load<simt::order::relaxed>() != 0 ? 1 : 0;
        }
        heap.s.check(left <= 1, "segments are kept that were read");
        queue.clear();
    });
    if (w.s.run() && heap.settle({class_of(static_cast<std::uint32_t>(queue_ref::segment_bytes_of(32)))})) {
        heap.check_empty();
    }
}

const registrar work_queue_scenario{{"work_queue",
                                     "Lanes pass elements to each other; segments that are read are freed meanwhile.",
                                     {{{3, 2}, {3}}, 6},
                                     run_work_queue}};

}  // namespace
}  // namespace orchard::explore
