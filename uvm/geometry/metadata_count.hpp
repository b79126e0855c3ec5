// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"

namespace orchard::detail {

/// Counts the bytes of metadata that a backing has handed out: the statistic `metadata_bytes`. Any thread may use it;
/// accesses are relaxed, since the number orders no other access. It never falls, because metadata is never given back
/// before the backing ends.
class metadata_count {
public:
    /// Counts `bytes`. Cost: one atomic.
    void add(std::size_t bytes) { bytes_.fetch_add(bytes, std::memory_order_relaxed); }
    /// Returns `memory`, and counts `bytes` if it holds memory and no error. A backing can thus count and return in one
    /// expression.
    absl::StatusOr<void*> add(absl::StatusOr<void*> memory, std::size_t bytes) {
        if (memory.ok()) {
            add(bytes);
        }
        return memory;
    }
    /// Returns the bytes counted so far.
    [[nodiscard]] std::uint64_t get() const { return bytes_.load(std::memory_order_relaxed); }

private:
    std::atomic<std::uint64_t> bytes_{0};
};

}  // namespace orchard::detail
