// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Lanes append to one list, alone and as groups, also when the heap has no memory for all of them. Each number below
/// the size is one thread's, which has written its element; nothing is lost, and nothing is left in the heap.

#include <vector>

#include "absl/strings/str_format.h"
#include "device/containers/array_list.cuh"
#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

/// Segments of 256 KiB, 512 KiB, 1 MiB, ...
struct listed {
    using records_itself = void;
    simt::plain<std::uint64_t> id;
    char rest[(8 << 10) - 8];
};
constexpr std::uint64_t listed_bytes = 32 * sizeof(listed);

void run_array_list(world& w) {
    const std::uint32_t segments = 1 + 3 * w.s.pick(2);
    heap_world heap(w, {.segments = segments, .committed_at_start = 1, .extent = 1, .cache_target = w.s.pick(2)});
    array_list_state state{};
    w.s.name_words(&state, sizeof(state), "list", 8);
    const array_list_ref<listed> list(heap.ref, &state, 5);
    std::uint64_t appended = 0;
    std::uint64_t next_id = 1;
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        for (int i = 0; i < w.size.operations; ++i) {
            const std::uint64_t count = 1 + w.s.pick(7);
            const std::uint64_t begin = list.grow(count);
            if (begin == list.npos) {
                continue;
            }
            appended += count;
            for (std::uint64_t k = begin; k < begin + count; ++k) {
                list[k].id.set(next_id++);
            }
        }
    });
    if (!w.s.run()) {
        return;
    }
    w.s.check(list.size() == appended,
              absl::StrFormat("%d elements, of which %d were appended", list.size(), appended));
    w.s.add_kernel({{2}}, [&](simt::thread_position at) {
        std::vector<bool> seen(next_id);
        list.for_each([&](std::uint64_t i, listed& element) {
            const std::uint64_t id = element.id.get();
            heap.s.check(id != 0 && id < next_id && !seen[id], absl::StrFormat("element %d is %d", i, id));
            seen[id] = true;
        });
        simt::sync(simt::converge());
        if (at.thread == 0) {
            list.clear();
        }
    });
    if (w.s.run() && heap.settle({class_of(listed_bytes), class_of(2 * listed_bytes)})) {
        heap.check_empty();
    }
}

const registrar array_list_scenario{{"array_list",
                                     "Lanes append to a list, also beyond the memory that there is.",
                                     {{{3, 2}, {3}}, 4},
                                     run_array_list}};

}  // namespace
}  // namespace orchard::explore
