// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `work_queue_ref`: a queue in a heap, into which and from which any threads of running kernels pass elements.
///
/// Elements lie in places, which are numbered from 0 and used once. Places lie in segments of equal size, each of which
/// is one block of the heap. A ring in device memory, not in the heap, has their addresses. A segment all of whose
/// places are left goes back to the heap.
///
///     head, the next place to read: 6        tail, the next place to write: 15
///
///     places      | x x 6 7 | 8 9 10 11 | 12 13 14 . |       four a segment; `x`: left
///     segments         1          2           3             0 went back to the heap with its last place
///     ring        [ - | 1 | 2 | 3 ]
///
/// Each place has two visitors: the thread that writes its element, and the one that reads it. Each sets the place's
/// bit when it comes. The second one finds the bit set:
///
///     first      second     the second one
///     writer     reader     reads the element
///     reader     writer     the reader came before the element was there, and went on to another place; the writer
///                           takes another place, too
///
/// The second visitor leaves the place for good, and counts it. So no thread waits for another one, and a place needs a
/// bit alone.
///
///     push    takes a place (number_word.cuh, which adds segments), writes the element, visits; adds to `ready`
///     pop     takes from `ready`, so that there is an element for it; takes places from `head` until a visit finds one
///
/// Of n elements that are ready and not read, n at most are promised to readers, and all lie from `head` on. A reader
/// to whom one is promised therefore finds one before the tail.

#include <cstdint>
#include <new>
#include <type_traits>

#include "device/containers/number_word.cuh"
#include "device/group/bits.cuh"
#include "device/group/leader.cuh"
#include "device/heap_ref.cuh"

namespace orchard {

/// The words of a queue, in device memory; all zero is an empty queue. Kernels alone write it. Words that many threads
/// change lie in lines of their own.
struct work_queue_state {
    using word = device::number_word<24, 36>;

    alignas(64) word tail;  ///< a number is a place in the newest segment; a step is a segment
    alignas(64) simt::device_word<std::uint64_t> head{0};   ///< places that readers have taken
    alignas(64) simt::device_word<std::uint64_t> ready{0};  ///< elements that are not promised; for moments below zero
};

/// The view of a `work_queue` in kernels. Trivially copyable; pass it by value. It is valid while the queue lives.
///
/// Threads of any kernel may push and pop at the same time, in any divergence. Elements come out about in the order in
/// which they went in; those of one thread in its order, if one thread reads. What a thread did before it pushed an
/// element is ordered before what the thread does that gets it. `clear` excludes all other calls.
template <class T>
class work_queue_ref {
    static_assert(alignof(T) <= 16, "elements are aligned to at most 16 B, as blocks of the heap are");
    static_assert(std::is_trivially_destructible_v<T>, "no destructor of an element is called");

public:
    using ring_word = simt::device_word<std::uint64_t>;

    work_queue_ref() = default;
    /// @param log_places  logarithm of the places of a segment, 6 to 20, so that words of bits are whole
    /// @param ring        addresses of segments, zero where there is none; its length is a power of two
    work_queue_ref(const heap_ref& heap, work_queue_state* state, std::uint32_t log_places, ring_word* ring,
                   std::uint64_t ring_length)
        : heap_{heap}, state_{state}, ring_{ring}, ring_mask_{ring_length - 1}, log_places_{log_places} {}

    /// Appends a copy of `element`. Returns false if there is no memory, whose reason the heap records. Lanes that call
    /// it together push together, in the order of the lanes. It waits for another thread only while that one allocates
    /// a segment, and shares its failure. Cost: three atomics for each group of lanes, or four; `malloc` for the first
    /// element of a segment.
    ORCHARD_FN bool push(const T& element) const {
        simt::lane_mask group = group_here();
        for (;;) {
            const std::uint64_t place = take_places(group);
            if (place == none) {
                return false;
            }
            char* const segment = segment_of(place);
            new (element_at(segment, place)) T(element);
            const bool is_second = visit(group, segment, place);
            const simt::lane_mask late = simt::ballot(group, is_second);
            simt::sync(group);  // the lanes' bits are set before their elements are ready
            if (device::is_leader(group) && late != group) {
                // Release: the bits, and the address of the segment. Pairs with `promise`.
                (void)state_->ready.template fetch_add<simt::order::release>(
                    static_cast<std::uint64_t>(simt::popcount(group & ~late)));
            }
            if (!is_second) {
                return true;
            }
            leave(late, segment, place);
            if (simt::mutation::is(simt::mutation::fault::late_write)) {
                return true;
            }
            group = late;
        }
    }

