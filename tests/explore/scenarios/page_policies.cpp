// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Heaps whose policy is one of the published walks: blocks claimed and freed by all lanes; slabs that are added when
/// they are full, retired and added again; a heap of too few segments, where slabs of one class are retired for the
/// other during the walks; and a heap of one slab, where null is right only if all of it is held.

#include <algorithm>
#include <array>
#include <vector>

#include "tests/explore/heap_world.hpp"
#include "tests/support/any_published_ref.hpp"

namespace orchard::explore {
namespace {

using device::page_policy;

constexpr std::array<std::uint64_t, 2> page_policies_sizes{256 << 10, 512 << 10};  // eight and four pages a slab
constexpr std::uint32_t unit_bytes = 8192;                                         // 32 and 64 units
constexpr std::array<page_policy, 6> policies{page_policy::rw,   page_policy::rw_bm32,     page_policy::rw_bm64,
                                              page_policy::corw, page_policy::corw_locked, page_policy::rw_malloc};

/// A heap and the data that its policy needs.
class policy_world {
public:
    policy_world(world& w, page_policy p, const heap_setup& setup)
        : extra_{std::size_t{setup.segments} * 4096}, heap{w, setup} {
        device::published_view& v = heap.view;
        v.policy = p;
        v.grown = extra_.place<simt::device_word<std::uint32_t>>(class_count);
        v.unit_class = class_of(unit_bytes);
        const std::size_t words = std::size_t{setup.segments} * class_words(v.unit_class);
        if (p == page_policy::corw_locked) {
            v.locks = extra_.place<simt::device_word<std::uint32_t>>(setup.segments * device::lock_words);
        } else if (p == page_policy::rw_malloc) {
            v.begins = extra_.place<simt::device_word<std::uint64_t>>(words);
            v.ends = extra_.place<simt::device_word<std::uint64_t>>(words);
        }
    }
    void* take(std::uint64_t bytes) {
        void* const p = test::any_published_ref(heap.view).malloc(bytes);
        if (p != nullptr) {
            heap.mark(p, bytes);
        }
        return p;
    }
    void give(void* p, std::uint64_t bytes) {
        heap.unmark(p, bytes);
        test::any_published_ref(heap.view).free(p);
    }
    bool settle() {
        return heap.view.policy == page_policy::rw_malloc
                   ? heap.settle({heap.view.unit_class})
                   : heap.settle({class_of(page_policies_sizes[0]), class_of(page_policies_sizes[1])});
    }

private:
    arena extra_;

public:
    heap_world heap;
};

/// If other lanes retire slabs meanwhile, all pages of such a slab are claimed for a moment. Null may then occur
/// although there is room: in a heap that is `short_of_segments`.
void use(policy_world& w, int rounds, bool short_of_segments) {
    for (int i = 0; i < rounds; ++i) {
        const std::uint64_t bytes = page_policies_sizes[w.heap.s.pick(page_policies_sizes.size())];
        if (void* const p = w.take(bytes); p != nullptr) {
            w.give(p, bytes);
        } else {
            w.heap.s.check(short_of_segments, "no page, although the heap has room for all");
        }
    }
}

/// Every lane allocates a page of the only slab; no page is freed before all lanes have allocated.
void fill(world& w, policy_world& p) {
    const std::size_t pages = class_pages(class_of(static_cast<std::uint32_t>(page_policies_sizes[1])));
    std::vector<void*> held;
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        if (void* const block = p.take(page_policies_sizes[1]); block != nullptr) {
            held.push_back(block);
        }
    });
    if (!w.s.run()) {
        return;
    }
    // A run is claimed word by word, and returned if it cannot be claimed as a whole; other lanes see it taken for a
    // moment.
    if (p.heap.view.policy != page_policy::rw_malloc) {
        w.s.check(held.size() == std::min(pages, w.s.lanes().size()), "no page, although there were some free");
    }
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        while (!held.empty()) {
            void* const block = held.back();
            held.pop_back();
            p.give(block, page_policies_sizes[1]);
        }
    });
    (void)w.s.run();
}

void run_page_policies(world& w) {
    const page_policy policy = policies[w.s.pick(policies.size())];
    const auto segments = w.s.pick(3);  // 1: to be filled; 2 for two classes, so that slabs are retired during walks
    const bool full = segments == 1;
    heap_setup setup;
    if (segments != 0) {
        setup = {.segments = static_cast<std::uint32_t>(segments), .committed_at_start = 1, .cache_target = 0};
    }
    setup.unzeroed = w.s.pick(2) != 0;
    policy_world p(w, policy, setup);
    if (full) {
        fill(w, p);
    } else {
        w.s.add_kernel(w.size.blocks, [&](simt::thread_position) { use(p, w.size.operations, segments != 0); });
    }
    if (w.s.run() && p.settle()) {
        p.heap.check_empty();
    }
}

const registrar page_policies{{"page_policies",
                               "Pages and runs of units by each published walk, slabs come and go.",
                               {{{3, 2}, {3}}, 2},
                               run_page_policies}};

}  // namespace
}  // namespace orchard::explore
