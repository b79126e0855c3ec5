// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Creation of heaps that a published algorithm serves: checks the algorithm's limits, adapts the defaults, then
/// creates a heap as `heap::create` does.

#include "runtime/heap/published_heap.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "absl/strings/str_format.h"
#include "runtime/heap/heap_impl.hpp"

namespace orchard {

namespace {

/// The walks number the bitmap words of all segments by 32 bits: 2,048 words a segment, so that 2^20 segments are 2^31
/// words.
constexpr std::uint64_t max_range = std::uint64_t{2} << 40;

/// Returns OK if the published algorithm can serve a heap with these options; otherwise InvalidArgument with the
/// option's name and the remedy.
absl::Status check(const options& values, const published_settings& walk) {
    // The limits of the unit hold for all algorithms, although only `rw_malloc` uses it.
    if (!std::has_single_bit(walk.unit) || walk.unit < 16 || walk.unit > 8192) {
        return absl::InvalidArgumentError(
            absl::StrFormat("unit: %d is not possible; give a power of two from 16 B to 8 KiB", walk.unit));
    }
    // Without a capacity the range would be that of an elastic heap, at least 1 TiB, and all of its metadata would be
    // made now.
    if (values.backing == backing_option::elastic && values.range == 0 && values.capacity == 0) {
        return absl::InvalidArgumentError(
            "capacity: an elastic heap of a published algorithm has all metadata at once, so that its size must be "
            "known; give capacity, or range");
    }
    if (std::max(values.range, values.capacity + values.host_budget) > max_range) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "range: a heap of a published algorithm spans 2 TiB at most, and %d bytes are asked for; give "
            "a smaller range, or take Orchard's own algorithm",
            std::max(values.range, values.capacity + values.host_budget)));
    }
    return absl::OkStatus();
}

/// Returns the options with the defaults of such a heap. All of its metadata is made at once, so that the range is no
/// larger than the memory that may be used.
options adapted(options values) {
    // An elastic heap has more addresses than memory, and all of them would have their metadata now.
    if (values.backing == backing_option::automatic) {
        values.backing = backing_option::fixed;
    }
    if (values.range == 0) {
        values.range = values.capacity + values.host_budget;
    }
    return values;
}

}  // namespace

absl::StatusOr<heap> published_heaps::create(const options& values, const published_settings& walk) {
    const absl::Status s = check(values, walk);
    return s.ok() ? heap::make(adapted(values), nullptr, 0, walk) : absl::StatusOr<heap>(s);
}

absl::StatusOr<heap> published_heaps::create_in(void* memory, std::uint64_t bytes, const options& values,
                                                const published_settings& walk) {
    options that_hold = values;
    that_hold.backing = backing_option::fixed;
    that_hold.range = 0;
    that_hold.capacity = bytes;
    that_hold.host_budget = 0;
    const absl::Status s = check(that_hold, walk);
    return s.ok() ? heap::make_in(memory, bytes, values, walk) : absl::StatusOr<heap>(s);
}

/// Unlike `heap::ref`, this is the view that the algorithm's `published_ref` needs.
const device::published_view& published_heaps::view(const heap& h) { return h.impl_->view; }

}  // namespace orchard
