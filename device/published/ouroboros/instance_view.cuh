// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `instance_view`: where the data of one instance lies. An instance has chunks of one size, and a queue for each size
/// of pages (section 3.2 of the paper).
///
///     chunks     [ pages of 16 B | pages of 64 B | queue of class 0 | free | free | ... ]     `chunk_bytes` each
///     headers    [ state, counts, number, next  | ...                                    ]     one for each chunk
///     bits       [ one for each page of the smallest size | ...                          ]     variants with chunks
///
/// Headers and bits lie outside of the chunks: a chunk of 8 KiB with a header of its own cannot hold the page of 8,192
/// B that the paper promises; and a lane may read the header of a chunk whose use has changed.

#include <cstdint>

#include "device/published/ouroboros/bulk_semaphore.cuh"
#include "device/published/ouroboros/index_queue.cuh"

namespace orchard::device::ouroboros {

/// The most sizes of pages of an instance. The state of a chunk has a bit for each.
inline constexpr std::uint32_t most_classes = 16;

/// What a chunk is used for (section 3.2 of the paper). Zero is a free chunk.
enum class chunk_role : std::uint32_t { none, pages, queue };

/// The state of a chunk, in one word.
///
///     bit 63         47           31         21     19      15          0
///         |    0    |   listed   |    0     | role | class |    free    |
///
/// free      pages that no lane has claimed; of chunks of pages in variants with chunks
/// class     the class of the pages
/// listed    the classes whose queue has the chunk, or had it and has not looked at it since (chunk_heap.cuh)
struct chunk_state {
    static constexpr std::uint64_t one_free = 1;

    static ORCHARD_INLINE std::uint64_t pages(std::uint64_t before, std::uint32_t page_class, std::uint32_t free) {
        return (before & all_listed) | role_bits(chunk_role::pages) | std::uint64_t{page_class} << 16 | free;
    }
    static ORCHARD_INLINE std::uint64_t of(std::uint64_t before, chunk_role role) {
        return (before & all_listed) | role_bits(role);
    }
    static ORCHARD_INLINE std::uint32_t free(std::uint64_t s) { return static_cast<std::uint32_t>(s & 0xffff); }
    static ORCHARD_INLINE std::uint32_t page_class(std::uint64_t s) {
        return static_cast<std::uint32_t>(s >> 16 & 0xf);
    }
    static ORCHARD_INLINE chunk_role role(std::uint64_t s) { return static_cast<chunk_role>(s >> 20 & 3); }
    static ORCHARD_INLINE std::uint64_t listed(std::uint32_t page_class) {
        return std::uint64_t{1} << (32 + page_class);
    }
    /// Returns whether the chunk has pages of this class.
    static ORCHARD_INLINE bool serves(std::uint64_t s, std::uint32_t of_class) {
        return role(s) == chunk_role::pages && page_class(s) == of_class;
    }

private:
    static constexpr std::uint64_t all_listed = std::uint64_t{0xffff} << 32;
    static ORCHARD_INLINE std::uint64_t role_bits(chunk_role r) {
        return std::uint64_t{static_cast<std::uint32_t>(r)} << 20;
    }
};

/// What is known of a chunk. The last three words belong to queues.
struct alignas(32) chunk_header {
    simt::device_word<std::uint64_t> state;   ///< `chunk_state`
    simt::device_word<std::uint64_t> counts;  ///< of a chunk of a queue: elements read << 32 | elements written
    simt::device_word<std::uint64_t> number;  ///< of a chunk of linked chunks: (class + 1) << 32 | number in the queue
    simt::device_word<std::uint64_t> next;    ///< of linked chunks: a `chunk_reference`; 0: none yet
};

/// A chunk of a queue: its number in the queue, and its index in the instance, in one word. Number n has the positions
/// from n times the places of a chunk on. Numbers repeat after 2^32 chunks, which is after 2^43 elements of chunks of 8
/// KiB.
struct chunk_reference {
    static ORCHARD_INLINE std::uint64_t make(std::uint64_t number, std::uint32_t index) {
        return number << 32 | (index + 1);
    }
    static ORCHARD_INLINE std::uint32_t number(std::uint64_t r) { return static_cast<std::uint32_t>(r >> 32); }
    static ORCHARD_INLINE std::uint32_t index(std::uint64_t r) { return static_cast<std::uint32_t>(r) - 1; }
    /// Returns whether `r` is the chunk with this number; false for 0, which is none.
    static ORCHARD_INLINE bool is(std::uint64_t r, std::uint64_t n) {
        return static_cast<std::uint32_t>(r) != 0 && number(r) == static_cast<std::uint32_t>(n);
    }
};

/// The words of a class of pages. All zero is a class without pages, except for linked chunks.
struct class_words {
    queue_words queue;
    alignas(128) bulk_semaphore pages;
    alignas(128) simt::device_word<std::uint32_t> current;  ///< of chunks: index + 1 of the queue's head; 0: none
    simt::device_word<std::uint32_t> bound;                 ///< of pages: chunks that the class has
    alignas(128) simt::device_word<std::uint64_t> first;    ///< of linked chunks: the chunk where readers begin
    alignas(128) simt::device_word<std::uint64_t> last;     ///< of linked chunks: the chunk where writers begin
    simt::device_word<std::uint64_t> oldest;                ///< of linked chunks: the first one that is not given back
};

/// The words of the pool of chunks.
struct pool_words {
    alignas(128) simt::device_word<std::uint64_t> counts;  ///< reserved << 32 | free
    alignas(128) simt::device_word<std::uint32_t> fresh;   ///< chunks below it have been used
    simt::device_word<std::uint32_t> left_full;  ///< 1: a chunk all of whose pages are free may not be in the pool
    queue_words reuse;                           ///< chunks that were used, and are free
};

/// The memory of a class's queue, outside of chunks.
struct class_layout {
    std::uint64_t offset = 0;      ///< where its ring begins in `rings`, or its directory in `directories`
    std::uint32_t log = 0;         ///< the ring or directory has 2^log words
    std::uint32_t most_bound = 0;  ///< of pages: the chunks of which the queue can hold all pages
};

struct instance_view {
    char* chunks_at = nullptr;
    chunk_header* headers = nullptr;
    simt::device_word<std::uint64_t>* bits = nullptr;  ///< 1: the page is free; variants with chunks
    class_words* classes = nullptr;
    pool_words* pool = nullptr;
    simt::device_word<std::uint32_t>* reuse = nullptr;        ///< the ring of `pool->reuse`
    simt::device_word<std::uint32_t>* rings = nullptr;        ///< variants S
    simt::device_word<std::uint64_t>* directories = nullptr;  ///< variants VA: `chunk_reference`s
    std::uint32_t chunks = 0;
    std::uint32_t chunk_log = 0;     ///< a chunk has 2^chunk_log bytes
    std::uint32_t smallest_log = 0;  ///< pages of class c have 2^(smallest_log + c) bytes
    std::uint32_t class_count = 0;
    std::uint32_t reuse_log = 0;  ///< the ring has 2^reuse_log words
    std::uint32_t trail = 0;      ///< of linked chunks: chunks behind `first` that are kept
    std::uint32_t reserved = 0;   ///< chunks that are kept for queues at first
    class_layout layout[most_classes];

