// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Memory that a test supplies for a heap to lie in, and that stays the test's.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/heap/device_memory.hpp"
#include "runtime/machine/machine_info.hpp"
#include "tests/support/tested_heap.hpp"
#include "uvm/geometry/geometry.hpp"
#include "uvm/memory/memory_driver.hpp"

namespace orchard::test {

/// The owner of the memory that a heap uses.
enum class lies_in {
    its_own,           ///< its backing's: `heap::create`
    supplied,          ///< the caller's, of the device: `heap::create_in`
    supplied_on_host,  ///< the caller's, of the host, pinned and mapped for the device: `heap::create_in`
};

/// Room for a number of whole segments, filled with a pattern. It neither begins nor ends on a segment border.
///
///     at                                                  at + bytes
///     | head, < 2 MiB | segment | segment | ... | segment | tail |
///     `------ the heap must not write head and tail -------------´
class callers_memory {
public:
    /// No memory.
    callers_memory() = default;

    /// Returns memory for a heap of `capacity` bytes on the device that `values` choose. Errors: the device's own.
    static absl::StatusOr<callers_memory> create(lies_in where, const options& values) {
        const auto choice = choose_device(values.device);
        if (!choice.ok()) {
            return choice.status();
        }
        callers_memory made;
        made.on_.kind = choice->kind;
        made.on_.device = choice->gpu;
        made.bytes_ = values.capacity + segment_bytes;
        absl::Status status = where == lies_in::supplied ? made.take_device_memory() : made.take_host_memory();
        if (status.ok()) {
            status.Update(made.fill());
        }
        if (!status.ok()) {
            return status;
        }
        return made;
    }

    callers_memory(callers_memory&& other) noexcept { swap(other); }
    callers_memory& operator=(callers_memory&& other) noexcept {
        swap(other);  // `other` destroys the previous memory
        return *this;
    }
    ~callers_memory() {
        if (!is_on_host()) {
            free_device_memory(on_, first_);
        }
    }

    [[nodiscard]] bool empty() const { return first_ == nullptr; }
    /// One byte after the allocator's address, so that no segment begins there.
    [[nodiscard]] char* at() const { return first_ + 1; }
    [[nodiscard]] std::uint64_t bytes() const { return bytes_ - 1; }
    /// Returns true if it holds as many whole segments as a heap of `capacity` bytes has.
    [[nodiscard]] bool is_for(std::uint64_t capacity) const { return !empty() && bytes_ == capacity + segment_bytes; }
    /// The first of the whole segments.
    [[nodiscard]] char* segments() const {
        const auto address = reinterpret_cast<std::uintptr_t>(at());
        return at() + (segment_bytes - address % segment_bytes) % segment_bytes;
    }

    /// Returns the number of bytes outside the whole segments that have changed. Errors: the device's own.
    [[nodiscard]] absl::StatusOr<std::uint64_t> changed_beside() const {
        char* const end = segments() + (bytes_ - segment_bytes);
        const auto head = changed(first_, static_cast<std::uint64_t>(segments() - first_));
        if (!head.ok()) {
            return head;
        }
        const auto tail = changed(end, static_cast<std::uint64_t>(first_ + bytes_ - end));
        return tail.ok() ? absl::StatusOr<std::uint64_t>(*head + *tail) : tail;
    }

private:
    /// Differs from zero and from any address.
    static constexpr char pattern = '\xa5';

    absl::Status take_device_memory() {
        auto memory = allocate_device_memory(on_, bytes_);
        if (memory.ok()) {
            first_ = static_cast<char*>(*memory);
        }
        return memory.status();
    }
    absl::Status take_host_memory() {
        auto driver = make_cuda_driver();
        if (!driver.ok()) {
            return driver.status();
        }
        driver_ = *std::move(driver);
        auto memory = driver_->allocate_host_visible(bytes_);
        if (memory.ok()) {
            first_ = static_cast<char*>(*memory);
        }
        return memory.status();
    }
    [[nodiscard]] bool is_on_host() const { return driver_ != nullptr; }
    absl::Status fill() {
        if (is_on_host()) {
            std::memset(first_, pattern, bytes_);
            return absl::OkStatus();
        }
        const std::vector<char> some(std::min(bytes_, segment_bytes), pattern);
        for (std::uint64_t done = 0; done < bytes_; done += some.size()) {
            const std::uint64_t n = std::min<std::uint64_t>(some.size(), bytes_ - done);
            absl::Status status = copy_to_device(on_, first_ + done, some.data(), n);
            if (!status.ok()) {
                return status;
            }
        }
        return absl::OkStatus();
    }
    [[nodiscard]] absl::StatusOr<std::uint64_t> changed(const char* from, std::uint64_t n) const {
        std::vector<char> found(n);
        absl::Status status = absl::OkStatus();
        if (is_on_host()) {
            std::memcpy(found.data(), from, n);
        } else {
            status.Update(copy_to_host(on_, found.data(), from, n));
        }
        if (!status.ok()) {
            return status;
        }
        return n - static_cast<std::uint64_t>(std::count(found.begin(), found.end(), pattern));
    }
    void swap(callers_memory& other) noexcept {
        std::swap(on_, other.on_);
        std::swap(driver_, other.driver_);
        std::swap(first_, other.first_);
        std::swap(bytes_, other.bytes_);
    }

    simt::executor on_{};
    std::unique_ptr<memory_driver> driver_;  ///< owns memory of the host
    char* first_ = nullptr;
    std::uint64_t bytes_ = 0;
};

/// Creates a heap in memory that `where` selects. Memory of the caller's is stored in `memory`, unless that already has
/// the right size; it must outlive the heap. Errors: those of `heap::create_in`, and of the memory.
inline absl::StatusOr<heap> make_heap(lies_in where, const options& values, callers_memory& memory) {
    if (where == lies_in::its_own) {
        return heap::create(values);
    }
    if (!memory.is_for(values.capacity)) {
        absl::StatusOr<callers_memory> made = callers_memory::create(where, values);
        if (!made.ok()) {
            return made.status();
        }
        memory = *std::move(made);
    }
    return heap::create_in(memory.at(), memory.bytes(), values);
}

}  // namespace orchard::test
