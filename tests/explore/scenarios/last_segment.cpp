// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Lanes of several classes compete for the last segments. No lane frees memory. A null was therefore right only if in
/// the end all pages of the lane's class are held, and neither a segment nor an entirely unused slab is left. A null is
/// not judged if another warp took segments out of the segment cache meanwhile: on the way to the host they may be
/// missed (docs/protocol.md, "Null"). Nor is it if another warp has given a page back since: it had claimed the page by
/// an old hint, although the slab belongs to another class now.

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

constexpr std::array<std::uint64_t, 3> last_segment_sizes{320 << 10, 384 << 10, 512 << 10};

/// How often warps did something.
class counts_by_warp {
public:
    void add() { ++counts_[simt::position().global_warp()]; }
    /// Returns the count of all warps but one.
    [[nodiscard]] std::uint64_t without(std::uint64_t warp) const {
        std::uint64_t n = 0;
        for (const auto& [of, times] : counts_) {
            n += of != warp ? times : 0;
        }
        return n;
    }

private:
    std::map<std::uint64_t, std::uint64_t> counts_;
};

/// A null, and how many pages other warps had given back before.
struct seen_null {
    std::uint64_t warp;
    std::uint64_t given_back;
};

struct outcome_of_class {
    std::vector<void*> held;
    std::vector<seen_null> seen;
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
    counts_by_warp taken;  // segments, out of the segment cache
    w.s.watch(&heap.view.state->cache_level, [&taken](const auto& a) {
        if (!a.is_load && a.after < a.before) {
            taken.add();
        }
    });
    counts_by_warp given_back;  // pages; a slab that is retired has none in use afterwards
    for (std::uint32_t i = 0; i < segments; ++i) {
        w.s.watch(&heap.view.bitmap(i)[0], [&given_back](const auto& a) {
            if (!a.is_load && (a.before & ~a.after) != 0 && a.after != 0) {
                given_back.add();
            }
        });
    }
    for (int round = 0; round < w.size.operations; ++round) {
        outcomes all;
        w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
            const std::uint32_t i = heap.s.pick(last_segment_sizes.size());
            const std::uint64_t own = simt::position().global_warp();
            const std::uint64_t taken_before = taken.without(own);
            const std::uint64_t given_back_before = given_back.without(own);
            if (void* const p = heap.take(last_segment_sizes[i]); p != nullptr) {
                all[i].held.push_back(p);
            } else if (taken.without(own) == taken_before) {
                all[i].seen.push_back({own, given_back_before});
            }
        });
        if (!w.s.run()) {
            return;
        }
        for (outcome_of_class& of : all) {
            of.nulls = static_cast<std::uint32_t>(std::count_if(of.seen.begin(), of.seen.end(), [&](seen_null n) {
                return given_back.without(n.warp) == n.given_back;
            }));
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
