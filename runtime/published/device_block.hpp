// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The memory of an allocator that does not stand on a heap.

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/heap/device_memory.hpp"

namespace orchard::detail {

/// Owns device memory with unspecified content: `device_array` without its zeros, for memory of gigabytes. Move-only.
class device_block {
public:
    /// An empty block.
    device_block() = default;
    /// Returns a block of `bytes` bytes, aligned to 64 B. Errors and cost: those of `allocate_device_memory`.
    static absl::StatusOr<device_block> create(const simt::executor& on, std::uint64_t bytes) {
        absl::StatusOr<void*> memory = allocate_device_memory(on, bytes);
        if (!memory.ok()) {
            return memory.status();
        }
        device_block made;
        made.on_ = on;
        made.data_ = static_cast<char*>(*memory);
        return made;
    }
    device_block(device_block&& other) noexcept { swap(other); }
    device_block& operator=(device_block&& other) noexcept {
        swap(other);
        return *this;
    }
    ~device_block() { free_device_memory(on_, data_); }

    /// Returns the address for kernels.
    [[nodiscard]] char* data() const { return data_; }

private:
    void swap(device_block& other) noexcept {
        std::swap(on_, other.on_);
        std::swap(data_, other.data_);
    }

    simt::executor on_{};
    char* data_ = nullptr;
};

}  // namespace orchard::detail
