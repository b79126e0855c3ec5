// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The functions that `heap_ref` calls if its fast path does not suffice.
///
///     search_page           a small request without a page at its hint         small/search.cuh
///     fail_page           null for a small request, after recording it       state/failures.cuh
///     allocate_large        a request above the largest page                   large/large_path.cuh
///     allocate_large_advised
///                           the same for an array with advice of its own       large/large_path.cuh
///     free_other            a pointer that is no page                          free_other.cuh
///     release_instrumented, instrumented_bytes
///                           `free`, `usable_size` of an instrumented heap     guarded_free.cuh
///     tag_instrumented, copy_tag
///                           the tags of its blocks                            guarded_free.cuh
///     bytes_in_chunk        `usable_size` of a block of a chunk                large/chunk_free.cuh
///     extend_block          `realloc` of a block of a chunk, in place          large/extend.cuh
///     place_array           an interleaved array                               arrays/array_path.cuh
///     free_array_of_lane    its free                                           arrays/array_path.cuh
///     record_failure, record_invalid_free                                      state/failures.cuh
///
/// All the code behind them takes longer to compile than most sources that call a heap: 3 s of nvcc. They are
/// therefore compiled once where that is possible:
///
///     host code (the emulated device)      device/slow_paths.cpp, in the library
///     GPU code compiled with -rdc=true     runtime/device_library/slow_paths.cu, in orchard::device
///     GPU code compiled without            in each source: a kernel can call no function of another object
///
/// ORCHARD_SLOW_PATHS_INLINE=1 compiles them in the source also with -rdc=true.
///
/// All take the view by reference: kernels pass the copy in memory (`heap_view::self`), so that a call takes one
/// register for it. The masks that they get have the meaning that the functions in `device` document.

#include "device/arrays/lane_place.cuh"
#include "device/state/heap_state.cuh"

#if !defined(ORCHARD_SLOW_PATHS_INLINE)
#define ORCHARD_SLOW_PATHS_INLINE (ORCHARD_CUDA_SOURCE && !ORCHARD_SEPARABLE)
#endif

#if ORCHARD_SLOW_PATHS_INLINE
#include "device/arrays/array_path.cuh"
#include "device/free_alone.cuh"
#include "device/guarded_free.cuh"
#include "device/large/extend.cuh"
#include "device/large/large_path.cuh"
#include "device/small/search.cuh"
#endif

namespace orchard::device::slow {

#if ORCHARD_SLOW_PATHS_INLINE
using device::allocate_large;
using device::allocate_large_advised;
using device::bytes_in_chunk;
using device::copy_tag;
using device::extend_block;
using device::fail_page;
using device::free_array_of_lane;
using device::free_other;
using device::instrumented_bytes;
using device::place_array;
using device::record_failure;
using device::record_invalid_free;
using device::release_instrumented;
using device::search_page;
using device::tag_instrumented;
#else
ORCHARD_FN void* allocate_large(const heap_view& h, std::uint64_t bytes, std::uint64_t alignment);
ORCHARD_FN void* allocate_large_advised(const heap_view& h, std::uint64_t bytes, std::uint64_t alignment,
                                        advice_code advice);
ORCHARD_FN void* release_instrumented(const heap_view& h, const void* p);
ORCHARD_FN std::uint64_t instrumented_bytes(const heap_view& h, const void* p);
ORCHARD_FN void tag_instrumented(const heap_view& h, const void* p, std::uint32_t tag);
ORCHARD_FN void copy_tag(const heap_view& h, const void* from, const void* to);
ORCHARD_FN void* search_page(const heap_view& h, lane_mask here, lane_mask group, std::uint32_t page_class,
                             std::uint64_t request, std::uint32_t hint_segment);
ORCHARD_FN void* fail_page(const heap_view& h, failure_reason why, std::uint64_t bytes, std::uint32_t page_class);
ORCHARD_FN void record_failure(const heap_view& h, failure_reason why, std::uint64_t bytes, std::uint32_t page_class);
ORCHARD_FN void record_invalid_free(const heap_view& h, const void* p);
ORCHARD_FN void free_other(const heap_view& h, const void* p);
ORCHARD_FN std::uint64_t bytes_in_chunk(const heap_view& h, const void* p);
ORCHARD_FN bool extend_block(const heap_view& h, const void* p, std::uint64_t bytes);
ORCHARD_FN void place_array(const heap_view& h, std::uint64_t bytes, const lane_wish& wish, lane_place& place);
ORCHARD_FN void free_array_of_lane(const heap_view& h, const void* chunk, std::uint32_t width, std::uint32_t position);
#endif

}  // namespace orchard::device::slow
