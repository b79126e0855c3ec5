// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The share of a heap's memory that can be handed out in requests of one size: arithmetic on the size classes, without
/// a heap. `orchard bench utilisation` compares what a heap reaches with it.
///
/// Memory is lost in three ways: a request is rounded up to its class; the pages of a class do not fill a slab of 2 MiB
/// to its end; metadata is additional memory that counts as used.
///
///     80 B in one segment    26,214 pages * 80 B = 2,097,120 of 2,097,152 B
///     65 B                   the same pages, of which 65 B each are counted: 81 %

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
    std::uint32_t bytes = 0;       ///< of each request
    double percent = 0;            ///< measured
    double reachable_percent = 0;  ///< the share that the size classes allow
};

/// Several sizes together.
struct utilisation_summary {
    std::uint64_t sizes = 0;               ///< number of sizes
    double average_percent = 0;            ///< unweighted mean of `size_utilisation::percent`
    double worst_percent = 0;              ///< the lowest of them
    std::uint32_t worst_at_bytes = 0;      ///< the smallest size that has it
    double reachable_average_percent = 0;  ///< the mean of `size_utilisation::reachable_percent`
    double reachable_worst_percent = 0;    ///< the lowest of them
};

/// Returns the average and the worst of the given sizes; all 0 if there are none.
utilisation_summary summarise(std::span<const size_utilisation> sizes);

}  // namespace orchard::bench
