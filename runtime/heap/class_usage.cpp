// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Counts the pages of each class that are in use.
///
///     descriptors     which segments are slabs, and of which class         one copy
///     bitmaps         of the slabs: one bit for each page in use           several slabs in one copy
///     page counts     requests and nulls so far (heap_counts.hpp)          from the copy of the state

#include "runtime/heap/class_usage.hpp"

#include <algorithm>
#include <bit>

#include "runtime/heap/heap_counts.hpp"
#include "runtime/heap/metadata_copy.hpp"
#include "runtime/heap/policy_validator.hpp"

namespace orchard {

/// While kernels run, a segment counts as the kind that its copied descriptor has, even if the kind has changed when
/// the bitmap is copied.
absl::StatusOr<std::vector<class_usage>> usage_of_classes(const device::heap_view& view, backing& memory) {
    const auto descriptors = copy_of_descriptors(view, memory);
    if (!descriptors.ok()) {
        return descriptors.status();
    }
    // Returns the class of a slab; `class_count` if the segment is no slab.
    const auto class_at = [&](std::uint32_t i) {
        const std::uint64_t d = (*descriptors)[i];
        return device::descriptor::kind(d) == device::segment_kind::slab ? device::descriptor::page_class(d)
                                                                         : class_count;
    };
    // Bitmaps are copied for slabs alone, and only the words that the class uses are counted.
    std::vector<class_usage> classes(class_count);
    absl::Status status = for_each_bitmap(
        view, memory,
        [&](std::uint32_t i) -> std::uint64_t { return class_at(i) < class_count ? class_words(class_at(i)) : 0; },
        [&](std::uint32_t i, std::span<const device::device_word<std::uint64_t>> words) {
            class_usage& one = classes[class_at(i)];
            ++one.slabs;
            for (const auto& w : words) {
                one.pages_in_use += static_cast<std::uint64_t>(std::popcount(w.load<simt::order::relaxed>()));
            }
            return absl::OkStatus();
        });
    if (!status.ok()) {
        return status;
    }
    return classes;
}

/// Under `rw_malloc` a set bit is a unit of a block, and not a page, so that the bits where blocks begin are counted
/// instead.
absl::StatusOr<std::uint64_t> pages_in_use(const device::published_view& view, backing& memory,
                                           const std::vector<class_usage>& usage) {
    // Null for every algorithm but `rw_malloc`.
    if (view.begins != nullptr) {
        return blocks_in_use(view, memory);
    }
    std::uint64_t pages = 0;
    for (const class_usage& one : usage) {
        pages += one.pages_in_use;
    }
    return pages;
}

/// The two sources are of different moments if kernels run: the requests are from the copy of the state, the pages from
/// the later copies of bitmaps.
std::array<class_statistics, class_count> statistics_of_classes(const device::heap_state& state,
                                                                const std::vector<class_usage>& usage) {
    std::array<class_statistics, class_count> classes;
    for (std::uint32_t c = 0; c < class_count; ++c) {
        // Requests are counted by the device; slabs and pages are those of the bitmaps.
        const class_requests requests = count_class_requests(state, c);
        const std::uint64_t pages = usage[c].slabs * class_pages(c);
        // More bits than pages may be set while a kernel claims and takes back a page.
        const std::uint64_t used = std::min(pages, usage[c].pages_in_use);
        class_statistics& one = classes[c];
        one.page_bytes = class_bytes(c);
        one.slabs = usage[c].slabs;
        one.pages_in_use = used;
        one.pages_free = pages - used;
        one.allocations = requests.lanes;
        one.nulls = requests.nulls;
        one.groups = requests.groups;
        one.multi_lane_groups = requests.multi_lane_groups;
    }
    return classes;
}

}  // namespace orchard
