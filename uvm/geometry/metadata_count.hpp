// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"

namespace orchard::detail {

/// Counts the bytes of metadata that a backing has handed out. Any thread may use it; accesses are relaxed.
class metadata_count {
public:
    void add(std::size_t bytes) { bytes_.fetch_add(bytes, std::memory_order_relaxed); }
    /// Counts `bytes` if `memory` holds memory, and returns `memory`.
    absl::StatusOr<void*> add(absl::StatusOr<void*> memory, std::size_t bytes) {
        if (memory.ok()) {
            add(bytes);
        }
        return memory;
    }
    [[nodiscard]] std::uint64_t get() const { return bytes_.load(std::memory_order_relaxed); }

private:
    std::atomic<std::uint64_t> bytes_{0};
};

}  // namespace orchard::detail
