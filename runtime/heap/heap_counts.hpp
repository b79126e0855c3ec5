// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Sums over the device's counters, computed from a copy of the heap's state.
///
///     counts [32]              copies of each counter: warp w adds to copy w modulo 32
///     pages  [32][class]       groups by their number of lanes, and nulls: all requests for pages
///
/// A group that asks for pages is counted in `pages` alone, by one atomic; one that asks for a chunk in `counts`.
/// `count_requests` adds both up.

#include <cstdint>

#include "device/state/heap_state.cuh"

namespace orchard {

/// Returns the total of one of the device's counters, from a copy of the state. The device keeps 32 copies of each
/// counter, so that warps seldom compete for one. The sum may wrap around below 0 for a moment if a counter decreases
/// as well, since the copies are read one by one.
inline std::uint64_t sum_of(const device::heap_state& state, device::counter c) {
    std::uint64_t total = 0;
    for (const auto& counts : state.counts) {
        total += counts.value[static_cast<int>(c)].load<simt::order::relaxed>();
    }
    return total;
}

/// The requests of kernels to one page class so far.
struct class_requests {
    std::uint64_t lanes = 0;  ///< lanes that got a page
    std::uint64_t nulls = 0;  ///< lanes that got null
    std::uint64_t groups = 0;
    std::uint64_t multi_lane_groups = 0;
};

/// Returns the requests to one page class, summed over the copies. The device counts groups by their number of lanes,
/// with one atomic for each group; lanes follow from that:
///
///     groups[0] = 5, groups[31] = 10     5 groups of one lane and 10 of 32: 15 groups, 10 of several lanes, 325 lanes
///
/// A lane that got null was counted in its group and once more in `nulls`.
inline class_requests count_class_requests(const device::heap_state& state, std::uint32_t page_class) {
    class_requests r;
    for (const auto& shard : state.pages) {
        const device::page_counts& counts = shard[page_class];
        for (std::uint32_t n = 1; n <= simt::warp_size; ++n) {
            const std::uint64_t groups = counts.groups[n - 1].load<simt::order::relaxed>();
            r.lanes += n * groups;
            r.groups += groups;
            r.multi_lane_groups += n > 1 ? groups : 0;
        }
        r.nulls += counts.nulls.load<simt::order::relaxed>();
    }
    // A copy that is made while kernels run may contain a group's nulls but not yet the group.
    r.lanes -= r.nulls < r.lanes ? r.nulls : r.lanes;
    return r;
}

/// All requests and blocks so far, pages and chunks together.
struct request_counts {
    std::uint64_t allocations = 0;
    std::uint64_t allocated_bytes = 0;
    std::uint64_t groups = 0;
    std::uint64_t multi_lane_groups = 0;
    std::uint64_t frees = 0;
};

/// Returns the sum over all classes, and of chunks. Frees of pages are not counted on the device, so that `free` needs
/// one atomic less; they are the pages handed out less those in use.
/// @param pages_in_use  pages that are allocated now; all other pages that were handed out have been freed
inline request_counts count_requests(const device::heap_state& state, std::uint64_t pages_in_use) {
    using device::counter;
    request_counts r{sum_of(state, counter::allocations), sum_of(state, counter::allocated_bytes),
                     sum_of(state, counter::groups), sum_of(state, counter::multi_lane_groups),
                     sum_of(state, counter::frees)};
    std::uint64_t pages = 0;
    for (std::uint32_t c = 0; c < class_count; ++c) {
        const class_requests of_class = count_class_requests(state, c);
        r.groups += of_class.groups;
        r.multi_lane_groups += of_class.multi_lane_groups;
        r.allocated_bytes += of_class.lanes * class_bytes(c);
        pages += of_class.lanes;
    }
    r.allocations += pages;
    // Pages in use exceed those handed out only because of claims by a running kernel, which sets bits before it
    // counts.
    r.frees += pages > pages_in_use ? pages - pages_in_use : 0;
    return r;
}

}  // namespace orchard
