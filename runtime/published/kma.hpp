// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `kma`, the owner of KMA's superblocks.

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "device/published/kma/kma_ref.cuh"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/launch_status.hpp"
#include "runtime/published/device_block.hpp"

namespace orchard {

/// The settings of a `kma`.
struct kma_settings {
    std::uint64_t capacity = std::uint64_t{64} << 20;  ///< bytes, rounded down to whole superblocks
    std::uint32_t superblock_bytes = 4096;  ///< a power of two, 1 KiB to 64 KiB; the largest block has 32 less
};

namespace detail {

/// Thread i writes part i of an allocator.
struct make_kma_parts {
    kma_ref made;
    std::uint32_t parts;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.global_thread() < parts) {
            made.make_part(static_cast<std::uint32_t>(at.global_thread()));
        }
    }
};

/// Thread i counts superblock i.
struct count_kma_superblocks {
    kma_ref from;
    kma_usage* sum;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.global_thread() < from.superblocks()) {
            from.count(static_cast<std::uint32_t>(at.global_thread()), sum);
        }
    }
};

}  // namespace detail

/// Owns the memory of an allocator of superblocks (`kma_ref`). Move-only; one thread of the host at a time.
///
///     auto memory = orchard::kma::create(on, {.capacity = 1 << 30});      // absl::StatusOr
///     kernel<<<blocks, threads>>>(memory->ref());                         // ref.malloc(bytes), ref.free(p)
///
/// The kernels for a GPU are launched here, so that the source that uses it is one for nvcc then.
class kma {
public:
    /// Returns an allocator all of whose memory is free, for kernels of `on`. Errors: InvalidArgument; those of
    /// `allocate_device_memory` and of a launch. Cost on CUDA: four `cudaMalloc`, which may wait for kernels; beside
    /// the capacity 12 B for each superblock and 2 KiB; a kernel.
    static absl::StatusOr<kma> create(const simt::executor& on, const kma_settings& settings = {}) {
        if (absl::Status s = check(settings); !s.ok()) {
            return s;
        }
        kma made;
        made.on_ = on;
        made.log_bytes_ = static_cast<std::uint32_t>(std::countr_zero(settings.superblock_bytes));
        made.superblocks_ = static_cast<std::uint32_t>(settings.capacity >> made.log_bytes_);
        if (absl::Status s = made.allocate(); !s.ok()) {
            return s;
        }
        if (absl::Status s = made.initialise(); !s.ok()) {
            return s;
        }
        return made;
    }

    /// Returns the view for kernels, valid while this object, or the object that it was moved to, lives.
    [[nodiscard]] kma_ref ref() const {
        return {memory_.data(), superblocks_, log_bytes_, state_.data(), next_.data(), values_.data()};
    }
    /// Returns the device on which the allocator's kernels run.
    [[nodiscard]] const simt::executor& executor() const { return on_; }
    /// Takes all blocks back. No kernel may use them any more. Errors: those of a launch. Cost: a kernel.
    absl::Status initialise() {
        return to_status(simt::launch(on_, simt::grid_for(nodes()), detail::make_kma_parts{ref(), nodes()}));
    }
    /// Returns what the superblocks are used for. No kernel may use the allocator meanwhile. Errors: those of a launch
    /// and of `device_array`. Cost: a kernel.
    [[nodiscard]] absl::StatusOr<kma_usage> usage() const {
        auto sum = device_array<kma_usage>::create(on_, 1);
        if (!sum.ok()) {
            return sum.status();
        }
        absl::Status s = to_status(
            simt::launch(on_, simt::grid_for(superblocks_), detail::count_kma_superblocks{ref(), sum->data()}));
        std::vector<kma_usage> copy(1);
        s.Update(sum->download(copy));
        return s.ok() ? absl::StatusOr<kma_usage>(copy.front()) : s;
    }

private:
    static constexpr std::uint64_t most_superblocks = std::uint64_t{1} << 30;

    kma() = default;

    static absl::Status check(const kma_settings& settings) {
        const std::uint32_t bytes = settings.superblock_bytes;
        if (!std::has_single_bit(bytes) || bytes < 1024 || bytes > 65536) {
            return absl::InvalidArgumentError(absl::StrFormat(
                "superblock_bytes = %d: a superblock has a power of two from 1024 to 65536 bytes", bytes));
        }
        if (settings.capacity < bytes || settings.capacity / bytes > most_superblocks) {
            return absl::InvalidArgumentError(absl::StrFormat(
                "capacity = %d: KMA has 1 to 2^30 superblocks, here of %d bytes each", settings.capacity, bytes));
        }
        return absl::OkStatus();
    }
    [[nodiscard]] std::uint32_t nodes() const { return kma_ref::nodes(superblocks_, log_bytes_); }
    absl::Status allocate() {
        auto memory = detail::device_block::create(on_, std::uint64_t{superblocks_} << log_bytes_);
        auto state = device_array<kma_state>::create(on_, 1);
        auto next = device_array<device::superblock_queues::word>::create(on_, nodes());
        auto values = device_array<device::superblock_queues::index_word>::create(on_, nodes());
        absl::Status s = memory.status();
        s.Update(state.status());
        s.Update(next.status());
        s.Update(values.status());
        if (s.ok()) {
            memory_ = *std::move(memory);
            state_ = *std::move(state);
            next_ = *std::move(next);
            values_ = *std::move(values);
        }
        return s;
    }

    simt::executor on_{};
    detail::device_block memory_;
    device_array<kma_state> state_;
    device_array<device::superblock_queues::word> next_;
    device_array<device::superblock_queues::index_word> values_;
    std::uint32_t superblocks_ = 0;
    std::uint32_t log_bytes_ = 0;
};

}  // namespace orchard
