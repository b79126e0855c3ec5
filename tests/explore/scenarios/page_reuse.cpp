// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The litmus test of reuse: few pages, and more lanes that want one. An owner writes to its page until the last moment
/// before it frees it; the next owner, of another warp or block, writes it all, and never sees anything else again.

#include <array>

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

constexpr std::uint64_t page_bytes = 512 << 10;
constexpr std::array<std::uint64_t, 3> offsets{64, page_bytes / 2, page_bytes - 128};  // in addition to those of `mark`

using user_word = simt::plain<std::uint64_t>;

user_word& word_at(void* page, std::uint64_t offset) {
    return *reinterpret_cast<user_word*>(static_cast<char*>(page) + offset);
}

void own_for_a_while(heap_world& heap, std::uint64_t me) {
    void* const p = heap.take(page_bytes);
    if (p == nullptr) {
        return;  // all are held
    }
    for (const std::uint64_t offset : offsets) {
        word_at(p, offset).set(me);
    }
    simt::pause(heap.s.pick(3) * 100);
    for (const std::uint64_t offset : offsets) {
        heap.s.check(word_at(p, offset).get() == me, "a write of the page's last owner came late");
    }
    for (const std::uint64_t offset : offsets) {
        word_at(p, offset).set(~me);  // late
    }
    heap.give(p, page_bytes);
}

void run_page_reuse(world& w) {
    heap_world heap(w, {.segments = 1, .committed_at_start = 1, .cache_target = 0});
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position at) {
        for (int i = 0; i < w.size.operations; ++i) {
            own_for_a_while(heap, at.global_thread() * 100 + static_cast<std::uint64_t>(i));
        }
    });
    if (w.s.run() && heap.settle({class_of(page_bytes)})) {
        heap.check_empty();
    }
}

const registrar page_reuse{{"page_reuse",
                            "Few pages go from owner to owner; each owner writes to the last moment.",
                            {{{3, 2}, {3}}, 3},
                            run_page_reuse}};

}  // namespace
}  // namespace orchard::explore
