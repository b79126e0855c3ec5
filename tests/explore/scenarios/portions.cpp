// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Chunks with tails in a heap of few segments. Segments become segments of portions and cease to be; tails come from
/// the segment cache or from the service, even after the segments that they followed before. Each lane leaves its block
/// on a pile, from which it or another lane takes one and frees it.

#include <array>
#include <vector>

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

using pile_word = simt::device_word<std::uint64_t>;

/// Tails alone, tails after segments, whole segments, and pages.
constexpr std::array<std::uint64_t, 7> portions_sizes{
    9 * big_page_bytes, 10 * big_page_bytes - 300, segment_bytes + 9 * big_page_bytes, segment_bytes, 320 << 10,
    512 << 10,          23 * big_page_bytes};

struct left_block {
    void* p = nullptr;
    std::uint64_t bytes = 0;
};

void run_portions_in(world& w, bool unzeroed) {
    heap_world heap(w, {.segments = 6 + w.s.pick(8),
                        .committed_at_start = 4,
                        .extent = 3,
                        .cache_target = w.s.pick(3),
                        .portions_by = w.s.pick(2) == 0 ? portion_policy::packed : portion_policy::padded,
                        .unzeroed = unzeroed});
    // Places of a pile: 0 is empty; the rest counts what was left there.
    std::array<pile_word, 4> pile{};
    std::vector<left_block> left(1);
    w.s.name_words(pile.data(), sizeof(pile), "pile", sizeof(pile_word));
    std::uint32_t served = 0;
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        for (int i = 0; i < w.size.operations; ++i) {
            const std::uint64_t bytes = portions_sizes[heap.s.pick(portions_sizes.size())];
            std::uint64_t mine = 0;
            if (void* const p = heap.take(bytes); p != nullptr) {
                mine = left.size();
                left.push_back({p, bytes});
                ++served;
            }
            const std::uint64_t other = pile[heap.s.pick(pile.size())].exchange<simt::order::acq_rel>(mine);
            if (other != 0) {
                heap.give(left[other].p, left[other].bytes);
            }
        }
    });
    if (!w.s.run()) {
        return;
    }
    w.s.check(served != 0, "no group got memory");
    w.s.add_kernel({{static_cast<int>(pile.size())}}, [&](simt::thread_position at) {
        if (const std::uint64_t last = pile[at.thread].exchange<simt::order::acq_rel>(0); last != 0) {
            heap.give(left[last].p, left[last].bytes);
        }
    });
    if (w.s.run() && heap.settle({class_of(portions_sizes[4]), class_of(portions_sizes[5])})) {
        heap.check_empty();
        w.s.check(heap.sum(device::counter::live_chunks) == 0, "a chunk is counted as alive");
    }
}

void run_portions(world& w) { run_portions_in(w, false); }
void run_unzeroed(world& w) { run_portions_in(w, true); }

const registrar portions{{"portions",
                          "Tails of chunks share segments, come back from the segment cache, and go back to the host.",
                          {{{3, 2}, {3}}, 2},
                          run_portions}};
const registrar unzeroed{{"portions_unzeroed",
                          "The same, where the metadata of segments holds anything at first.",
                          {{{3, 2}, {3}}, 2},
                          run_unzeroed}};

}  // namespace
}  // namespace orchard::explore
