// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What a heap tells the library that `orchard profile` puts into a program (docs/profile.md), so that records of
/// unified memory can be joined with segments. Without that library a heap tells nothing.

#include <cstdint>
#include <span>
#include <vector>

#include "device/published/published_view.cuh"
#include "uvm/geometry/size_classes.hpp"
#include "uvm/memory/backing.hpp"

namespace orchard {

/// What a segment was used for, in a byte: one of these numbers, or `first_slab` and the class of the slab's pages.
struct segment_owner {
    static constexpr std::uint8_t unused = 0;    ///< it never had a slab or a chunk
    static constexpr std::uint8_t freed = 1;     ///< it had one, and has none now
    static constexpr std::uint8_t chunk = 2;     ///< a part of a warp chunk
    static constexpr std::uint8_t portions = 3;  ///< shared by portions: tails, and small chunks
    static constexpr std::uint8_t first_slab = 16;
    static_assert(first_slab + class_count <= 256);
};

/// The events of a heap's life that are told.
enum class profiled_event : std::uint32_t { opened = 1, closed = 2 };

/// A heap, as the profiling library takes it. The members stay as they are; a change gets a function of another name.
struct profiled_heap {
    std::uint64_t base;
    std::uint64_t bytes;  ///< of the whole range of addresses
    std::uint64_t segment_bytes;
    const std::uint8_t* owners;  ///< [segment]: a `segment_owner`; null when the heap is opened, or if it is not known
};

/// The function that the profiling library has: `orchard_profile_heap_1`. It may be called from any thread.
using profile_heap_function = void (*)(profiled_event, const profiled_heap*);
inline constexpr char profile_heap_name[] = "orchard_profile_heap_1";

namespace detail {

/// Returns the profiling library's function; null if that library is not in this process. Cost: a search for a name.
profile_heap_function find_profiler();

/// Tells the profiling library of a heap, if it is there. For `closed` the descriptors of the segments are copied from
/// the device, so that the heap's memory must still be there. Errors are ignored: the segments are then not known.
void tell_profiler(profiled_event event, const device::heap_view& view, backing& memory);

}  // namespace detail
}  // namespace orchard
