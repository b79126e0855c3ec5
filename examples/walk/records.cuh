// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The walk's data in plain device memory. The lists themselves lie in the heap.

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
    std::uint32_t unused;
};

/// A walker and the vertices that it visited. In each kernel, only one thread uses it.
struct walker_record {
    std::uint32_t* list;
    std::uint32_t size;
    std::uint32_t capacity;
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

    ORCHARD_FN void record(trouble_kind kind, std::uint64_t where) {
        std::uint64_t none = 0;
        // Relaxed: the word carries all of the information.
        first.compare_exchange<order::relaxed>(none, (static_cast<std::uint64_t>(kind) << 32) | (where & 0xffffffffu));
    }
    [[nodiscard]] ORCHARD_FN bool any() const { return first.load<order::relaxed>() != 0; }
};

}  // namespace orchard::examples
