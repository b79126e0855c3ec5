// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Plain memory of the device that an executor runs on, for an application's own arrays: `cudaMalloc` on CUDA, ordinary
/// memory on the emulated device. Not part of any heap.
///
/// Errors of all functions: `ResourceExhausted` if memory is short, `Internal` with the driver's own text,
/// `Unimplemented` for a CUDA executor in a build without CUDA. On CUDA the functions use the executor's GPU and
/// stream, and return when the work is done. Allocating and freeing wait for kernels that run on that GPU.

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/simt/launch.cuh"

namespace orchard {

/// Returns `bytes` of device memory, aligned to 64 B, with unspecified content; null for 0 bytes. Cost on CUDA: a
/// `cudaMalloc`, which may wait for running kernels.
absl::StatusOr<void*> allocate_device_memory(const simt::executor& on, std::uint64_t bytes);

/// Frees memory from `allocate_device_memory` of an executor of the same kind; does nothing for null.
void free_device_memory(const simt::executor& on, void* memory);

/// Sets `bytes` at `device` to zero.
absl::Status zero_device_memory(const simt::executor& on, void* device, std::uint64_t bytes);

/// Copies `bytes` from host memory to device memory. `device` may lie in a heap. The copy is ordered on the executor's
/// stream, behind kernels that were launched there before.
absl::Status copy_to_device(const simt::executor& on, void* device, const void* host, std::uint64_t bytes);

/// Copies `bytes` from device memory to host memory. `device` may lie in a heap.
absl::Status copy_to_host(const simt::executor& on, void* host, const void* device, std::uint64_t bytes);

/// Owns an array in device memory. `T` is copied as bytes: it is trivially copyable, and zero bytes are a valid value.
/// Move-only; one thread at a time. The executor must be that of the kernels which use the array.
template <class T>
class device_array {
    // Bytes are all that is copied between host and device.
    static_assert(std::is_trivially_copyable_v<T>);

public:
    /// An empty array.
    device_array() = default;

    /// Returns an array of `count` elements, all zero bytes. Errors: those of `resize`.
    static absl::StatusOr<device_array> create(const simt::executor& on, std::uint64_t count) {
        device_array result;
        result.on_ = on;
        if (absl::Status s = result.resize(count); !s.ok()) {
            return s;
        }
        return result;
    }

    device_array(device_array&& other) noexcept { swap(other); }
    device_array& operator=(device_array&& other) noexcept {
        swap(other);
        return *this;
    }
    ~device_array() { free_device_memory(on_, data_); }

    /// Replaces the array by one of `count` elements, all zero bytes; the old elements are lost. Unchanged on error.
    /// Both arrays exist for a moment. Errors: ResourceExhausted, also if the size in bytes would overflow; those of
    /// the copy.
    absl::Status resize(std::uint64_t count) {
        if (count > ~std::uint64_t{0} / sizeof(T)) {
            return absl::ResourceExhaustedError("a device array of more than 2^64 bytes");
        }
        absl::StatusOr<void*> memory = allocate_device_memory(on_, count * sizeof(T));
        if (!memory.ok()) {
            return memory.status();
        }
        if (absl::Status s = zero_device_memory(on_, *memory, count * sizeof(T)); !s.ok()) {
            free_device_memory(on_, *memory);
            return s;
        }
        free_device_memory(on_, std::exchange(data_, static_cast<T*>(*memory)));
        size_ = count;
        return absl::OkStatus();
    }

    /// Sets all elements to zero bytes.
    absl::Status zero() { return zero_device_memory(on_, data_, size_ * sizeof(T)); }

    /// Copies `from` to the elements from `first` on. Errors: `OutOfRange` if they do not fit.
    absl::Status upload(std::span<const T> from, std::uint64_t first = 0) {
        if (absl::Status s = check(first, from.size()); !s.ok()) {
            return s;
        }
        return copy_to_device(on_, data_ + first, from.data(), from.size_bytes());
    }

    /// Copies the elements from `first` on to `into`. Errors: `OutOfRange` if the array has fewer.
    absl::Status download(std::span<T> into, std::uint64_t first = 0) const {
        if (absl::Status s = check(first, into.size()); !s.ok()) {
            return s;
        }
        return copy_to_host(on_, into.data(), data_ + first, into.size_bytes());
    }

    /// Returns the address for kernels; null if the array is empty.
    [[nodiscard]] T* data() const { return data_; }
    /// Returns the number of elements.
    [[nodiscard]] std::uint64_t size() const { return size_; }

private:
    void swap(device_array& other) noexcept {
        std::swap(on_, other.on_);
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
    }
    /// Returns OK if the elements [first, first + count) exist. The sum is not computed, since it could overflow.
    [[nodiscard]] absl::Status check(std::uint64_t first, std::uint64_t count) const {
        return first <= size_ && count <= size_ - first
                   ? absl::OkStatus()
                   : absl::OutOfRangeError("a copy beyond the end of a device array");
    }

    // The executor of the allocation: its kind selects the function that frees.
    simt::executor on_{};
    T* data_ = nullptr;
    std::uint64_t size_ = 0;
};

}  // namespace orchard
