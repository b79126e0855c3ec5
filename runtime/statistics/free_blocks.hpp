// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// How many more blocks of one size a heap has room for, by its counters.

#include <cstdint>

#include "runtime/statistics/statistics.hpp"
#include "uvm/geometry/geometry.hpp"
#include "uvm/geometry/portion.hpp"
#include "uvm/geometry/size_classes.hpp"

namespace orchard {

/// Returns how many blocks of `bytes` bytes a heap with the counters `of` can still hand out, memory that it has yet to
/// commit included; 0 for 0 bytes. The heap is not hardened. Take `of` after `heap::trim`, while no kernel runs:
/// without it, empty slabs of other size classes, and segments that are on their way to the segment cache, are not
/// counted.
///
/// Up to 512 KiB, the number is exact: the free pages of the size class and the pages of all free segments. Above, it
/// is an upper bound: free segments that do not lie side by side hold fewer blocks of several segments, and each block
/// counts as a multiple of 64 KiB. Cost: none but arithmetic.
inline std::uint64_t free_blocks(const statistics& of, std::uint64_t bytes) {
    const std::uint64_t all = of.capacity_bytes / segment_bytes;
    const std::uint64_t used = of.segments_granted - of.segments_in_cache;
    const std::uint64_t free = used < all ? all - used : 0;
    if (bytes == 0) {
        return 0;
    }
    if (bytes <= largest_page_bytes) {
        const std::uint32_t page_class = class_of(static_cast<std::uint32_t>(bytes));
        return of.classes[page_class].pages_free + free * class_pages(page_class);
    }
    const std::uint64_t room = free * segment_bytes;
    return bytes > room ? 0 : room / ((bytes + big_page_bytes - 1) / big_page_bytes * big_page_bytes);
}

}  // namespace orchard
