// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The slow paths of a heap where they are compiled once: in slow_paths.cpp for the host, and in
/// runtime/device_library/slow_paths.cu for the GPU. Each function forwards to the one of the same name in `device`,
/// which is inline and would otherwise be compiled in each source that calls a heap. slow_paths.cuh declares and
/// describes them.
///
/// ORCHARD_SLOW_FN is what stands before each function: nothing, or `__device__`.

#include "device/arrays/array_path.cuh"
#include "device/free_alone.cuh"
#include "device/guarded_free.cuh"
#include "device/large/extend.cuh"
#include "device/large/large_path.cuh"
#include "device/small/search.cuh"

#if !defined(ORCHARD_SLOW_FN)
#define ORCHARD_SLOW_FN
#endif

namespace orchard::device::slow {

ORCHARD_SLOW_FN void* allocate_large(const heap_view& h, std::uint64_t bytes, std::uint64_t alignment) {
    return device::allocate_large(h, bytes, alignment);
}
ORCHARD_SLOW_FN void* allocate_large_advised(const heap_view& h, std::uint64_t bytes, std::uint64_t alignment,
                                             advice_code advice) {
    return device::allocate_large_advised(h, bytes, alignment, advice);
}
ORCHARD_SLOW_FN void* release_instrumented(const heap_view& h, const void* p) {
    return device::release_instrumented(h, p);
}
ORCHARD_SLOW_FN std::uint64_t instrumented_bytes(const heap_view& h, const void* p) {
    return device::instrumented_bytes(h, p);
}
ORCHARD_SLOW_FN void tag_instrumented(const heap_view& h, const void* p, std::uint32_t tag) {
    device::tag_instrumented(h, p, tag);
}
ORCHARD_SLOW_FN void copy_tag(const heap_view& h, const void* from, const void* to) { device::copy_tag(h, from, to); }
ORCHARD_SLOW_FN void* search_page(const heap_view& h, lane_mask here, lane_mask group, std::uint32_t page_class,
                                  std::uint64_t request, std::uint32_t hint_segment) {
    return device::search_page(h, here, group, page_class, request, hint_segment);
}
ORCHARD_SLOW_FN void* fail_page(const heap_view& h, failure_reason why, std::uint64_t bytes, std::uint32_t page_class) {
    return device::fail_page(h, why, bytes, page_class);
}
ORCHARD_SLOW_FN void record_failure(const heap_view& h, failure_reason why, std::uint64_t bytes,
                                    std::uint32_t page_class) {
    device::record_failure(h, why, bytes, page_class);
}
ORCHARD_SLOW_FN void record_invalid_free(const heap_view& h, const void* p) { device::record_invalid_free(h, p); }
ORCHARD_SLOW_FN void free_other(const heap_view& h, const void* p) { device::free_other(h, p); }
ORCHARD_SLOW_FN std::uint64_t bytes_in_chunk(const heap_view& h, const void* p) { return device::bytes_in_chunk(h, p); }
ORCHARD_SLOW_FN bool extend_block(const heap_view& h, const void* p, std::uint64_t bytes) {
    return device::extend_block(h, p, bytes);
}
ORCHARD_SLOW_FN void place_array(const heap_view& h, std::uint64_t bytes, const lane_wish& wish, lane_place& place) {
    device::place_array(h, bytes, wish, place);
}
ORCHARD_SLOW_FN void free_array_of_lane(const heap_view& h, const void* chunk, std::uint32_t width,
                                        std::uint32_t position) {
    device::free_array_of_lane(h, chunk, width, position);
}

}  // namespace orchard::device::slow

#undef ORCHARD_SLOW_FN
