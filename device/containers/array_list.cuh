// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `array_list_ref`: an array in a heap, to which any threads append while a kernel runs. Its elements never move.
///
/// The elements lie in segments, each twice as large as the one before. A segment is one block of the heap, which the
/// first thread that needs it allocates.
///
///     segment          0         1              2
///     elements     | 0 .. 63 | 64 .. 191 | 192 .. 447 |          the first segment has 64 elements
///     table        [   p0    |    p1     |     p2     |  none  | ... ]
///
/// To append, a group of lanes takes numbers from the list's word (number_word.cuh), and writes the elements:
///
///     push_back, grow     a group of lanes takes numbers by one atomic
///     grow_warp           a mask's lanes get one range
///     grow_block          a block's threads get one range each, by one atomic for the block
///       take              calls `number_word::take`, whose `add` calls `add_segments`
///
/// Source: the array list of KMA (R. Spliet, 2013), whose segments hang in a list; here a table finds a segment in
/// constant time.

#include <cstdint>
#include <new>
#include <type_traits>

#include "device/containers/number_word.cuh"
#include "device/group/lane_sums.cuh"
#include "device/group/leader.cuh"
#include "device/heap_ref.cuh"
#include "device/simt/block.cuh"
#include "device/simt/mutation.cuh"

namespace orchard {

/// The words of a list, in device memory; all zero is an empty list. Kernels alone write it.
struct array_list_state {
    static constexpr std::uint32_t max_segments = 40;

    device::number_word<48, 8> numbers;                         ///< a step is a segment
    simt::device_word<std::uint64_t> segments[max_segments]{};  ///< addresses, of as many as there are steps
};

/// The view of an `array_list` in kernels. Trivially copyable; pass it by value. It is valid while the list lives.
///
/// Threads of any kernel may append at the same time, in any divergence. An element may be read by the thread that
/// appended it, by threads that synchronize with that one, and by later kernels. `clear` excludes all other calls.
///
/// A call that needs memory while another thread is allocating it waits, and shares a failure of that thread; the heap
/// records its reason. A failed call leaves the list as it was, and may be repeated.
template <class T>
class array_list_ref {
    static_assert(alignof(T) <= 16, "elements are aligned to at most 16 B, as blocks of the heap are");
    static_assert(std::is_trivially_destructible_v<T>, "no destructor of an element is called");

public:
    /// The result of a call that appended nothing.
    static constexpr std::uint64_t npos = ~std::uint64_t{0};
    /// The most elements that one thread appends by one call.
    static constexpr std::uint64_t most_at_once = std::uint64_t{1} << 28;

    array_list_ref() = default;
    /// @param log_first  logarithm of the elements of the first segment, 5 to 20
    array_list_ref(const heap_ref& heap, array_list_state* state, std::uint32_t log_first)
        : heap_{heap}, state_{state}, log_first_{log_first} {}

    /// Appends a copy of `value`, and returns its address; null if there is no memory. Lanes that call it together get
    /// consecutive numbers, in the order of the lanes, or null. Cost: an atomic for each group of lanes, and a load
    /// for the segment's address; `malloc` for the first element of each segment.
    ORCHARD_FN T* push_back(const T& value) const {
        const simt::lane_mask group = group_here();
        const auto all = static_cast<std::uint64_t>(simt::popcount(group));
        const std::uint64_t i = take(group, all, static_cast<std::uint64_t>(simt::rank_in(group)));
        return i == npos ? nullptr : new (address(i)) T(value);
    }

    /// Appends `count` elements, and returns the number of the first; the others follow it. They have no values yet.
    /// Returns `npos` if there is no memory, and for a count of 0 or above `most_at_once`. Lanes that call it together
    /// get ranges one behind the other, in the order of the lanes, or `npos`. A range may lie in several segments.
    /// Cost: as `push_back`, and a ballot for each bit of the counts.
    ORCHARD_FN std::uint64_t grow(std::uint64_t count) const {
        const simt::lane_mask here = group_here();
        const bool asks = count != 0 && count <= most_at_once;
        const simt::lane_mask group = simt::ballot(here, asks);
        if (!asks) {
            return npos;
        }
        const device::lane_sum sum = device::sum_lanes(group, static_cast<std::uint32_t>(count));
        return take(group, sum.all, sum.before);
    }