    [[nodiscard]] ORCHARD_INLINE std::uint32_t page_log(std::uint32_t page_class) const {
        return smallest_log + page_class;
    }
    /// Returns the number of pages of a chunk.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t pages(std::uint32_t page_class) const {
        return 1u << (chunk_log - page_log(page_class));
    }
    /// Returns log2 of the places that a chunk has as a part of a queue, of 4 B each.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t places_log() const { return chunk_log - 2; }
    [[nodiscard]] ORCHARD_INLINE char* chunk_at(std::uint32_t index) const {
        return chunks_at + (std::uint64_t{index} << chunk_log);
    }
    [[nodiscard]] ORCHARD_INLINE simt::device_word<std::uint32_t>* places_of(std::uint32_t index) const {
        return reinterpret_cast<simt::device_word<std::uint32_t>*>(chunk_at(index));
    }
    /// Returns the number of words of bits of each chunk.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t bit_words() const { return (pages(0) + 63) / 64; }
    [[nodiscard]] ORCHARD_INLINE simt::device_word<std::uint64_t>* bits_of(std::uint32_t index) const {
        return bits + std::uint64_t{index} * bit_words();
    }
    /// Returns the number of bytes from the first chunk to `p`; too large a number if `p` is not in the instance.
    [[nodiscard]] ORCHARD_INLINE std::uint64_t offset_of(const void* p) const {
        return static_cast<std::uint64_t>(static_cast<const char*>(p) - chunks_at);
    }
    [[nodiscard]] ORCHARD_INLINE bool owns(const void* p) const {
        return offset_of(p) < std::uint64_t{chunks} << chunk_log;
    }
};

/// Sets what a chunk is used for, and keeps the classes that list it. The caller owns the chunk. Release: pairs with
/// the acquire of lanes that find the chunk in the queue of its class.
ORCHARD_INLINE void set_state(chunk_header& h, chunk_role role) {
    std::uint64_t s = h.state.load<simt::order::relaxed>();
    while (!h.state.compare_exchange<simt::order::release>(s, chunk_state::of(s, role))) {
    }
}

}  // namespace orchard::device::ouroboros
