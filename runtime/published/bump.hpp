// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `bump`, the owner of memory that kernels take from one counter.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "device/published/bump.cuh"
#include "runtime/heap/device_memory.hpp"
#include "runtime/published/device_block.hpp"

namespace orchard {

/// The settings of a `bump`.
struct bump_settings {
    std::uint64_t capacity = std::uint64_t{64} << 20;  ///< bytes; at least 16, at most 2^47; rounded down to 16 B
};

/// Owns memory that kernels take from one counter (`bump_ref`): the baseline of other allocators. Move-only; one thread
/// of the host at a time.
///
///     auto memory = orchard::bump::create(on, {.capacity = 1 << 30});     // absl::StatusOr
///     fill<<<blocks, threads>>>(memory->ref());                           // ref.malloc(bytes)
///     memory->initialise();                                               // takes all blocks back
class bump {
public:
    /// Returns an allocator all of whose memory is free, for kernels of `on`. Errors: InvalidArgument; those of
    /// `allocate_device_memory`. Cost on CUDA: two `cudaMalloc`, which may wait for kernels.
    static absl::StatusOr<bump> create(const simt::executor& on, const bump_settings& settings = {}) {
        if (settings.capacity < bump_ref::unit || settings.capacity > most_bytes) {
            return absl::InvalidArgumentError(
                absl::StrFormat("capacity = %d: a bump allocator has 16 to %d bytes", settings.capacity, most_bytes));
        }
        auto memory = detail::device_block::create(on, settings.capacity);
        if (!memory.ok()) {
            return memory.status();
        }
        auto top = device_array<bump_ref::word>::create(on, 1);
        if (!top.ok()) {
            return top.status();
        }
        bump made;
        made.on_ = on;
        made.memory_ = *std::move(memory);
        made.top_ = *std::move(top);
        made.units_ = settings.capacity / bump_ref::unit;
        return made;
    }

    /// Returns the view for kernels, valid while this object, or the object that it was moved to, lives.
    [[nodiscard]] bump_ref ref() const { return {memory_.data(), units_, top_.data()}; }
    /// Returns the device on which the allocator's kernels run.
    [[nodiscard]] const simt::executor& executor() const { return on_; }
    /// Takes all blocks back. No kernel may use them any more. Errors: the device's own. Cost: sets one word.
    absl::Status initialise() { return top_.zero(); }
    /// Returns the bytes that were given out, with those that were lost (`bump_ref::malloc`). Errors: those of the
    /// copy. Cost: waits for the executor's stream.
    [[nodiscard]] absl::StatusOr<std::uint64_t> used() const {
        std::vector<bump_ref::word> top(1);
        if (absl::Status s = top_.download(top); !s.ok()) {
            return s;
        }
        return std::min(top.front().load<simt::order::relaxed>(), units_) * bump_ref::unit;
    }

private:
    static constexpr std::uint64_t most_bytes = std::uint64_t{1} << 47;

    bump() = default;

    simt::executor on_{};
    detail::device_block memory_;
    device_array<bump_ref::word> top_;
    std::uint64_t units_ = 0;
};

}  // namespace orchard
