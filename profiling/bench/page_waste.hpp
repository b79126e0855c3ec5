// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What share of a heap's memory can be handed out in requests of one size: arithmetic on the size classes, no heap.
///
/// Three things are lost: a request is rounded up to its class; the pages of a class do not fill a slab of 2 MiB to
/// its end; metadata stands beside the memory that it describes and counts as used.

#include <cstdint>
#include <span>

namespace orchard::bench {

/// The memory of one heap.
struct heap_extent {
    std::uint64_t segments = 0;        ///< of 2 MiB, all for slabs
    std::uint64_t metadata_bytes = 0;  ///< beside them

    [[nodiscard]] std::uint64_t bytes() const;  ///< both
};

/// Whether requests of `bytes` are not rounded up; 1 <= bytes <= `largest_page_bytes`, here and below.
bool is_class_size(std::uint32_t bytes);

/// Requests of `bytes` that a heap can answer at once when nothing else is allocated.
std::uint64_t requests_that_fit(std::uint32_t bytes, const heap_extent& heap);

/// The share of the heap's memory, metadata included, that `requests` of `bytes` are, in percent.
double utilisation_percent(std::uint32_t bytes, std::uint64_t requests, const heap_extent& heap);

/// How well one size fills a heap.
struct size_utilisation {
    std::uint32_t bytes = 0;
    double percent = 0;            ///< measured
    double reachable_percent = 0;  ///< what the classes allow
};

/// Several sizes together.
struct utilisation_summary {
    std::uint64_t sizes = 0;
    double average_percent = 0;
    double worst_percent = 0;
    std::uint32_t worst_at_bytes = 0;
    double reachable_average_percent = 0;
    double reachable_worst_percent = 0;
};

/// Average and worst of the sizes given; all 0 where there are none.
utilisation_summary summarise(std::span<const size_utilisation> sizes);

}  // namespace orchard::bench
