// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `block_buffers`: free blocks of the base allocator, in queues, one or several for each size class. Most requests are
/// served from a queue, so that the base allocator is called less often.
///
///     class 0, 32 B     queue 0 | queue 1 | ... |       256 blocks in all queues of a class
///     class 1, 48 B     queue 0 | queue 1 | ... |       a thread draws one by a hash of its number and the clock
///     ...
///     class 22, 64 KiB  queue 0 | queue 1 | ... |
///
/// Source: X. Huang et al., *Scalable SIMD-parallel memory allocation for many-core machines*, section 5.2. The paper
/// does not state the sizes of the classes.

#include <cstdint>

#include "device/published/xmalloc/block_fifo.cuh"
#include "device/simt/lane.cuh"
#include "device/state/heap_state.cuh"

namespace orchard::device {

/// The sizes of buffered blocks: 32, 48, 64, 96, 128, ... bytes, to 64 KiB.
struct buffer_classes {
    static constexpr std::uint32_t count = 23;
    static constexpr std::uint32_t none = count;  ///< of a block that is not buffered
    static constexpr std::uint64_t largest = std::uint64_t{64} << 10;

    /// Returns the bytes of a block of class `c` < `count`.
    static ORCHARD_INLINE constexpr std::uint64_t bytes_of(std::uint32_t c) {
        return std::uint64_t{c % 2 == 0 ? 32u : 48u} << (c / 2);
    }
    /// Returns the class of the smallest blocks that hold `bytes`, or `none`.
    static ORCHARD_INLINE std::uint32_t class_of(std::uint64_t bytes) {
        if (bytes > largest) {
            return none;
        }
        if (bytes <= 32) {
            return 0;
        }
        // 2^p < bytes <= 2^(p + 1), and 2^5 is class 0.
        const auto p = static_cast<std::uint32_t>(simt::highest_bit(static_cast<std::uint32_t>(bytes) - 1));
        return bytes <= std::uint64_t{48} << (p - 5) ? 2 * (p - 5) + 1 : 2 * (p - 4);
    }
};

/// The queues and the base allocator, as kernels see them. Trivially copyable.
///
/// @tparam Base  a `device_allocator`
template <class Base>
class block_buffers {
public:
    /// The blocks that the queues of a class hold together.
    static constexpr std::uint32_t blocks_of_a_class = 256;
    static constexpr std::uint32_t most_queues = 16;

    block_buffers() = default;
    /// @param queues    of each class: a power of two, 1 to 16; 0: no block is buffered
    /// @param ends      [class][queue]
    /// @param messages  [class][256]
    block_buffers(const Base& base, std::uint32_t queues, block_fifo_ends* ends, block_fifo::word* messages)
        : base_{base}, ends_{ends}, messages_{messages}, queues_{queues} {}

    /// Returns a block of at least `bytes` > 0, and its class, which `free` needs; null if memory lacks. One lane calls
    /// it alone. Cost: `take` from a queue; `malloc` of the base if that one is empty.
    ///
    /// If the base has no memory, blocks may still lie in other queues. Then all queues of the class are looked at, and
    /// at last all queues give their blocks back, and the base is asked once more; also for a request that is too large
    /// for the base, which nothing here knows. A block that another thread holds in its hands meanwhile is missed.
    ORCHARD_FN void* malloc(std::uint64_t bytes, std::uint32_t* size_class) const {
        const std::uint32_t c = queues_ == 0 ? buffer_classes::none : buffer_classes::class_of(bytes);
        *size_class = c;
        const std::uint64_t rounded = c == buffer_classes::none ? bytes : buffer_classes::bytes_of(c);
        const std::uint32_t drawn = draw_queue();
        void* p = c == buffer_classes::none ? nullptr : take(c, drawn);
        if (p == nullptr) {
            p = base_.malloc(rounded);
        }
        return p != nullptr || queues_ == 0 ? p : search(rounded, c, drawn);
    }

    /// Frees a block of `malloc`, whose class it was given: puts it into a queue, or gives it to the base if the queue
    /// is full. One lane calls it alone.
    ORCHARD_FN void free(void* p, std::uint32_t c) const {
        const auto address = reinterpret_cast<std::uint64_t>(p);
        if (c == buffer_classes::none || address >= block_fifo::end_of_addresses ||
            !queue(c, draw_queue()).put(address)) {
            base_.free(p);
        }
    }

    /// Gives the blocks of queue `i` < `all_queues` back to the base. One lane calls it alone.
    ORCHARD_FN void drain(std::uint32_t i) const {
        // No more than were there: other threads may put back as fast as this one takes.
        for (std::uint32_t n = 0; n < blocks_of_a_class; ++n) {
            void* const p = take(i / queues_, i % queues_);
            if (p == nullptr) {
                return;
            }
            base_.free(p);
        }
    }
    [[nodiscard]] ORCHARD_INLINE std::uint32_t all_queues() const { return buffer_classes::count * queues_; }

    [[nodiscard]] ORCHARD_INLINE const Base& base() const { return base_; }
    /// Returns a number that differs between the buffers of different owners.
    [[nodiscard]] ORCHARD_INLINE std::uint64_t id() const { return reinterpret_cast<std::uint64_t>(ends_); }

private:
    [[nodiscard]] ORCHARD_INLINE block_fifo queue(std::uint32_t c, std::uint32_t i) const {
        const std::uint32_t room = blocks_of_a_class / queues_;
        return {ends_ + c * queues_ + i, messages_ + c * blocks_of_a_class + i * room, room};
    }
    [[nodiscard]] ORCHARD_INLINE void* take(std::uint32_t c, std::uint32_t i) const {
        return reinterpret_cast<void*>(queue(c, i).take());
    }
    [[nodiscard]] ORCHARD_INLINE std::uint32_t draw_queue() const {
        const auto thread = static_cast<std::uint32_t>(simt::position().global_thread());
        return queues_ <= 1 ? 0 : mix(thread ^ simt::noise()) & (queues_ - 1);
    }

    /// Returns a block although the base has none: from another queue of class `c`, or from what all queues give back.
    [[nodiscard]] ORCHARD_NOINLINE void* search(std::uint64_t bytes, std::uint32_t c, std::uint32_t drawn) const {
        for (std::uint32_t i = 1; c != buffer_classes::none && i < queues_; ++i) {
            void* const p = take(c, (drawn + i) & (queues_ - 1));
            if (p != nullptr) {
                return p;
            }
        }
        for (std::uint32_t i = 0; i < all_queues(); ++i) {
            drain(i);
        }
        return base_.malloc(bytes);
    }

    Base base_;
    block_fifo_ends* ends_ = nullptr;
    block_fifo::word* messages_ = nullptr;
    std::uint32_t queues_ = 0;
};

}  // namespace orchard::device
