// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `monotonic_buffer`, the owner of objects in a heap that are freed together.

#include <bit>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "device/containers/monotonic_buffer.cuh"
#include "runtime/containers/container_base.hpp"

namespace orchard {

/// Owns memory for many small objects, which kernels allocate (`monotonic_buffer_ref`), and which `clear` and the
/// destructor free all at once. `detail::container_base` has `ref`, `clear` and the rules of its life.
///
///     auto nodes = orchard::monotonic_buffer::create(heap);     // absl::StatusOr
///     build<<<blocks, threads>>>(nodes->ref(), ...);            // node* n = nodes.make<node>(...)
///     nodes->clear();
class monotonic_buffer : public detail::container_base<monotonic_buffer_state, monotonic_buffer_ref> {
public:
    /// Returns an empty buffer, which holds no memory of the heap yet.
    /// @param first  bytes of the first chunk: a power of two from 4 KiB to 2 MiB. Each eighth chunk, the size doubles,
    ///     so that the newest chunk has at most an eighth of the memory from the ninth on.
    /// Errors: InvalidArgument; those of `device_array`. Cost on CUDA: a `cudaMalloc`, which may wait for kernels.
    static absl::StatusOr<monotonic_buffer> create(const orchard::heap& heap, std::uint64_t first = 64 << 10) {
        if (!std::has_single_bit(first) || first < 4096 || first > segment_bytes) {
            return absl::InvalidArgumentError(absl::StrFormat(
                "first = %d: a buffer's first chunk has a power of two from 4096 to 2097152 bytes", first));
        }
        monotonic_buffer made;
        if (absl::Status s = made.allocate_words(heap); !s.ok()) {
            return s;
        }
        made.ref_ =
            monotonic_buffer_ref(heap.ref(), made.words_.data(), static_cast<std::uint32_t>(std::countr_zero(first)));
        return made;
    }

private:
    monotonic_buffer() = default;
};

}  // namespace orchard
