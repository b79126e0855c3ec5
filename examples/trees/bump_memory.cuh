// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The memory that a program makes beforehand where there is no allocator: one array, and a word that says how much of
/// it is taken. KMA calls it the poor man's heap. Nothing comes back before the whole is made empty.

#include <cstdint>

#include "device/simt/atomic.cuh"

namespace orchard::examples {

struct bump_memory {
    char* memory;
    std::uint64_t bytes;
    simt::device_word<std::uint64_t>* taken;

    /// Returns `size` bytes, aligned to 16 B; null if the array is full. Cost: an atomic.
    [[nodiscard]] ORCHARD_FN void* malloc(std::uint64_t size) const {
        const std::uint64_t rounded = (size + 15) / 16 * 16;
        const std::uint64_t at = taken->template fetch_add<simt::order::relaxed>(rounded);
        return at + rounded <= bytes ? memory + at : nullptr;
    }
    ORCHARD_FN void free(void*) const {}
};

}  // namespace orchard::examples
