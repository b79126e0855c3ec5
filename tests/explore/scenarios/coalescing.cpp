// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Lanes allocate together and separately, pages of several classes at once. Groups are consistent (the engine rejects
/// a collective whose lanes disagree), every lane gets a page of its own, the counters add up, and a group that hits
/// costs one atomic of the bitmap.

#include <array>
#include <vector>

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

using device::counter;

constexpr std::array<std::uint64_t, 3> coalescing_sizes{1 << 10, 4 << 10, 24 << 10};
constexpr int hit_lanes = 6;

/// The lanes' own counts, to be compared with the heap's counts.
struct tally {
    std::uint64_t calls = 0;
    std::uint64_t bytes = 0;
    std::uint64_t frees = 0;
};

void ask(heap_world& heap, tally& done, int rounds) {
    std::array<void*, coalescing_sizes.size()> held{};
    for (int i = 0; i < rounds; ++i) {
        const std::uint32_t which = heap.s.pick(coalescing_sizes.size());
        if (heap.s.pick(4) == 0) {
            simt::pause(100);  // arrives late, perhaps as a group of its own
        }
        if (held[which] == nullptr) {
            held[which] = heap.take(coalescing_sizes[which]);
            heap.s.check(held[which] != nullptr, "no page, although the heap has room for all");
            ++done.calls;
            done.bytes += class_bytes(class_of(static_cast<std::uint32_t>(coalescing_sizes[which])));
        } else {
            heap.give(held[which], coalescing_sizes[which]);
            held[which] = nullptr;
            ++done.frees;
        }
    }
    for (std::uint32_t i = 0; i < held.size(); ++i) {
        if (held[i] != nullptr) {
            heap.give(held[i], coalescing_sizes[i]);
            ++done.frees;
        }
    }
}

void check_counters(heap_world& heap, const tally& done) {
    const request_counts counted = heap.requests();
    heap.s.check(counted.allocations == done.calls, "allocations were counted wrong");
    heap.s.check(counted.frees == done.frees, "frees were counted wrong");
    heap.s.check(counted.allocated_bytes == done.bytes, "bytes were counted wrong");
    heap.s.check(heap.sum(counter::failed_allocations) == 0, "a failure was counted although none was seen");
    heap.s.check(
        counted.multi_lane_groups <= counted.groups && counted.groups + counted.multi_lane_groups <= done.calls,
        "groups were counted wrong");
}

/// Makes sure that there is a slab of the first size.
void ask_once(heap_world& heap, tally& done) {
    void* const p = heap.take(coalescing_sizes[0]);
    heap.s.check(p != nullptr, "no page, although the heap has room for all");
    heap.give(p, coalescing_sizes[0]);
    ++done.calls;
    ++done.frees;
    done.bytes += class_bytes(class_of(static_cast<std::uint32_t>(coalescing_sizes[0])));
}

/// One warp allocates once, and no other warp does. If it was one group, that cost one atomic of the bitmap and one of
/// a counter; the frees cost at most one for each lane.
void check_costs(heap_world& heap, tally& done) {
    heap.s.add_kernel({{1}}, [&](simt::thread_position) { ask_once(heap, done); });
    if (!heap.s.run()) {
        return;
    }
    const std::uint64_t groups = heap.requests().groups;
    const std::uint64_t atomics = heap.s.result().lane_costs.device_atomics;
    std::vector<void*> pages(hit_lanes);
    heap.s.add_kernel({{hit_lanes}}, [&](simt::thread_position at) {
        pages[at.thread] = heap.ref.malloc(coalescing_sizes[0]);
        heap.s.check(pages[at.thread] != nullptr, "no page, although the heap has room for all");
    });
    if (!heap.s.run()) {
        return;
    }
    const std::uint64_t after = heap.s.result().lane_costs.device_atomics;
    done.calls += hit_lanes;
    done.bytes += hit_lanes * class_bytes(class_of(static_cast<std::uint32_t>(coalescing_sizes[0])));
    heap.s.check(heap.requests().groups - groups != 1 || after - atomics == 1 + 1,
                 "a group that hits costs more than one atomic of the bitmap");
    heap.s.add_kernel({{hit_lanes}}, [&](simt::thread_position at) { heap.ref.free(pages[at.thread]); });
    if (heap.s.run()) {
        done.frees += hit_lanes;
        heap.s.check(heap.s.result().lane_costs.device_atomics - after <= hit_lanes, "a free costs too much");
    }
}

void run_coalescing(world& w) {
    heap_world heap(w);
    tally done;
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) { ask(heap, done, w.size.operations); });
    if (!w.s.run()) {
        return;
    }
    check_counters(heap, done);
    check_costs(heap, done);
    const auto class_at = [](std::size_t i) { return class_of(static_cast<std::uint32_t>(coalescing_sizes[i])); };
    if (heap.settle({class_at(0), class_at(1), class_at(2)})) {
        check_counters(heap, done);
        heap.check_empty();
    }
}

const registrar coalescing{{"coalescing",
                            "Lanes ask together and apart, for pages of several classes at once.",
                            {{{4, 2}, {3}}, 2},
                            run_coalescing}};

}  // namespace
}  // namespace orchard::explore
