// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Lanes of several classes compete for the last segments. No lane frees memory. A null was therefore right only if in
/// the end all pages of the lane's class are held, and neither a segment nor an entirely unused slab is left. A null is
/// not judged if another warp took segments out of the segment cache meanwhile: on the way to the host they may be
/// missed (docs/protocol.md, "Null").

#include <absl/strings/str_cat.h>

#include <array>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

constexpr std::array<std::uint64_t, 3> last_segment_sizes{320 << 10, 384 << 10, 512 << 10};

struct outcome_of_class {
    std::vector<void*> held;
    std::uint32_t nulls = 0;  ///< those that are judged
};
using outcomes = std::array<outcome_of_class, last_segment_sizes.size()>;

void check_nulls(heap_world& heap, const outcomes& all) {
    std::set<std::uint64_t> slabs;
    std::array<std::set<std::uint64_t>, last_segment_sizes.size()> slabs_of;
    for (std::size_t i = 0; i < last_segment_sizes.size(); ++i) {
        for (void* const p : all[i].held) {
            const auto segment = static_cast<std::uint64_t>(static_cast<char*>(p) - heap.view.base) >> segment_shift;
            slabs.insert(segment);
            slabs_of[i].insert(segment);
        }
    }
    for (std::size_t i = 0; i < last_segment_sizes.size(); ++i) {
        const std::size_t pages =
            slabs_of[i].size() * class_pages(class_of(static_cast<std::uint32_t>(last_segment_sizes[i])));
        heap.s.check(all[i].nulls == 0 || all[i].held.size() == pages,
                     absl::StrCat("null, although ", pages - all[i].held.size(), " pages of the class were free"));
        heap.s.check(all[i].nulls == 0 || slabs.size() == heap.setup.segments,
                     absl::StrCat("null, although ", heap.setup.segments - slabs.size(), " segments were unused"));
    }
}

void run_last_segment(world& w) {
    // The group that reclaims may stand still for long while it retires a slab; other groups wait for it.
    constexpr std::uint64_t patience_ns = 100'000'000;
    const std::uint32_t segments = 1 + w.s.pick(3);
    heap_world heap(w, {.segments = segments,
                        .committed_at_start = w.s.pick(segments + 1),
                        .extent = 1,
                        .cache_target = w.s.pick(3),
                        .refill_batch = 1,
                        .reclaim_patience_ns = patience_ns});
    std::map<std::uint64_t, std::uint64_t> taken;  // how often a warp took segments out of the segment cache
    w.s.watch(&heap.view.state->cache_level, [&taken](const auto& a) {
        taken[simt::position().global_warp()] += !a.is_load && a.after < a.before ? 1 : 0;
    });
    const auto taken_by_others = [&taken] {
        const std::uint64_t own = simt::position().global_warp();
        std::uint64_t n = 0;
        for (const auto& [warp, times] : taken) {
            n += warp != own ? times : 0;
        }
        return n;
    };
    for (int round = 0; round < w.size.operations; ++round) {
        outcomes all;
        w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
            const std::uint32_t i = heap.s.pick(last_segment_sizes.size());
            const std::uint64_t taken_before = taken_by_others();
            if (void* const p = heap.take(last_segment_sizes[i]); p != nullptr) {
                all[i].held.push_back(p);
            } else {
                all[i].nulls += taken_by_others() == taken_before ? 1 : 0;
            }
        });
        if (!w.s.run()) {
            return;
        }
        check_nulls(heap, all);
        w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
            for (std::size_t i = 0; i < last_segment_sizes.size(); ++i) {
                while (!all[i].held.empty()) {
                    void* const p = all[i].held.back();
                    all[i].held.pop_back();
                    heap.give(p, last_segment_sizes[i]);
                }
            }
        });
        if (!w.s.run()) {
            return;
        }
    }
    if (heap.settle(
            {class_of(last_segment_sizes[0]), class_of(last_segment_sizes[1]), class_of(last_segment_sizes[2])})) {
        heap.check_empty();
    }
}

const registrar last_segment{
    {"last_segment", "Several classes compete for the last segments.", {{{3, 2}, {3}}, 2}, run_last_segment}};

}  // namespace
}  // namespace orchard::explore
