// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The view of a heap that a published algorithm serves: which algorithm, and the bitmaps that only some of them need.
///
///     corw_locked    locks     [segment][64]                  one bit a bitmap word: 0.01 % of the memory
///     rw_malloc      begins    [segment][words of a slab]     one bit a unit: a block begins there
///                    ends      as begins                      a block ends there; both together 0.4 % at units of 64 B
///
/// All are zero for a segment in which nothing is allocated and no lane searches.

#include "device/published/page_policy.cuh"
#include "device/state/heap_state.cuh"

namespace orchard::device {

/// Pointers that the algorithm does not need are null. The host sets the view when it creates the heap
/// (runtime/heap/published_heap.hpp), and it does not change. The view in memory (`heap_view::self`) is a
/// `published_view`, too.
struct published_view : heap_view {
    page_policy policy = page_policy::default_walk;
    std::uint32_t unit_class = 0;                 ///< rw_malloc: the class of all slabs, whose pages are the units
    device_word<std::uint32_t>* grown = nullptr;  ///< [class_count]: slabs that the walks have added to a class
    device_word<std::uint32_t>* locks = nullptr;
    device_word<std::uint64_t>* begins = nullptr;
    device_word<std::uint64_t>* ends = nullptr;
};

/// The number of words of `published_view::locks` for a segment: 2,048 bitmap words, 32 lock bits to a word.
inline constexpr std::uint32_t lock_words = 64;

}  // namespace orchard::device
