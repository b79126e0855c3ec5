// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `array_list`, the owner of an array in a heap to which kernels append.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "device/containers/array_list.cuh"
#include "runtime/containers/container_base.hpp"

namespace orchard {

/// Owns an array in a heap, to which threads of any kernel append (`array_list_ref`). It grows while kernels run, and
/// its elements never move. `detail::container_base` has `ref`, `clear` and the rules of its life.
///
///     auto list = orchard::array_list<edge>::create(heap);      // absl::StatusOr
///     find_edges<<<blocks, threads>>>(list->ref(), ...);        // list.push_back({u, v})
///     list->size();                                             // after the kernel
///
/// `T`: trivially copyable, aligned to at most 16 B.
template <class T>
class array_list : public detail::container_base<array_list_state, array_list_ref<T>> {
    static_assert(std::is_trivially_copyable_v<T>, "elements are copied as bytes");

public:
    /// Returns an empty list, which holds no memory of the heap yet.
    /// @param first  elements of the first segment: a power of two from 32 to 2^20. Each further segment is twice as
    ///     large as the one before, so that a list has room for up to twice its elements, and at least for `first`.
    /// Errors: InvalidArgument; those of `device_array`. Cost on CUDA: a `cudaMalloc`, which may wait for kernels.
    static absl::StatusOr<array_list> create(const orchard::heap& heap, std::uint64_t first = 1024) {
        if (!std::has_single_bit(first) || first < 32 || first > std::uint64_t{1} << 20) {
            return absl::InvalidArgumentError(absl::StrFormat(
                "first = %d: a list's first segment has a power of two from 32 to 2^20 elements", first));
        }
        array_list made;
        if (absl::Status s = made.allocate_words(heap); !s.ok()) {
            return s;
        }
        made.ref_ =
            array_list_ref<T>(heap.ref(), made.words_.data(), static_cast<std::uint32_t>(std::countr_zero(first)));
        return made;
    }

    /// Returns the number of elements. Errors: Internal if a kernel was stopped while it added memory to the list,
    /// which fails all calls from then on but `clear`; those of the copy. Cost: waits for the executor's stream, and a
    /// copy.
    [[nodiscard]] absl::StatusOr<std::uint64_t> size() const {
        const auto now = this->words();
        return now.ok() ? size_of(*now) : now.status();
    }

    /// Returns all elements. Errors: those of `size` and of the copies. Cost: as `size`, and a copy for each segment.
    [[nodiscard]] absl::StatusOr<std::vector<T>> contents() const {
        const auto now = this->words();
        const auto count = now.ok() ? size_of(*now) : now.status();
        if (!count.ok()) {
            return count.status();
        }
        std::vector<T> all(*count);
        const std::span<T> left(all);
        for (std::uint32_t k = 0; this->ref_.first_of(k) < *count; ++k) {
            const std::uint64_t begin = this->ref_.first_of(k);
            const std::span<T> part = left.subspan(begin, std::min(*count, this->ref_.first_of(k + 1)) - begin);
            const auto from = now->segments[k].template load<simt::order::relaxed>();
            if (absl::Status s =
                    copy_to_host(this->on_, part.data(), reinterpret_cast<const void*>(from), part.size_bytes());
                !s.ok()) {
                return s;
            }
        }
        return all;
    }

private:
    array_list() = default;

    [[nodiscard]] absl::StatusOr<std::uint64_t> size_of(const array_list_state& words) const {
        const auto now = words.numbers.read();
        if (now.taken > this->ref_.first_of(static_cast<std::uint32_t>(now.steps))) {
            return absl::InternalError("a kernel was stopped while it added memory to the list");
        }
        return now.taken;
    }
};

}  // namespace orchard