    /// Copies the next element to `element`, and returns true; false if there is none. It does not wait. Lanes that
    /// call it together get elements in the order of the lanes. An element that is there may be missed at the moment in
    /// which other threads find none: a program that must know whether all work is done counts it itself, as an element
    /// in work may bring further ones. Cost: a load if there is none; else four atomics for each group of lanes, or
    /// more.
    ORCHARD_FN bool pop(T& element) const {
        const simt::lane_mask group = group_here();
        std::uint64_t promised = 0;
        if (device::is_leader(group)) {
            promised = promise(static_cast<std::uint64_t>(simt::popcount(group)));
        }
        promised = device::from_leader(group, promised);
        const bool reads = static_cast<std::uint64_t>(simt::rank_in(group)) < promised;
        simt::lane_mask reading = simt::ballot(group, reads);
        simt::sync(group);  // what the leader has acquired
        if (!reads) {
            return false;
        }
        for (;;) {
            std::uint64_t place = 0;
            if (device::is_leader(reading)) {
                // Release and acquire: a reader with an element of a later segment may have sent this one there.
                place = state_->head.template fetch_add<simt::order::acq_rel>(
                    static_cast<std::uint64_t>(simt::popcount(reading)));
            }
            place = device::from_leader(reading, place) + static_cast<std::uint64_t>(simt::rank_in(reading));
            simt::sync(reading);  // what the leader has acquired
            char* const segment = segment_of(place);
            const bool is_second = visit(reading, segment, place);
            const simt::lane_mask found = simt::ballot(reading, is_second);
            if (is_second) {
                element = *element_at(segment, place);
                leave(found, segment, place);
                return true;
            }
            reading &= ~found;
        }
    }

    /// Returns the number of elements that no thread has got or is getting. Exact while no other thread uses the queue.
    [[nodiscard]] ORCHARD_INLINE std::uint64_t size() const {
        const auto now = static_cast<std::int64_t>(state_->ready.template load<simt::order::relaxed>());
        return now < 0 ? 0 : static_cast<std::uint64_t>(now);
    }

    /// Frees all memory and empties the queue. One thread calls it, while no other thread uses the queue. Cost: `free`
    /// for each segment, a quarter of 1 us.
    ORCHARD_FN void clear() const {
        const std::uint64_t end = state_->tail.read().steps;
        for (std::uint64_t k = state_->head.template load<simt::order::relaxed>() >> log_places_; k < end; ++k) {
            auto& word = ring_[k & ring_mask_];
            heap_.free(reinterpret_cast<void*>(word.template load<simt::order::relaxed>()));
            word.template store<simt::order::relaxed>(0);
        }
        state_->tail.reset();
        state_->head.template store<simt::order::relaxed>(0);
        state_->ready.template store<simt::order::relaxed>(0);
    }

    /// Returns the bytes of a segment of `places` places: a word that counts places left, a bit for each place, and the
    /// elements.
    static constexpr ORCHARD_FN std::uint64_t segment_bytes_of(std::uint64_t places) {
        return elements_offset(places) + places * sizeof(T);
    }

private:
    using parts = work_queue_state::word::parts;
    using bit_word = simt::device_word<std::uint64_t>;

    static constexpr std::uint64_t none = ~std::uint64_t{0};
    static constexpr std::uint64_t bits_offset = 16;  ///< behind the word that counts the places left
    static constexpr std::uint32_t bits_a_word = 64;

    static constexpr ORCHARD_FN std::uint64_t elements_offset(std::uint64_t places) {
        return (bits_offset + places / 8 + 15) / 16 * 16;
    }
    [[nodiscard]] ORCHARD_INLINE std::uint64_t places() const { return std::uint64_t{1} << log_places_; }
    [[nodiscard]] ORCHARD_INLINE std::uint64_t index_of(std::uint64_t place) const { return place & (places() - 1); }

    /// Returns the lanes that call together for this queue, at one place.
    [[nodiscard]] ORCHARD_INLINE simt::lane_mask group_here(simt::site where = simt::site::here()) const {
        return simt::match(simt::converge(where), reinterpret_cast<std::uintptr_t>(state_), where);
    }
    /// Returns the segment of a place that a writer has taken. Relaxed: the address was acquired with the place.
    [[nodiscard]] ORCHARD_INLINE char* segment_of(std::uint64_t place) const {
        return reinterpret_cast<char*>(ring_[place >> log_places_ & ring_mask_].template load<simt::order::relaxed>());
    }
    [[nodiscard]] ORCHARD_INLINE T* element_at(char* segment, std::uint64_t place) const {
        return reinterpret_cast<T*>(segment + elements_offset(places())) + index_of(place);
    }
    [[nodiscard]] static ORCHARD_INLINE bit_word* bits_in(char* segment) {
        return reinterpret_cast<bit_word*>(segment + bits_offset);
    }
    [[nodiscard]] static ORCHARD_INLINE bit_word& left_in(char* segment) {
        return *reinterpret_cast<bit_word*>(segment);
    }

