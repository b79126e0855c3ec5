// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `work_queue`, the owner of a queue in a heap between threads of kernels.

#include <bit>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "device/containers/work_queue.cuh"
#include "runtime/containers/container_base.hpp"

namespace orchard {

/// Owns a queue in a heap, into which and from which threads of kernels pass elements (`work_queue_ref`). Memory of
/// elements that were read goes back to the heap, which alone bounds the queue. `detail::container_base` has `ref`,
/// `clear` and the rules of its life.
///
///     auto queue = orchard::work_queue<task>::create(heap);     // absl::StatusOr
///     work<<<blocks, threads>>>(queue->ref());                  // queue.push(t), queue.pop(t)
///
/// `T`: trivially copyable, aligned to at most 16 B.
template <class T>
class work_queue : public detail::container_base<work_queue_state, work_queue_ref<T>> {
public:
    /// Returns an empty queue, which holds no memory of the heap yet.
    /// @param places  elements of a segment, the unit in which the queue takes and gives back memory: a power of two
    ///     from 64 to 2^20; 0: as many as take 64 KiB, or more if the ring would have more than 2^20 words
    /// Errors: InvalidArgument; those of `device_array`. Cost on CUDA: two `cudaMalloc`, which may wait for kernels; 8
    /// B of the device's memory for each segment that the heap has room for.
    static absl::StatusOr<work_queue> create(const orchard::heap& heap, std::uint64_t places = 0) {
        if (places != 0 && (!std::has_single_bit(places) || places < least_places || places > most_places)) {
            return absl::InvalidArgumentError(absl::StrFormat(
                "places = %d: a queue's segment has a power of two from 64 to 2^20 elements, or 0", places));
        }
        const std::uint64_t room = std::uint64_t{heap.view().segments} * segment_bytes;
        const std::uint64_t chosen = places != 0 ? places : places_for(room);
        work_queue made;
        if (absl::Status s = made.allocate_words(heap); !s.ok()) {
            return s;
        }
        auto ring = device_array<ring_word>::create(heap.executor(), ring_length(room, chosen));
        if (!ring.ok()) {
            return ring.status();
        }
        made.ring_ = *std::move(ring);
        made.ref_ =
            work_queue_ref<T>(heap.ref(), made.words_.data(), static_cast<std::uint32_t>(std::countr_zero(chosen)),
                              made.ring_.data(), made.ring_.size());
        return made;
    }
    work_queue(work_queue&& other) noexcept = default;
    work_queue& operator=(work_queue&& other) noexcept = default;
    /// Frees all memory. No kernel may use the queue any more.
    ~work_queue() {
        this->release();  // needs the ring
    }

    /// Returns the number of elements. Errors: those of the copy. Cost: waits for the executor's stream, and a copy.
    [[nodiscard]] absl::StatusOr<std::uint64_t> size() const {
        const auto now = this->words();
        if (!now.ok()) {
            return now.status();
        }
        return now->ready.template load<simt::order::relaxed>();
    }

private:
    using ring_word = typename work_queue_ref<T>::ring_word;
    static constexpr std::uint64_t least_places = 64;
    static constexpr std::uint64_t most_places = std::uint64_t{1} << 20;
    static constexpr std::uint64_t longest_ring = std::uint64_t{1} << 20;

    work_queue() = default;

    /// Returns the length of the ring of a queue in a heap of `room` bytes: more segments than fit the heap.
    static std::uint64_t ring_length(std::uint64_t room, std::uint64_t places) {
        return std::bit_ceil(room / work_queue_ref<T>::segment_bytes_of(places) + 2);
    }
    static std::uint64_t places_for(std::uint64_t room) {
        std::uint64_t places = least_places;
        while (places < most_places &&
               (2 * places * sizeof(T) <= std::uint64_t{64} << 10 || ring_length(room, places) > longest_ring)) {
            places *= 2;
        }
        return places;
    }

    device_array<ring_word> ring_;
};

}  // namespace orchard
