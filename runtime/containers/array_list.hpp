// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `array_list`, the owner of an array in a heap to which kernels append.

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "device/containers/array_list.cuh"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/heap.hpp"

namespace orchard {

namespace detail {
/// The kernels of the host's functions.
template <class T>
struct clear_list {
    array_list_ref<T> list;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.global_thread() == 0) {
            list.clear();
        }
    }
};
template <class T>
struct copy_list {
    array_list_ref<T> list;
    T* to;
    std::uint64_t count;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t all = at.threads();
        for (std::uint64_t i = at.global_thread(); i < count; i += all) {
            to[i] = list[i];
        }
    }
};
}  // namespace detail

/// Owns an array in a heap, to which threads of any kernel append (`array_list_ref`). It grows while kernels run, and
/// its elements never move. The heap must outlive it. Move-only; one thread of the host at a time.
///
///     auto list = orchard::array_list<edge>::create(heap);      // absl::StatusOr
///     find_edges<<<blocks, threads>>>(list->ref(), ...);        // list.push_back({u, v})
///     list->size();                                             // after the kernel
///
/// `T`: trivially copyable, aligned to at most 16 B; zero bytes are a valid value.
template <class T>
class array_list {
    static_assert(std::is_trivially_copyable_v<T>, "elements are copied as bytes");

public:
    /// Returns an empty list, which holds no memory of the heap yet.
    /// @param first  elements of the first segment: a power of two from 32 to 2^20. Each further segment is twice as
    ///     large as the one before, so that a list holds up to three times what its elements need, and at least
    ///     `first`.
    /// Errors: InvalidArgument; those of `device_array`. Cost on CUDA: a `cudaMalloc`, which may wait for kernels.
    static absl::StatusOr<array_list> create(const orchard::heap& heap, std::uint64_t first = 1024) {
        if (!std::has_single_bit(first) || first < 32 || first > std::uint64_t{1} << 20) {
            return absl::InvalidArgumentError(absl::StrFormat(
                "first = %d: a list's first segment has a power of two from 32 to 2^20 elements", first));
        }
        auto state = device_array<array_list_state>::create(heap.executor(), 1);
        if (!state.ok()) {
            return state.status();
        }
        array_list made;
        made.state_ = *std::move(state);
        made.on_ = heap.executor();
        made.ref_ =
            array_list_ref<T>(heap.ref(), made.state_.data(), static_cast<std::uint32_t>(std::countr_zero(first)));
        return made;
    }
    array_list(array_list&& other) noexcept { swap(other); }
    array_list& operator=(array_list&& other) noexcept {
        swap(other);
        return *this;
    }
    /// Frees all memory. No kernel may use the list any more.
    ~array_list() {
        if (state_.data() != nullptr) {
            (void)clear();
        }
    }

    /// Returns the view for kernels.
    [[nodiscard]] array_list_ref<T> ref() const { return ref_; }
    /// Returns the number of elements. Errors: Internal if some numbers have no element, because a kernel was stopped
    /// or the heap did not answer in time; those of the copy. Cost: waits for the executor's stream, and a copy.
    [[nodiscard]] absl::StatusOr<std::uint64_t> size() const {
        std::vector<array_list_state> words(1);
        if (absl::Status s = state_.download(words); !s.ok()) {
            return s;
        }
        const std::uint32_t holes = words[0].holes.template load<simt::order::relaxed>();
        if (holes != 0) {
            return absl::InternalError(absl::StrFormat(
                "%d numbers of the list have no element: the heap did not answer within four times request_timeout",
                holes));
        }
        return words[0].size.template load<simt::order::relaxed>();
    }
    /// Frees all memory, and empties the list. Errors: those of a launch. Cost: a kernel.
    absl::Status clear() {
        const simt::launch_result done = simt::launch(on_, {1, 32}, detail::clear_list<T>{ref_});
        return done.ok ? absl::OkStatus() : to_status(done);
    }
    /// Returns all elements. Errors: those of `size`, of memory for a copy on the device, and of a launch.
    [[nodiscard]] absl::StatusOr<std::vector<T>> contents() const {
        const auto count = size();
        if (!count.ok()) {
            return count.status();
        }
        std::vector<T> all(*count);
        if (all.empty()) {
            return all;
        }
        auto copy = device_array<T>::create(on_, *count);
        if (!copy.ok()) {
            return copy.status();
        }
        const simt::launch_result done =
            simt::launch(on_, simt::grid_for(*count), detail::copy_list<T>{ref_, copy->data(), *count});
        if (!done.ok) {
            return to_status(done);
        }
        if (absl::Status s = copy->download(all); !s.ok()) {
            return s;
        }
        return all;
    }

private:
    array_list() = default;
    void swap(array_list& other) noexcept {
        std::swap(ref_, other.ref_);
        std::swap(state_, other.state_);
        std::swap(on_, other.on_);
    }

    array_list_ref<T> ref_;
    device_array<array_list_state> state_;
    simt::executor on_{};
};

}  // namespace orchard
