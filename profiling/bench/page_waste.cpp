// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Arithmetic on size classes: what a heap can hold, and summaries of what heaps held.

#include "profiling/bench/page_waste.hpp"

#include <algorithm>

#include "uvm/geometry/geometry.hpp"
#include "uvm/geometry/size_classes.hpp"

namespace orchard::bench {

std::uint64_t heap_extent::bytes() const { return segments * segment_bytes + metadata_bytes; }

bool is_class_size(std::uint32_t bytes) { return class_bytes(class_of(bytes)) == bytes; }

std::uint64_t requests_that_fit(std::uint32_t bytes, const heap_extent& heap) {
    // A page never crosses a segment's end, so that each segment holds a whole number of pages.
    return heap.segments * class_pages(class_of(bytes));
}

double utilisation_percent(std::uint32_t bytes, std::uint64_t requests, const heap_extent& heap) {
    // The bytes that were requested, not those of the pages: rounding up counts as loss.
    return 100 * static_cast<double>(requests * bytes) / static_cast<double>(heap.bytes());
}

utilisation_summary summarise(std::span<const size_utilisation> sizes) {
    utilisation_summary s;
    for (const size_utilisation& one : sizes) {
        // Less, not less or equal: of sizes with the same share, the first one is named.
        if (s.sizes == 0 || one.percent < s.worst_percent) {
            s.worst_percent = one.percent;
            s.worst_at_bytes = one.bytes;
        }
        s.reachable_worst_percent =
            s.sizes == 0 ? one.reachable_percent : std::min(s.reachable_worst_percent, one.reachable_percent);
        s.average_percent += one.percent;
        s.reachable_average_percent += one.reachable_percent;
        ++s.sizes;
    }
    if (s.sizes != 0) {
        s.average_percent /= static_cast<double>(s.sizes);
        s.reachable_average_percent /= static_cast<double>(s.sizes);
    }
    return s;
}

}  // namespace orchard::bench
