// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Copies of a heap's metadata, for the host to look at. Errors: the device's own.

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/heap_state.cuh"
#include "uvm/backing.hpp"

namespace orchard {

/// `count` values of device memory.
template <class T>
absl::StatusOr<std::vector<T>> copy_of(backing& memory, const T* from, std::uint64_t count) {
    std::vector<T> result(count);
    if (absl::Status s = memory.read(static_cast<void*>(result.data()), from, count * sizeof(T)); !s.ok()) {
        return s;
    }
    return result;
}

/// Calls `visit(segment, words)` with the first `wanted(segment)` words of each bitmap, unless these are 0, or the
/// bitmap is not committed.
inline absl::Status for_each_bitmap(
    const device::heap_view& view, backing& memory, const std::function<std::uint64_t(std::uint32_t)>& wanted,
    const std::function<absl::Status(std::uint32_t, const std::vector<device::device_word<std::uint64_t>>&)>& visit) {
    for (std::uint32_t i = 0; i < view.segments; ++i) {
        const std::uint64_t count = wanted(i);
        if (count == 0 || !memory.has_metadata(view.bitmap(i))) {
            continue;
        }
        auto words = copy_of(memory, view.bitmap(i), count);
        if (!words.ok()) {
            return words.status();
        }
        if (absl::Status s = visit(i, *words); !s.ok()) {
            return s;
        }
    }
    return absl::OkStatus();
}

}  // namespace orchard
