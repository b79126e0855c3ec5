// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Lanes push elements and pop those of others. Each element that was pushed is popped once, complete, and the memory
/// of segments that are read goes back to the heap while others still use the queue.

#include <array>
#include <vector>

#include "absl/strings/str_format.h"
#include "device/containers/work_queue.cuh"
#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

/// An element whose accesses in the heap, but not those on stacks, are accesses to a plain word.
struct queued {
    queued() = default;
    explicit queued(std::uint64_t id) : id_{id} {}
    queued(const queued& from) { set(from.get()); }
    queued& operator=(const queued& from) {
        set(from.get());
        return *this;
    }
    [[nodiscard]] std::uint64_t get() const {
        return is_shared() ? reinterpret_cast<const simt::plain<std::uint64_t>*>(&id_)->get() : id_;
    }

    /// The heap of the simulation that runs on this thread.
    static inline thread_local const heap_world* heap = nullptr;

private:
    void set(std::uint64_t id) {
        if (is_shared()) {
            reinterpret_cast<simt::plain<std::uint64_t>*>(&id_)->set(id);
        } else {
            id_ = id;
        }
    }
    [[nodiscard]] bool is_shared() const { return heap->ref.owns(this); }

    std::uint64_t id_ = 0;
};

void run_work_queue(world& w) {
    // Without a second segment of the heap, chunks and pages of other sizes leave little.
    heap_world heap(w, {.segments = 2, .committed_at_start = 1, .extent = 1, .cache_target = w.s.pick(2)});
    queued::heap = &heap;
    using queue_ref = work_queue_ref<queued>;
    work_queue_state state{};
    // One place would be enough for few segments at once; a longer ring is never full here.
    std::array<queue_ref::ring_word, 16> ring{};
    w.s.name_words(&state, sizeof(state), "queue", 8);
    w.s.name_words(ring.data(), sizeof(ring), "ring", 8);
    const queue_ref queue(heap.ref, &state, 6, ring.data(), ring.size());
    std::vector<std::uint32_t> popped(1, 0);
    const auto note = [&](const queued& got) {
        const std::uint64_t id = got.get();
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
    if (w.s.run() && heap.settle({class_of(static_cast<std::uint32_t>(queue_ref::segment_bytes_of(64)))})) {
        heap.check_empty();
    }
}

const registrar work_queue_scenario{{"work_queue",
                                     "Lanes pass elements to each other; segments that are read are freed meanwhile.",
                                     {{{3, 2}, {3}}, 8},
                                     run_work_queue}};

}  // namespace
}  // namespace orchard::explore
