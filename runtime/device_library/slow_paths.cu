// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The slow paths of a heap for GPU code that is compiled with -rdc=true; device/slow_paths.cuh declares and describes
/// them. Each function forwards to the one of the same name in `device`.
///
/// The functions are those of the GPU alone: the host's are in device/slow_paths.cpp. This file therefore does not
/// include their declarations, which are for both. If a signature differs from its declaration, programs do not link.

#include "device/arrays/array_path.cuh"
#include "device/free_alone.cuh"
#include "device/guarded_free.cuh"
#include "device/large/extend.cuh"
#include "device/large/large_path.cuh"
#include "device/small/search.cuh"

namespace orchard::device::slow {

__device__ void* allocate_large(const heap_view& h, std::uint64_t bytes, std::uint64_t alignment) {
    return device::allocate_large(h, bytes, alignment);
}
__device__ void* release_guarded(const heap_view& h, const void* p) { return device::release_guarded(h, p); }
__device__ std::uint64_t guarded_bytes(const heap_view& h, const void* p) { return device::guarded_bytes(h, p); }
__device__ void tag_guarded(const heap_view& h, const void* p, std::uint32_t tag) { device::tag_guarded(h, p, tag); }
__device__ void copy_tag(const heap_view& h, const void* from, const void* to) { device::copy_tag(h, from, to); }
__device__ void* search_page(const heap_view& h, lane_mask here, lane_mask group, std::uint32_t page_class,
                             std::uint64_t bytes, std::uint32_t hint_segment) {
    return device::search_page(h, here, group, page_class, bytes, hint_segment);
}
__device__ void* fail_page(const heap_view& h, failure_reason why, std::uint64_t bytes, std::uint32_t page_class) {
    return device::fail_page(h, why, bytes, page_class);
}
__device__ void record_failure(const heap_view& h, failure_reason why, std::uint64_t bytes, std::uint32_t page_class) {
    device::record_failure(h, why, bytes, page_class);
}
__device__ void record_invalid_free(const heap_view& h, const void* p) { device::record_invalid_free(h, p); }
__device__ void free_other(const heap_view& h, const void* p) { device::free_other(h, p); }
__device__ std::uint64_t bytes_in_chunk(const heap_view& h, const void* p) { return device::bytes_in_chunk(h, p); }
__device__ bool extend_block(const heap_view& h, const void* p, std::uint64_t bytes) {
    return device::extend_block(h, p, bytes);
}
__device__ void place_array(const heap_view& h, std::uint64_t bytes, const lane_wish& wish, lane_place& place) {
    device::place_array(h, bytes, wish, place);
}
__device__ void free_array_of_lane(const heap_view& h, const void* chunk, std::uint32_t width, std::uint32_t position) {
    device::free_array_of_lane(h, chunk, width, position);
}

}  // namespace orchard::device::slow
