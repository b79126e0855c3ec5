// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The functions that `heap_ref` calls if its fast path does not suffice.
///
///     search_page           a small request without a page at its hint         small/search.cuh
///     fail_page           null for a small request, after recording it       state/failures.cuh
///     allocate_large        a request above the largest page                   large/large_path.cuh
///     free_other            a pointer that is no page                          free_other.cuh
///     release_guarded, guarded_bytes
///                           `free`, `usable_size` of a hardened heap          guarded_free.cuh
///     tag_guarded, copy_tag
///                           the tags of its blocks                            guarded_free.cuh
///     bytes_in_chunk        `usable_size` of a block of a chunk                large/chunk_free.cuh
///     extend_block          `realloc` of a block of a chunk, in place          large/extend.cuh
///     place_array           an interleaved array                               arrays/array_path.cuh
///     free_array_of_lane    its free                                           arrays/array_path.cuh
///     record_failure, record_invalid_free                                      state/failures.cuh
///
/// In the host build (the emulated device), they are ordinary functions that are compiled once, in
/// device/slow_paths.cpp: all the code behind them takes longer to compile than most sources that call a heap. A CUDA
/// source compiles them itself, because ptxas determines a kernel's registers from all functions that it calls.
///
/// All take the view by reference: kernels pass the copy in memory (`heap_view::self`), so that a call takes one
/// register for it. The masks that they get have the meaning that the functions in `device` document.

#include "device/arrays/lane_place.cuh"
#include "device/state/heap_state.cuh"

#if ORCHARD_CUDA_SOURCE
#include "device/arrays/array_path.cuh"
#include "device/free_alone.cuh"
#include "device/guarded_free.cuh"
#include "device/large/extend.cuh"
#include "device/large/large_path.cuh"
#include "device/small/search.cuh"
#endif

namespace orchard::device::slow {

#if ORCHARD_CUDA_SOURCE
using device::allocate_large;
using device::bytes_in_chunk;
using device::copy_tag;
using device::extend_block;
using device::fail_page;
using device::free_array_of_lane;
using device::free_other;
using device::guarded_bytes;
using device::place_array;
using device::record_failure;
using device::record_invalid_free;
using device::release_guarded;
using device::search_page;
using device::tag_guarded;
#else
void* allocate_large(const heap_view& h, std::uint64_t bytes, std::uint64_t alignment);
void* release_guarded(const heap_view& h, const void* p);
std::uint64_t guarded_bytes(const heap_view& h, const void* p);
void tag_guarded(const heap_view& h, const void* p, std::uint32_t tag);
void copy_tag(const heap_view& h, const void* from, const void* to);
void* search_page(const heap_view& h, lane_mask here, lane_mask group, std::uint32_t page_class, std::uint64_t bytes,
                  std::uint32_t hint_segment);
void* fail_page(const heap_view& h, failure_reason why, std::uint64_t bytes, std::uint32_t page_class);
void record_failure(const heap_view& h, failure_reason why, std::uint64_t bytes, std::uint32_t page_class);
void record_invalid_free(const heap_view& h, const void* p);
void free_other(const heap_view& h, const void* p);
std::uint64_t bytes_in_chunk(const heap_view& h, const void* p);
bool extend_block(const heap_view& h, const void* p, std::uint64_t bytes);
void place_array(const heap_view& h, std::uint64_t bytes, const lane_wish& wish, lane_place& place);
void free_array_of_lane(const heap_view& h, const void* chunk, std::uint32_t width, std::uint32_t position);
#endif

}  // namespace orchard::device::slow
