// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Queues of numbers (Alg. 1 of the paper). A queue has the next position to write (`back`) and the next one to read
/// (`front`), which only increase, and a storage, which maps a position to a word.
///
/// `Storage`, one of static_ring.cuh, array_hierarchy.cuh and linked_chunks.cuh, has
///
///     put(position, value)   writes a value, not 0, at a position that the caller took from `back`
///     take(position)         returns the value at a position that the caller took from `front`, when it is there
///
/// Positions have 64 bits: they never repeat, so that a position also tells in which round of a ring it lies.

#include <cstdint>

#include "device/simt/atomic.cuh"
#include "device/simt/lane.cuh"

namespace orchard::device::ouroboros {

/// The words of a queue, in device memory; all zero is an empty queue. Each is in a line of its own.
struct queue_words {
    alignas(128) simt::device_word<std::uint64_t> back;
    alignas(128) simt::device_word<std::uint64_t> front;
    alignas(128) simt::device_word<std::uint32_t> count;  ///< elements, of an `index_queue` alone
};

/// A queue whose users know by themselves how many elements it has: a lane calls `take` only if the queue has an
/// element for it, or another lane is putting one.
template <class Storage>
class counted_queue {
public:
    ORCHARD_INLINE counted_queue(queue_words& words, const Storage& storage) : words_{&words}, storage_{storage} {}

    /// Puts a value, which is not 0. Any lane, alone. Cost: an atomic, and what the storage costs.
    ORCHARD_INLINE void put(std::uint32_t value) { storage_.put(take_places(1), value); }
    /// Takes `n` positions, each of which the caller fills by `put_at`. Returns the first one.
    ORCHARD_INLINE std::uint64_t take_places(std::uint32_t n) {
        return words_->back.template fetch_add<simt::order::relaxed>(n);
    }
    ORCHARD_INLINE void put_at(std::uint64_t position, std::uint32_t value) { storage_.put(position, value); }

    /// Takes a value. Waits if another lane is still writing it. Any lane, alone.
    ORCHARD_INLINE std::uint32_t take() {
        return storage_.take(words_->front.template fetch_add<simt::order::relaxed>(1));
    }

private:
    queue_words* words_;
    Storage storage_;
};

/// A queue that knows how many elements it has, and is bounded.
template <class Storage>
class index_queue {
public:
    /// @param size  the most elements; at most as many as the storage has places for
    ORCHARD_INLINE index_queue(queue_words& words, const Storage& storage, std::uint32_t size)
        : words_{&words}, queue_{words, storage}, size_{size} {}

    /// Puts a value, which is not 0, and returns true; false if the queue is full. Any lane, alone.
    ///
    /// The count changes by compare-and-swap, and only if the operation is possible: an addition that is undone, as in
    /// Alg. 1, makes other lanes fail meanwhile, and the value of an enqueue that fails is lost.
    ORCHARD_INLINE bool try_put(std::uint32_t value) {
        std::uint32_t n = words_->count.template load<simt::order::relaxed>();
        // Relaxed: the storage orders the value.
        do {
            if (n >= size_) {
                return false;
            }
        } while (!words_->count.template compare_exchange<simt::order::relaxed>(n, n + 1));
        queue_.put(value);
        return true;
    }
    /// Takes a value; 0 if the queue is empty. Waits if another lane is still writing the value. Any lane, alone.
    ORCHARD_INLINE std::uint32_t try_take() {
        std::uint32_t n = words_->count.template load<simt::order::relaxed>();
        do {
            if (n == 0) {
                return 0;
            }
        } while (!words_->count.template compare_exchange<simt::order::relaxed>(n, n - 1));
        return queue_.take();
    }

private:
    queue_words* words_;
    counted_queue<Storage> queue_;
    std::uint32_t size_;
};

}  // namespace orchard::device::ouroboros
