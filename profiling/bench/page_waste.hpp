// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The share of a heap's memory that can be handed out in requests of one size: arithmetic on the size classes, without
/// a heap.
///
/// Memory is lost in three ways: a request is rounded up to its class; the pages of a class do not fill a slab of 2 MiB
/// to its end; metadata is additional memory that counts as used.

#include <cstdint>
#include <span>

namespace orchard::bench {

/// The memory of one heap.
struct heap_extent {
    std::uint64_t segments = 0;        ///< segments of 2 MiB, all for slabs
    std::uint64_t metadata_bytes = 0;  ///< metadata in addition to the segments

    [[nodiscard]] std::uint64_t bytes() const;  ///< the sum of both
};

/// Returns true if requests of `bytes` are not rounded up; 1 <= bytes <= `largest_page_bytes`, here and below.
bool is_class_size(std::uint32_t bytes);

/// Returns the number of requests of `bytes` that a heap can serve if nothing else is allocated.
std::uint64_t requests_that_fit(std::uint32_t bytes, const heap_extent& heap);

/// Returns the total size of `requests` of `bytes` as a share of the heap's memory, including metadata, in percent.
double utilisation_percent(std::uint32_t bytes, std::uint64_t requests, const heap_extent& heap);

/// The utilisation of a heap by requests of one size.
struct size_utilisation {
    std::uint32_t bytes = 0;
    double percent = 0;            ///< measured
    double reachable_percent = 0;  ///< the share that the size classes allow
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

/// Returns the average and the worst of the given sizes; all 0 if there are none.
utilisation_summary summarise(std::span<const size_utilisation> sizes);

}  // namespace orchard::bench
