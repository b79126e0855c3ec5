// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `array_list_ref`: an array in a heap, to which any threads append while a kernel runs. Its elements never move.
///
/// The elements lie in segments, each twice as large as the one before. A segment is one block of the heap, which the
/// first thread that needs it allocates.
///
///     segment          0         1              2
///     elements     | 0 .. 63 | 64 .. 191 | 192 .. 447 | ...         `first` = 64
///     table        [   p0    |    p1     |   being made   |  none  | ... ]
///
/// To append, a group of lanes takes numbers by one atomic addition to `size`, then makes sure that their segments are
/// there, then writes the elements.
///
///     reserve          takes numbers for a group
///       make_segment     allocates a segment, or waits for the thread that does
///       give_back        without memory: returns the numbers, so that no number lacks its element
///
/// Source: the array list of KMA (R. Spliet, 2013), whose segments hang in a list; here a table finds a segment in
/// constant time.

#include <cstdint>
#include <new>
#include <type_traits>

#include "device/group/leader.cuh"
#include "device/heap_ref.cuh"

namespace orchard {

/// The words of a list, in device memory; all zero is an empty list. Kernels alone write it.
struct array_list_state {
    static constexpr std::uint32_t max_segments = 40;

    simt::device_word<std::uint64_t> size{0};  ///< numbers taken; those of calls under way may be given back
    /// Calls that are giving numbers back. Calls that begin meanwhile fail at once: they would need the same memory,
    /// and must not take numbers behind those that are given back.
    simt::device_word<std::uint32_t> giving_back{0};
    simt::device_word<std::uint32_t> holes{0};  ///< numbers that could not be given back in time, and have no element
    simt::device_word<std::uint64_t> segments[max_segments]{};  ///< addresses; `none`, or `in_making`

    static constexpr std::uint64_t none = 0;
    static constexpr std::uint64_t in_making = 1;
};

/// The view of an `array_list` in kernels. Trivially copyable; pass it by value. It is valid while the list lives.
///
/// Threads of any kernel may append at the same time, in any divergence. An element may be read by the thread that
/// appended it, by threads that synchronize with that one, and by later kernels. `clear` excludes all other calls.
template <class T>
class array_list_ref {
    static_assert(alignof(T) <= 16, "elements are aligned to at most 16 B, as blocks of the heap are");
    static_assert(std::is_trivially_destructible_v<T>, "no destructor of an element is called");

public:
    /// The result of a call that found no memory.
    static constexpr std::uint64_t npos = ~std::uint64_t{0};

    array_list_ref() = default;
    /// @param log_first  logarithm of the elements of the first segment, 5 to 20
    array_list_ref(const heap_ref& heap, array_list_state* state, std::uint32_t log_first)
        : heap_{heap}, state_{state}, log_first_{log_first} {}

    /// Appends a copy of `value`, and returns its address; null if the heap has no memory, which it records. Lanes that
    /// call it together get consecutive numbers, in the order of the lanes. Cost: an atomic for each group of lanes,
    /// and a load for the segment's address; `malloc` for the first element of each segment.
    ORCHARD_FN T* push_back(const T& value) const {
        const std::uint64_t i = grow(1);
        return i == npos ? nullptr : new (address(i)) T(value);
    }

    /// Appends `count` elements without values, and returns the number of the first; the others follow it. `npos` if
    /// the heap has no memory; the list is unchanged then. `grow(0)` returns `npos`. Lanes that call it together get
    /// ranges one behind the other, in the order of the lanes. Elements of one range may lie in two segments or more.
    /// Cost: as `push_back`; a scan of the lanes' counts.
    ORCHARD_FN std::uint64_t grow(std::uint64_t count) const {
        const simt::lane_mask here = simt::converge();
        const simt::lane_mask group = simt::match(here, reinterpret_cast<std::uintptr_t>(state_));
        const bool sane = count != 0 && count <= most_at_once;
        // Counts that many lanes add up to fit 32 bits: each is limited, or the lane calls alone below.
        const bool small = sane && count < (1u << 26);
        const simt::lane_mask together = simt::ballot(group, small);
        std::uint64_t result = npos;
        if (small) {
            result = grow_together(together, static_cast<std::uint32_t>(count));
        } else if (sane) {
            std::uint64_t room = 0;
            result = reserve(count, room);
        }
        return result;
    }

