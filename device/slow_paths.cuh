// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The functions that `heap_ref` calls if its fast path does not suffice.
///
/// In the host build (the emulated device), they are ordinary functions that are compiled once, in
/// device/slow_paths.cpp: all the code behind them takes longer to compile than most sources that call a heap. A CUDA
/// source compiles them itself, because ptxas determines a kernel's registers from all functions that it calls.

#include "device/arrays/lane_place.cuh"
#include "device/heap_state.cuh"

#if ORCHARD_CUDA_SOURCE
#include "device/arrays/array_path.cuh"
#include "device/free_alone.cuh"
#include "device/large/large_path.cuh"
#include "device/small/search.cuh"
#endif

namespace orchard::device::slow {

#if ORCHARD_CUDA_SOURCE
using device::allocate_large;
using device::bytes_in_chunk;
using device::free_array_of_lane;
using device::free_other;
using device::place_array;
using device::record_failure;
using device::record_invalid_free;
using device::refuse_page;
using device::search_page;
#else
void* allocate_large(const heap_view& h, std::uint64_t bytes, std::uint64_t alignment);
void* search_page(const heap_view& h, lane_mask here, lane_mask group, std::uint32_t page_class, std::uint64_t bytes,
                  std::uint32_t hint_segment);
void* refuse_page(const heap_view& h, failure_reason why, std::uint64_t bytes, std::uint32_t page_class);
void record_failure(const heap_view& h, failure_reason why, std::uint64_t bytes, std::uint32_t page_class);
void record_invalid_free(const heap_view& h, const void* p);
void free_other(const heap_view& h, const void* p);
std::uint64_t bytes_in_chunk(const heap_view& h, const void* p);
void place_array(const heap_view& h, std::uint64_t bytes, const lane_wish& wish, lane_place& place);
void free_array_of_lane(const heap_view& h, const void* chunk, std::uint32_t width, std::uint32_t position);
#endif

}  // namespace orchard::device::slow