    /// Appends one range of `count` elements for the lanes of `lanes`, and returns the number of the first to all of
    /// them; `npos` as `grow`. All lanes of the mask call it, with the same count. Cost: as `push_back`.
    ORCHARD_FN std::uint64_t grow_warp(simt::lane_mask lanes, std::uint64_t count) const {
        return count == 0 || count > most_at_once ? npos : take(lanes, count, 0);
    }

    /// Appends `count` elements for each thread of the block, by one atomic, and returns the number of the thread's
    /// first one. The threads' ranges follow each other in the order of the threads. All threads of the block call it,
    /// of whom any may pass 0. `npos`: as `grow`; without memory all get it. Cost: two sums over the block
    /// (`simt::sum_in_block`), an atomic.
    ORCHARD_FN std::uint64_t grow_block(std::uint64_t count) const {
        const std::uint64_t mine = count <= most_at_once ? count : 0;
        const simt::block_sum sum = simt::sum_in_block(mine);
        std::uint64_t first = 0;
        if (simt::position().thread == 0 && sum.all != 0) {
            first = take_alone(sum.all) + 1;  // `npos` + 1 is 0
        }
        first = simt::sum_in_block(first).all - 1;
        return mine == 0 || first == npos ? npos : first + sum.before;
    }

    /// Returns element `i` < `size()`.
    template <class Index, device::if_integer<Index> = 0>
    [[nodiscard]] ORCHARD_INLINE T& operator[](Index i) const {
        return simt::touched(*address(static_cast<std::uint64_t>(i)));
    }

    /// Returns the number of elements. While other threads append, some of them may not have their values yet, and
    /// others may turn out not to have been appended.
    [[nodiscard]] ORCHARD_INLINE std::uint64_t size() const { return size_of(state_->numbers.read()); }

    /// Calls `visit(i, element)` for each element `i` that the list had at the call: by this thread alone; by the lanes
    /// of a mask, which share the elements; by the threads of this block; by the threads of the grid. Neighbouring
    /// threads get neighbouring elements. While other threads append, `visit` may read those that the rules above let
    /// it read, and leaves the others alone. Cost: a load for each segment.
    template <class Visit>
    ORCHARD_FN void for_each(const Visit& visit) const {
        for_each_from(0, 1, visit);
    }
    template <class Visit>
    ORCHARD_FN void for_each_warp(simt::lane_mask lanes, const Visit& visit) const {
        for_each_from(static_cast<std::uint64_t>(simt::rank_in(lanes)),
                      static_cast<std::uint64_t>(simt::popcount(lanes)), visit);
    }
    template <class Visit>
    ORCHARD_FN void for_each_block(const Visit& visit) const {
        const simt::thread_position at = simt::position();
        for_each_from(at.thread, at.threads_per_block, visit);
    }
    template <class Visit>
    ORCHARD_FN void for_each_grid(const Visit& visit) const {
        const simt::thread_position at = simt::position();
        for_each_from(at.global_thread(), at.threads(), visit);
    }

    /// Frees all memory and empties the list. One thread calls it, while no other thread uses the list.
    ORCHARD_FN void clear() const {
        const auto count = static_cast<std::uint32_t>(state_->numbers.read().steps);
        for (std::uint32_t k = 0; k < count; ++k) {
            heap_.free(segment(k));
        }
        state_->numbers.reset();
    }

