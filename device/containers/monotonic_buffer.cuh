// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `monotonic_buffer_ref`: memory for many small objects, which are freed all together.
///
/// Objects lie one behind the other in chunks, each of which is one block of the heap. Eight chunks have the same size,
/// the next eight twice that. Lanes that ask together get their objects by one atomic addition to the place within the
/// newest chunk (number_word.cuh). If they do not fit, one thread allocates the next chunk that is large enough.
///
///     chunk        0           1          ...         8
///     objects   | a a b c . | d e f .. |       | g h i j k             |      `.`: the rest was too short
///     sizes       first       first              2 x first
///
/// Source: `std::pmr::monotonic_buffer_resource`, whose chunks also grow.

#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

#include "device/containers/number_word.cuh"
#include "device/group/lane_sums.cuh"
#include "device/group/leader.cuh"
#include "device/heap_ref.cuh"

namespace orchard {

/// The words of a buffer, in device memory; all zero is an empty buffer. Kernels alone write it.
struct monotonic_buffer_state {
    static constexpr std::uint32_t max_chunks = 256;
    using word = device::number_word<44, 10>;

    word places;  ///< a number is a place of 16 B in the newest chunk; a step is a chunk, of which some are left out
    simt::device_word<std::uint64_t> chunks[max_chunks]{};  ///< addresses; 0: left out, or not there yet
};

/// The view of a `monotonic_buffer` in kernels. Trivially copyable; pass it by value. It is valid while the buffer
/// lives. Threads of any kernel may allocate at the same time, in any divergence. `clear` excludes all other calls.
class monotonic_buffer_ref {
public:
    /// The largest object, in bytes.
    static constexpr std::uint64_t largest = std::uint64_t{64} << 20;

    monotonic_buffer_ref() = default;
    /// @param log_first  logarithm of the bytes of the first chunk, 12 to 21
    monotonic_buffer_ref(const heap_ref& heap, monotonic_buffer_state* state, std::uint32_t log_first)
        : heap_{heap}, state_{state}, log_first_{log_first - log_unit} {}

    /// Returns `bytes` bytes, aligned to 16 B, or null. They are free again after `clear`. A size of 0 gives null and
    /// is no failure; any other null is one, whose reason the heap records: there is no memory, or `bytes` is above
    /// `largest`. Lanes that call it together get their memory together, or null. A call that needs a chunk while
    /// another thread allocates one waits, and shares a failure of that thread. Cost: an atomic for each group of
    /// lanes, a ballot for each bit of the sizes, a load; `malloc` for the first object of a chunk.
    ORCHARD_FN void* allocate(std::uint64_t bytes) const {
        const simt::lane_mask here = simt::match(simt::converge(), reinterpret_cast<std::uintptr_t>(state_));
        const bool asks = bytes != 0 && bytes <= largest;
        const simt::lane_mask group = simt::ballot(here, asks);
        if (!asks) {
            if (bytes != 0) {
                device::slow::record_failure(*heap_.view().self, failure_reason::too_large, bytes, chunk_class);
            }
            return nullptr;
        }
        const auto units = static_cast<std::uint32_t>((bytes + unit - 1) >> log_unit);
        const device::lane_sum sum = device::sum_lanes(group, units);
        std::uint64_t begin = 0;
        if (device::is_leader(group)) {
            begin = take(sum.all);
        }
        begin = device::from_leader(group, begin);
        if (!simt::mutation::is(simt::mutation::fault::buffer_sync)) {
            simt::sync(group);  // what the leader has acquired
        }
        return begin == 0 ? nullptr : reinterpret_cast<void*>(begin + (sum.before << log_unit));
    }

    /// Returns a new object of type `T`, constructed from `args`, or null without memory. No destructor is called.
    template <class T, class... Args>
    [[nodiscard]] ORCHARD_FN T* make(Args&&... args) const {
        static_assert(alignof(T) <= unit, "objects are aligned to 16 B");
        static_assert(std::is_trivially_destructible_v<T>, "no destructor of an object is called");
        void* const p = allocate(sizeof(T));
        return p == nullptr ? nullptr : new (p) T(std::forward<Args>(args)...);
    }

    /// Frees all objects and all memory. One thread calls it, while no other thread uses the buffer. Cost: a load for
    /// each chunk so far, `free`.
    ORCHARD_FN void clear() const {
        const auto count = static_cast<std::uint32_t>(state_->places.read().steps);
        for (std::uint32_t k = 0; k < count; ++k) {
            auto& word = state_->chunks[k];
            heap_.free(reinterpret_cast<void*>(word.template load<simt::order::relaxed>()));
            word.template store<simt::order::relaxed>(0);
        }
        state_->places.reset();
    }

private:
    static constexpr std::uint32_t log_unit = 4;
    static constexpr std::uint64_t unit = std::uint64_t{1} << log_unit;
    static constexpr std::uint32_t log_of_a_size = 3;  ///< of the number of chunks of one size
    using parts = monotonic_buffer_state::word::parts;

    /// Returns the units of chunk `k`.
    [[nodiscard]] ORCHARD_INLINE std::uint64_t units_of(std::uint32_t k) const {
        return std::uint64_t{1} << (log_first_ + (k >> log_of_a_size));
    }

    /// Returns the address of `units` units; 0 without memory.
    ORCHARD_FN std::uint64_t take(std::uint64_t units) const {
        parts got{};
        const bool taken = state_->places.take(
            units, 4 * heap_.view().mailbox.patience_ns(),
            [&](std::uint64_t steps) { return steps == 0 ? 0 : units_of(static_cast<std::uint32_t>(steps - 1)); },
            [&](parts& at, parts& next) { return add_chunk(units, at, next); }, got);
        if (!taken) {
            return 0;
        }
        // Relaxed: the word was acquired.
        return state_->chunks[got.steps - 1].template load<simt::order::relaxed>() + (got.taken << log_unit);
    }

    /// Allocates the next chunk with `units` units, whose first ones are the caller's. The table is long enough: the
    /// chunks before its last one would take 2^46 bytes, and the last one is larger than any group's request.
    ORCHARD_NOINLINE bool add_chunk(std::uint64_t units, parts& at, parts& next) const {
        auto k = static_cast<std::uint32_t>(at.steps);
        while (units_of(k) < units) {
            ++k;
        }
        void* const p = heap_.malloc(units_of(k) << log_unit);
        if (p == nullptr) {
            return false;
        }
        // Relaxed: `number_word` releases it.
        state_->chunks[k].template store<simt::order::relaxed>(reinterpret_cast<std::uint64_t>(p));
        at = {0, std::uint64_t{k} + 1, at.failures};
        next = {units, at.steps, at.failures};
        return true;
    }

    heap_ref heap_;
    monotonic_buffer_state* state_ = nullptr;
    std::uint32_t log_first_ = 0;  ///< in units
};

}  // namespace orchard
