// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `block_fifo`: a queue of free blocks with room for a fixed number of them, without locks.
///
/// Blocks are numbered in the order in which they come. A message is a block with its number, in one word:
///
///     bit 63                                     20 19                0
///         |      address, in units of 16 B         |  number, mod 2^20 |
///
/// The newest message is the word `tail`; each older one lies in the array, at its number modulo the room. `head` is
/// the number of the oldest one, in 64 bits.
///
///     head 5      array  | 8* | 5 | 6 | 7 |      tail 9      room 4; *: message 8 will lie at 0, where message 4 lay
///
///     put    moves the message of `tail` to the array, unless another thread has, and replaces `tail` by its own
///     take   reads the message `head`, from the array or from `tail`, and then adds one to `head`
///
/// Each step is a compare-and-swap that fails if another thread was faster, so that a failure is another thread's
/// progress. No thread waits.
///
/// Source: X. Huang et al., *Scalable SIMD-parallel memory allocation for many-core machines*, section 5.2.1 (figures
/// 7 to 9). Differences: docs/xmalloc.md.

#include <cstdint>

#include "device/simt/atomic.cuh"
#include "device/simt/mutation.cuh"

namespace orchard::device {

/// The words that all threads change, each in a line of its own.
struct block_fifo_ends {
    using word = simt::device_word<std::uint64_t>;

    alignas(64) word head;  ///< number of the oldest message
    alignas(64) word tail;  ///< the newest message
};

/// The view of a queue in device memory. Trivially copyable.
class block_fifo {
public:
    using word = simt::device_word<std::uint64_t>;

    /// Failed attempts after which a call gives up. The queue then counts as empty or full: it only saves calls of
    /// another allocator, which serves instead.
    static constexpr std::uint32_t most_attempts = 64;
    /// Addresses of blocks are below this number.
    static constexpr std::uint64_t end_of_addresses = std::uint64_t{1} << 48;

    /// @param room  a power of two, 2 to 2^16: the length of `messages`
    ORCHARD_FN block_fifo(block_fifo_ends* ends, word* messages, std::uint32_t room)
        : ends_{ends}, messages_{messages}, room_{room} {}

    /// The words of an empty queue: `head` is 0, `tail` is this, and message i of the array is that.
    static constexpr ORCHARD_FN std::uint64_t first_tail() { return numbers - 1; }
    static constexpr ORCHARD_FN std::uint64_t first_message(std::uint32_t i, std::uint32_t room) {
        return (std::uint64_t{i} - room) & (numbers - 1);
    }

    /// Returns the number of blocks of a queue that no thread uses now, by its two words.
    static constexpr ORCHARD_FN std::uint64_t size_of(std::uint64_t head, std::uint64_t tail) {
        return (tail + 1 - head) & (numbers - 1);
    }

    /// Appends a block, and returns true; false if the queue is full, or after `most_attempts`. What the caller did
    /// with the block is ordered before what the thread does that takes it. `address` is a multiple of 16 B below
    /// `end_of_addresses`. One lane of any kernel calls it alone. Cost: two loads for the ends, one for the array, and
    /// two atomics.
    ORCHARD_FN bool put(std::uint64_t address) const {
        for (std::uint32_t attempt = 0; attempt < most_attempts; ++attempt) {
            // Acquire: the array's messages up to this one. Pairs with the release below. `tail` is read first: if
            // the exchange below finds it unchanged, `head` is not older than that.
            std::uint64_t tail = ends_->tail.load<simt::order::acquire>();
            // Relaxed: an old number only makes the queue look fuller.
            const std::uint64_t used = size_of(ends_->head.load<simt::order::relaxed>(), tail);
            if (used > numbers / 2) {
                continue;  // less than 0: messages behind `tail` were taken already, so that it is old
            }
            if (used >= room_) {
                return false;
            }
            word& place = messages_[number(tail) & (room_ - 1)];
            std::uint64_t before = place.load<simt::order::relaxed>();
            if (((before + room_) & (numbers - 1)) == number(tail)) {
                // Release: the block of `tail`, which this thread has acquired, for a thread that finds it here.
                place.compare_exchange<simt::order::release>(before, tail);
            }
            // Release: the block, and the array's messages.
            simt::mutation::weaken_next(simt::mutation::fault::fifo_release);
            if (ends_->tail.compare_exchange<simt::order::release>(tail, message(address, number(tail) + 1))) {
                return true;
            }
        }
        return false;
    }

    /// Returns the address of the oldest block, which is no longer in the queue; 0 if there is none, or after
    /// `most_attempts`. One lane of any kernel calls it alone. Cost: two loads if the queue is empty; else up to three,
    /// and an atomic.
    [[nodiscard]] ORCHARD_FN std::uint64_t take() const {
        for (std::uint32_t attempt = 0; attempt < most_attempts; ++attempt) {
            // Acquire: a `tail` that is not older than what the thread saw that has set this number.
            std::uint64_t head = ends_->head.load<simt::order::acquire>();
            // Acquire: the block, and the array's messages.
            const std::uint64_t tail = ends_->tail.load<simt::order::acquire>();
            const std::uint64_t used = size_of(head, tail);
            if (used == 0) {
                return 0;
            }
            // Acquire: the block.
            const std::uint64_t oldest = used == 1 ? tail : messages_[head & (room_ - 1)].load<simt::order::acquire>();
            // If another thread has taken the block, and its place has a newer one, the head is another number now, and
            // the exchange fails. Release: see the acquire of `head`.
            if (ends_->head.compare_exchange<simt::order::acq_rel>(head, head + 1)) {
                return oldest >> number_bits << 4;
            }
        }
        return 0;
    }

private:
    static constexpr std::uint32_t number_bits = 20;
    static constexpr std::uint64_t numbers = std::uint64_t{1} << number_bits;

    static ORCHARD_INLINE std::uint64_t number(std::uint64_t of_message) { return of_message & (numbers - 1); }
    static ORCHARD_INLINE std::uint64_t message(std::uint64_t address, std::uint64_t number_of_it) {
        return address >> 4 << number_bits | (number_of_it & (numbers - 1));
    }

    block_fifo_ends* ends_;
    word* messages_;
    std::uint32_t room_;
};

}  // namespace orchard::device