    /// Returns the segment that element `i` lies in, and the number of the first element of a segment.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t segment_of(std::uint64_t i) const {
        const std::uint64_t at = (i >> log_first_) + 1;
        const auto high = static_cast<std::uint32_t>(at >> 32);
        return static_cast<std::uint32_t>(high != 0 ? 32 + simt::highest_bit(high)
                                                    : simt::highest_bit(static_cast<std::uint32_t>(at)));
    }
    [[nodiscard]] ORCHARD_INLINE std::uint64_t first_of(std::uint32_t segment) const {
        return ((std::uint64_t{1} << segment) - 1) << log_first_;
    }
    /// Returns the address of a segment that is there. Relaxed: the thread that took a number in the segment has
    /// acquired the address, and readers synchronize with that thread.
    [[nodiscard]] ORCHARD_INLINE T* segment(std::uint32_t k) const {
        return reinterpret_cast<T*>(state_->segments[k].template load<simt::order::relaxed>());
    }

private:
    using parts = device::number_word<48, 8>::parts;

    /// Returns the lanes that call together for this list, at one place.
    [[nodiscard]] ORCHARD_INLINE simt::lane_mask group_here(simt::site where = simt::site::here()) const {
        return simt::match(simt::converge(where), reinterpret_cast<std::uintptr_t>(state_), where);
    }
    [[nodiscard]] ORCHARD_INLINE T* address(std::uint64_t i) const {
        const std::uint32_t k = segment_of(i);
        return segment(k) + (i - first_of(k));
    }

    /// Returns the numbers that have memory.
    [[nodiscard]] ORCHARD_INLINE std::uint64_t size_of(const parts& now) const {
        const std::uint64_t end = first_of(static_cast<std::uint32_t>(now.steps));
        return now.taken < end ? now.taken : end;
    }

    /// Takes `count` numbers for the group, and returns the first plus `before`; `npos` without memory.
    ORCHARD_FN std::uint64_t take(simt::lane_mask group, std::uint64_t count, std::uint64_t before) const {
        std::uint64_t first = npos;
        if (device::is_leader(group)) {
            first = take_alone(count);
        }
        first = device::from_leader(group, first);
        simt::sync(group);  // what the leader has acquired
        return first == npos ? npos : first + before;
    }
    ORCHARD_FN std::uint64_t take_alone(std::uint64_t count) const {
        parts got{};
        const bool taken = state_->numbers.take(
            count, 4 * heap_.view().mailbox.patience_ns(),
            [&](std::uint64_t steps) { return first_of(static_cast<std::uint32_t>(steps)); },
            [&](const parts&, parts& next) { return add_segments(next); }, got);
        return taken ? got.taken : npos;
    }

    /// Allocates segments until the numbers below `next.taken` have theirs. Returns false without memory for one of
    /// them; those before it stay. The table is long enough: 40 segments take 2^45 bytes at the least, and the first
    /// one that is larger than the heap fails.
    ORCHARD_NOINLINE bool add_segments(parts& next) const {
        for (; first_of(static_cast<std::uint32_t>(next.steps)) < next.taken; ++next.steps) {
            void* const p = heap_.malloc((std::uint64_t{sizeof(T)} << log_first_) << next.steps);
            if (p == nullptr) {
                return false;
            }
            // Relaxed: `number_word` releases it.
            state_->segments[next.steps].template store<simt::order::relaxed>(reinterpret_cast<std::uint64_t>(p));
        }
        return true;
    }

    template <class Visit>
    ORCHARD_FN void for_each_from(std::uint64_t first, std::uint64_t stride, const Visit& visit) const {
        simt::mutation::weaken_next(simt::mutation::fault::list_visit);
        const std::uint64_t count = size_of(state_->numbers.acquire());  // with the addresses of the segments
        std::uint64_t i = first;
        for (std::uint32_t k = 0; i < count; ++k) {
            T* const elements = segment(k);
            const std::uint64_t begin = first_of(k);
            const std::uint64_t end = first_of(k + 1) < count ? first_of(k + 1) : count;
            for (; i < end; i += stride) {
                visit(i, simt::touched(elements[i - begin]));
            }
        }
    }

    heap_ref heap_;
    array_list_state* state_ = nullptr;
    std::uint32_t log_first_ = 0;
};

}  // namespace orchard