    /// Returns a place for this lane, behind those of the lanes below; `none` to all lanes of `group` without memory.
    ORCHARD_FN std::uint64_t take_places(simt::lane_mask group) const {
        std::uint64_t first = none;
        if (device::is_leader(group)) {
            parts got{};
            const bool taken = state_->tail.take(
                static_cast<std::uint64_t>(simt::popcount(group)), 4 * heap_.view().mailbox.patience_ns(),
                [&](std::uint64_t steps) { return steps == 0 ? 0 : places(); },
                [&](parts& at, parts& next) { return add_segment(at, next); }, got);
            first = taken ? ((got.steps - 1) << log_places_) + got.taken : none;
        }
        first = device::from_leader(group, first);
        simt::sync(group);  // what the leader has acquired
        return first == none ? none : first + static_cast<std::uint64_t>(simt::rank_in(group));
    }

    /// Allocates the next segment, for the places that the newest one lacks.
    ORCHARD_NOINLINE bool add_segment(parts& at, parts& next) const {
        const std::uint64_t bytes = segment_bytes_of(places());
        auto& word = ring_[at.steps & ring_mask_];
        // The heap cannot hold as many segments as the ring; but one of a round before may have a place that a slow
        // thread has not left.
        if (word.template load<simt::order::relaxed>() != 0) {
            device::slow::record_failure(*heap_.view().self, failure_reason::out_of_memory_virtual_range, bytes,
                                         chunk_class);
            return false;
        }
        auto* const segment = static_cast<char*>(heap_.malloc(bytes));
        if (segment == nullptr) {
            return false;
        }
        // Relaxed, all of them: `number_word` releases them.
        left_in(segment).template store<simt::order::relaxed>(0);
        for (std::uint64_t i = 0; i * bits_a_word < places(); ++i) {
            bits_in(segment)[i].template store<simt::order::relaxed>(0);
        }
        word.template store<simt::order::relaxed>(reinterpret_cast<std::uint64_t>(segment));
        if (at.steps == 0) {
            at.steps = 1;
            next.steps = 1;
        } else {
            next.taken -= places();
            ++next.steps;
        }
        return true;
    }

    /// Takes up to `count` ready elements for the caller, and returns how many there were. Places from `head` on have
    /// them.
    ORCHARD_FN std::uint64_t promise(std::uint64_t count) const {
        auto& ready = state_->ready;
        if (size() == 0) {
            return 0;
        }
        // Acquire: the bits and the segments of all elements that were counted so far.
        const auto had = static_cast<std::int64_t>(ready.template fetch_sub<simt::order::acquire>(count));
        const std::uint64_t got = had <= 0 ? 0 : static_cast<std::uint64_t>(had);
        if (got >= count) {
            return count;
        }
        (void)ready.template fetch_add<simt::order::relaxed>(count - got);
        return got;
    }

    /// Visits the places of the lanes of `group`, which follow each other. Returns whether this lane is the second
    /// visitor of its place. Cost: an atomic for each word of 64 bits.
    ORCHARD_FN bool visit(simt::lane_mask group, char* segment, std::uint64_t place) const {
        const auto bit = static_cast<std::uint32_t>(place % bits_a_word);
        const simt::lane_mask same = simt::match(group, place / bits_a_word);
        simt::sync(same);  // the elements of the lanes
        std::uint64_t before = 0;
        if (device::is_leader(same)) {
            const auto bits = device::ones<std::uint64_t>(static_cast<std::uint32_t>(simt::popcount(same)), bit);
            // Release: the elements that writers have written. Acquire: those that readers will read.
            simt::mutation::weaken_next(simt::mutation::fault::visit_order);
            before = bits_in(segment)[index_of(place) / bits_a_word].template fetch_or<simt::order::acq_rel>(bits);
        }
        before = device::from_leader(same, before);
        simt::sync(same);  // what the leader has acquired
        return (before >> bit & 1) != 0;
    }

    /// Counts the lanes' places as left, and frees the segment with the last one. The lanes are second visitors.
    ORCHARD_FN void leave(simt::lane_mask group, char* segment, std::uint64_t place) const {
        const simt::lane_mask same = simt::match(group, place >> log_places_);
        simt::sync(same);  // the lanes have read their elements
        if (device::is_leader(same)) {
            const auto count = static_cast<std::uint64_t>(simt::popcount(same));
            // Release: the lanes' accesses to the segment. Acquire: those of all others, before the segment is freed.
            if (left_in(segment).template fetch_add<simt::order::acq_rel>(count) + count == places()) {
                // Relaxed: no thread needs the address any more, and the next one is stored after it was seen to be 0.
                ring_[place >> log_places_ & ring_mask_].template store<simt::order::relaxed>(0);
                heap_.free(segment);
            }
        }
    }

    heap_ref heap_;
    work_queue_state* state_ = nullptr;
    ring_word* ring_ = nullptr;
    std::uint64_t ring_mask_ = 0;
    std::uint32_t log_places_ = 0;
};

}  // namespace orchard
