// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The symbol through which device code finds the heap that it was not given: one for each CUDA module.

#include <cstdint>

#include "device/heap_ref.cuh"

namespace orchard {

/// The contents of the symbol `orchard_root` of a module, in constant memory. The module's image says for which layout
/// its code was compiled; the host writes the view of a heap behind that (`bind_root`). All zero is no heap.
///
///     0      8       16                    16 + sizeof(heap_ref)
///     | abi  | size  | the heap_ref        |
struct alignas(16) heap_root {
    /// The version of the layout of `heap_ref` and of all that its functions read. Raised when that changes.
    static constexpr std::uint64_t current_abi = 1;

    std::uint64_t abi;
    std::uint64_t root_bytes;
    alignas(16) unsigned char ref[sizeof(heap_ref)];

    // The functions of orchard/orchard.h, documented there. Without a heap, requests return null, and frees do nothing.
    // Cost: that of `heap_ref`, and a load from constant memory.
    ORCHARD_INLINE void* malloc(std::uint64_t bytes) const { return is_bound() ? heap().malloc(bytes) : nullptr; }
    ORCHARD_INLINE void free(void* block) const {
        if (is_bound()) {
            heap().free(block);
        }
    }
    ORCHARD_INLINE void* calloc(std::uint64_t count, std::uint64_t size) const {
        return is_bound() ? heap().calloc(count, size) : nullptr;
    }
    ORCHARD_INLINE void* realloc(void* block, std::uint64_t bytes) const {
        return is_bound() ? heap().realloc(block, bytes) : nullptr;
    }
    ORCHARD_INLINE void* aligned_alloc(std::uint64_t alignment, std::uint64_t bytes) const {
        return is_bound() ? heap().aligned_alloc(alignment, bytes) : nullptr;
    }
    [[nodiscard]] ORCHARD_INLINE std::uint64_t usable_size(const void* block) const {
        return is_bound() ? heap().usable_size(block) : 0;
    }
    ORCHARD_INLINE void note_access(const void* p) const {
        if (is_bound()) {
            heap().note_access(p);
        }
    }

    /// Returns whether a heap has been bound.
    [[nodiscard]] ORCHARD_INLINE bool is_bound() const { return heap().view().state != nullptr; }
    /// Returns the heap that has been bound.
    [[nodiscard]] ORCHARD_INLINE const heap_ref& heap() const { return *reinterpret_cast<const heap_ref*>(ref); }
};

}  // namespace orchard
