// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The walk's data in plain device memory. The lists themselves lie in the heap.
///
///     plain device memory                      heap
///     vertex_record[vertices]   list -------> neighbours of a vertex     realloc, by any thread that inserts there
///     walker_record[walkers]    list -------> vertices of a walk         malloc and free, by the walker's thread
///     log_record[logs]          entries ----> walks side by side         malloc, by a warp; one copy to the host
///     visits[vertices]
///     trouble

#include <cstdint>

#include "device/simt/atomic.cuh"
#include "device/simt/lane.cuh"

namespace orchard::examples {

using simt::device_word;
using simt::order;

/// A vertex: its list of neighbours, which the thread that holds the claim may extend.
///
///     list ----> [ n0 | n1 | ... | n(size-1) | free ... ]     capacity entries of 4 B: 4, 8, 16, ...
struct vertex_record {
    device_word<std::uint64_t> list;      ///< address of the entries; 0 before the first list
    device_word<std::uint32_t> size;      ///< entries in use
    device_word<std::uint32_t> capacity;  ///< entries for which the list has room
    device_word<std::uint32_t> claim;     ///< 1 while a group extends the list; acquired and released
    /// Fills the record to 24 bytes, so that it has no padding.
    std::uint32_t unused;
};

/// A walker and the vertices that it visited. In each kernel, only one thread uses it.
struct walker_record {
    std::uint32_t* list;     ///< vertices visited, in order; null before the first
    std::uint32_t size;      ///< vertices in the list
    std::uint32_t capacity;  ///< vertices for which it has room
};

/// A log: the walks of consecutive walkers side by side, for one copy to the host.
struct log_record {
    std::uint32_t* entries;  ///< walker i of the log has entries [i * stride, i * stride + its size)
};

/// The reason why a kernel gave up.
enum class trouble_kind : std::uint32_t { none = 0, no_memory = 1, claim_not_released = 2 };

/// The first trouble of a run. Threads that see it stop too, so that a failure ends the kernel.
struct trouble {
    device_word<std::uint64_t> first;  ///< kind in the high half, vertex, walker or log in the low half; 0: none

    /// Notes a trouble, unless there is one already. Any thread.
    ORCHARD_FN void record(trouble_kind kind, std::uint64_t where) {
        std::uint64_t none = 0;
        // Relaxed: the word carries all of the information.
        first.compare_exchange<order::relaxed>(none, (static_cast<std::uint64_t>(kind) << 32) | (where & 0xffffffffu));
    }
    /// Returns whether some thread has noted a trouble.
    [[nodiscard]] ORCHARD_FN bool any() const { return first.load<order::relaxed>() != 0; }
};

}  // namespace orchard::examples