    /// Returns element `i` < `size()`.
    template <class Index, device::if_integer<Index> = 0>
    [[nodiscard]] ORCHARD_INLINE T& operator[](Index i) const {
        return simt::touched(*static_cast<T*>(address(static_cast<std::uint64_t>(i))));
    }

    /// Returns the number of elements. While other threads append, some of them may not have their values yet.
    [[nodiscard]] ORCHARD_INLINE std::uint64_t size() const {
        return state_->size.template load<simt::order::relaxed>();
    }

    /// Frees all memory and empties the list. One thread calls it, while no other thread uses the list.
    ORCHARD_FN void clear() const {
        for (auto& word : state_->segments) {
            const std::uint64_t at = word.template load<simt::order::relaxed>();
            if (at != array_list_state::none) {
                heap_.free(reinterpret_cast<void*>(at));
                word.template store<simt::order::relaxed>(array_list_state::none);
            }
        }
        state_->size.template store<simt::order::relaxed>(0);
        state_->holes.template store<simt::order::relaxed>(0);
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
    /// Returns the heap, and the words of the list.
    [[nodiscard]] ORCHARD_INLINE const heap_ref& heap() const { return heap_; }
    [[nodiscard]] ORCHARD_INLINE array_list_state& state() const { return *state_; }

private:
    /// The most elements of one call, so that no sum of numbers overflows.
    static constexpr std::uint64_t most_at_once = std::uint64_t{1} << 40;
    static constexpr std::uint64_t most_bytes = std::uint64_t{1} << 46;

    /// Returns the address of element `i`, whose segment is there. Relaxed: the thread that made the element's number
    /// valid has acquired the segment, or a kernel's end lies between.
    [[nodiscard]] ORCHARD_INLINE void* address(std::uint64_t i) const {
        const std::uint32_t k = segment_of(i);
        const std::uint64_t base = state_->segments[k].template load<simt::order::relaxed>();
        return reinterpret_cast<T*>(base) + (i - first_of(k));
    }

    /// `grow` of lanes that call it together, each for 1 to 2^26 - 1 elements. If there is no memory for all, the first
    /// lanes get what the last segment has left.
    ORCHARD_FN std::uint64_t grow_together(simt::lane_mask group, std::uint32_t count) const {
        // The sum of the counts of the lanes below: one bit of the counts after the other.
        std::uint64_t before = 0;
        std::uint64_t all = 0;
        const std::uint32_t bits = simt::reduce_or(group, count);
        for (std::uint32_t bit = 0; bits >> bit != 0; ++bit) {
            const simt::lane_mask with = simt::ballot(group, (count >> bit & 1) != 0);
            before += static_cast<std::uint64_t>(simt::popcount(simt::lanes_below(with))) << bit;
            all += static_cast<std::uint64_t>(simt::popcount(with)) << bit;
        }
        std::uint64_t begin = npos;
        std::uint64_t room = 0;
        if (device::is_leader(group)) {
            begin = reserve(all, room);
        }
        begin = device::from_leader(group, begin);
        if (begin != npos) {
            simt::sync(group);  // what the leader has acquired
            return begin + before;
        }
        room = device::from_leader(group, room);
        // The first lanes whose counts fit into the rest.
        const simt::lane_mask fitting = simt::ballot(group, before + count <= room);
        if (fitting == 0) {
            return npos;
        }
        const int last = simt::highest_bit(fitting);
        const std::uint64_t some = simt::shuffle(group, before + count, last);
        if (device::is_leader(group)) {
            begin = reserve(some, room);
        }
        begin = device::from_leader(group, begin);
        simt::sync(group);
        return begin != npos && before + count <= some ? begin + before : npos;
    }

    /// Takes `count` numbers, and returns the first; `npos` without memory for all of them, and `room` is then the
    /// number of elements for which the segments that are there have room.
    ORCHARD_FN std::uint64_t reserve(std::uint64_t count, std::uint64_t& room) const {
        room = 0;
        if (state_->giving_back.template load<simt::order::relaxed>() != 0) {
            return npos;
        }
        const std::uint64_t begin = state_->size.template fetch_add<simt::order::relaxed>(count);
        const std::uint64_t end = begin + count;
        for (std::uint32_t k = segment_of(begin); k <= segment_of(end - 1); ++k) {
            if (!make_segment(k)) {
                return give_back(begin, end, k, room) ? npos : begin;
            }
        }
        return begin;
    }

    /// Returns whether segment `k` is there, after allocating it if it is not. A thread that finds another one at work
    /// waits for it, and shares its failure.
    ORCHARD_FN bool make_segment(std::uint32_t k) const {
        // No device has 2^46 bytes; larger sizes could overflow.
        const std::uint64_t bytes = k < array_list_state::max_segments && sizeof(T) <= most_bytes >> (log_first_ + k)
                                        ? (std::uint64_t{sizeof(T)} << log_first_) << k
                                        : 0;
        if (bytes == 0) {
            return false;
        }
        auto& word = state_->segments[k];
        std::uint64_t found = word.template load<simt::order::acquire>();
        if (found == array_list_state::none &&
            word.template compare_exchange<simt::order::acquire>(found, array_list_state::in_making)) {
            void* const p = heap_.malloc(bytes);
            word.template store<simt::order::release>(reinterpret_cast<std::uint64_t>(p));  // null is `none`
            return p != nullptr;
        }
        const std::uint64_t since = simt::clock_ns();
        while (found == array_list_state::in_making && simt::clock_ns() - since < longest_wait_ns()) {
            simt::pause(500);
            found = word.template load<simt::order::acquire>();
        }
        return found > array_list_state::in_making;
    }
    /// Returns how long a call waits for another one: that one may wait for the host twice.
    [[nodiscard]] ORCHARD_INLINE std::uint64_t longest_wait_ns() const {
        return 4 * heap_.view().mailbox.patience_ns();
    }

    /// Gives numbers back after segment `missing` could not be made. Returns true if they are given back, and `room` is
    /// then the number of elements for which there is room behind them; false if all of their segments are there
    /// meanwhile, so that they are valid.
    ///
    /// The last numbers are given back first: `size` falls to `begin` once it is `end`. Those behind `end` belong to
    /// calls that need the same segment. They fail, too, unless one of them finds memory for it; then all are valid.
    /// Calls that begin meanwhile take no numbers, so that the end is reached. A call that waits too long leaves a
    /// hole: numbers without elements, which `holes` counts.
    ORCHARD_FN bool give_back(std::uint64_t begin, std::uint64_t end, std::uint32_t missing,
                              std::uint64_t& room) const {
        state_->giving_back.template fetch_add<simt::order::relaxed>(1);
        const std::uint64_t since = simt::clock_ns();
        bool is_given = false;
        bool is_there = false;
        bool is_late = false;
        for (;;) {
            std::uint64_t expected = end;
            is_given = state_->size.template compare_exchange<simt::order::relaxed>(expected, begin);
            is_there = !is_given && are_there(missing, end);
            is_late = !is_given && !is_there && simt::clock_ns() - since > longest_wait_ns();
            if (is_given || is_there || is_late) {
                break;
            }
            simt::pause(500);
        }
        if (is_late) {
            state_->holes.template fetch_add<simt::order::relaxed>(static_cast<std::uint32_t>(end - begin));
        }
        state_->giving_back.template fetch_sub<simt::order::relaxed>(1);
        const bool has_room = is_given && missing < array_list_state::max_segments && begin < first_of(missing);
        room = has_room ? first_of(missing) - begin : 0;
        return !is_there;
    }

    /// Returns whether the segments from `k` on that numbers below `end` lie in are there.
    ORCHARD_FN bool are_there(std::uint32_t k, std::uint64_t end) const {
        bool all = k < array_list_state::max_segments;
        for (; all && k <= segment_of(end - 1); ++k) {
            all = k < array_list_state::max_segments &&
                  state_->segments[k].template load<simt::order::acquire>() > array_list_state::in_making;
        }
        return all;
    }

    heap_ref heap_;
    array_list_state* state_ = nullptr;
    std::uint32_t log_first_ = 0;
};

}  // namespace orchard
