// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `linked_chunks`: the storage of a queue in chunks that are linked (variant VL; section 5.2 and Alg. 6 of the paper).
///
///     oldest          first                last
///       |               |                    |
///     [xxxx] -> [xxxx] -> [xx..] -> [oo..] -> [o...] -> [....]
///       the trail         readers             writers   added ahead
///
/// A writer begins at `last`, a reader at `first`, and each follows the links to the chunk of its position. `last`
/// moves past a chunk when all of its elements are written; `first`, when all are read, too, and `last` has moved past
/// it. Chunks behind `first` are kept: the trail, `trail` chunks long. `oldest` moves along behind it and gives chunks
/// back.
///
/// In print, the trail is what protects a lane that still follows links in a chunk which `first` has passed; its length
/// is a guess from the number of lanes, and a lane that stops for longer reads a chunk that has become something else.
/// Here, links and numbers lie in the headers of chunks, and a lane that follows a link checks the number before and
/// after: if the chunk has changed its use, the lane begins again. So any length is right, also 0; a longer trail makes
/// new beginnings rarer.

#include <cstdint>

#include "device/published/ouroboros/chunk_pool.cuh"
#include "device/simt/mutation.cuh"

namespace orchard::device::ouroboros {

class linked_chunks {
public:
    ORCHARD_INLINE linked_chunks(const instance_view& v, std::uint32_t page_class)
        : v_{&v}, words_{&v.classes[page_class]}, queue_{std::uint64_t{page_class + 1} << 32} {}

    /// Adds the first chunk. One lane calls it, before all other calls.
    ORCHARD_FN void start() {
        const std::uint64_t r = make_chunk(0);
        // Relaxed: the end of the kernel orders these.
        words_->first.store<simt::order::relaxed>(r);
        words_->last.store<simt::order::relaxed>(r);
        words_->oldest.store<simt::order::relaxed>(r);
    }

    /// Writes a value. Waits for its chunk, which another lane may be adding.
    ORCHARD_FN void put(std::uint64_t position, std::uint32_t value) {
        const std::uint64_t number = position >> v_->places_log();
        const std::uint32_t index = find(words_->last, number);
        if (place_of(position) == 0) {
            // Release: the new chunk. Pairs with `next_of`.
            v_->headers[index].next.store<simt::order::release>(make_chunk(number + 1));
        }
        // Release: pairs with `take`.
        simt::mutation::weaken_next(simt::mutation::fault::page_put);
        v_->places_of(index)[place_of(position)].store<simt::order::release>(value);
        count(index, 1);
    }
    /// Returns the value when it is there. Waits for its chunk, too.
    ORCHARD_FN std::uint32_t take(std::uint64_t position) {
        const std::uint64_t number = position >> v_->places_log();
        const std::uint32_t index = find(words_->first, number);
        auto& place = v_->places_of(index)[place_of(position)];
        std::uint32_t value = 0;
        // Acquire: pairs with `put`. The place is not emptied: it is used once, until the chunk is added again.
        while ((value = place.load<simt::order::acquire>()) == 0) {
            simt::pause(100);
        }
        count(index, std::uint64_t{1} << 32);
        return value;
    }

private:
    using word = simt::device_word<std::uint64_t>;

    [[nodiscard]] ORCHARD_INLINE std::uint64_t places() const { return std::uint64_t{1} << v_->places_log(); }
    [[nodiscard]] ORCHARD_INLINE std::uint64_t place_of(std::uint64_t position) const {
        return position & (places() - 1);
    }
    [[nodiscard]] ORCHARD_INLINE chunk_header& header_of(std::uint64_t r) const {
        return v_->headers[chunk_reference::index(r)];
    }
    /// Returns whether the chunk is still the one that `r` means.
    [[nodiscard]] ORCHARD_INLINE bool is_current(std::uint64_t r) const {
        // Acquire: the words of the header as `make_chunk` has set them.
        return header_of(r).number.load<simt::order::acquire>() == (queue_ | chunk_reference::number(r));
    }

    /// Returns the next chunk; 0 if there is none yet, or if `r` is no longer in the queue.
    [[nodiscard]] ORCHARD_INLINE std::uint64_t next_of(std::uint64_t r) const {
        if (!is_current(r)) {
            return 0;
        }
        // Acquire: the next chunk. Also, if this is a link of the chunk's later use, its new number, seen below.
        const std::uint64_t next = header_of(r).next.load<simt::order::acquire>();
        return is_current(r) || simt::mutation::is(simt::mutation::fault::link_current) ? next : 0;
    }
    /// Returns the counts of a chunk; 0 if `r` is no longer in the queue.
    [[nodiscard]] ORCHARD_INLINE std::uint64_t counts_of(std::uint64_t r) const {
        if (!is_current(r)) {
            return 0;
        }
        const std::uint64_t counts = header_of(r).counts.load<simt::order::acquire>();
        return is_current(r) ? counts : 0;
    }

    /// Returns a chunk with this number, which is not linked yet.
    ORCHARD_FN std::uint64_t make_chunk(std::uint64_t number) {
        const std::uint32_t index = chunk_pool(*v_).take_for_queue();
        chunk_header& h = v_->headers[index];
        h.next.store<simt::order::relaxed>(0);
        // Release: the other words of the header. Pairs with `is_current`.
        h.number.store<simt::order::release>(queue_ | static_cast<std::uint32_t>(number));
        return chunk_reference::make(number, index);
    }

    /// Returns the chunk with this number, beginning at `from`. It stays until the caller has counted its element.
    ORCHARD_FN std::uint32_t find(const word& from, std::uint64_t number) const {
        for (std::uint32_t nanoseconds = 100;; nanoseconds = nanoseconds < 2000 ? nanoseconds * 2 : nanoseconds) {
            // Acquire: the chunk. Pairs with the release in `advance`.
            std::uint64_t r = from.load<simt::order::acquire>();
            while (r != 0 && !chunk_reference::is(r, number)) {
                r = next_of(r);
            }
            if (r != 0) {
                return chunk_reference::index(r);
            }
            simt::pause(nanoseconds);
        }
    }

    /// Counts an element that was written (1) or read (1 << 32). The last one of either moves the pointers along.
    ORCHARD_INLINE void count(std::uint32_t index, std::uint64_t what) {
        // Release: this lane's access to its place; acquire: those of the others.
        const std::uint64_t now = v_->headers[index].counts.fetch_add<simt::order::acq_rel>(what) + what;
        if ((what == 1 && static_cast<std::uint32_t>(now) == places()) || now == (places() << 32 | places())) {
            advance();
        }
    }

    /// Moves the pointers as far as they can move, and gives chunks back.
    ///
    /// Of two lanes that complete neighbouring chunks, at least one moves a pointer past both: each changes the counts
    /// first, and then the pointer, by atomics with acquire and release (an addition of 0 if it does not move it). The
    /// later one of these on the pointer sees the other lane's counts. In print, plain reads may miss both, and then
    /// `last` stays for ever at a chunk that is given back.
    ORCHARD_NOINLINE void advance() {
        for (;;) {
            const std::uint64_t last = read(words_->last);
            if (static_cast<std::uint32_t>(counts_of(last)) == places()) {
                (void)move(words_->last, last);
                continue;
            }
            const std::uint64_t first = read(words_->first);
            if (distance(first, last) > 0 && counts_of(first) == (places() << 32 | places())) {
                (void)move(words_->first, first);
                continue;
            }
            const std::uint64_t oldest = read(words_->oldest);
            if (distance(oldest, first) <= static_cast<std::int32_t>(v_->trail)) {
                return;
            }
            if (move(words_->oldest, oldest)) {
                give_back(oldest);
            }
        }
    }
    /// Returns the value of a pointer, as the last one of all atomics on it so far.
    static ORCHARD_INLINE std::uint64_t read(word& pointer) { return pointer.fetch_add<simt::order::acq_rel>(0); }
    /// Returns how many chunks `to` is behind `from` in the queue.
    static ORCHARD_INLINE std::int32_t distance(std::uint64_t from, std::uint64_t to) {
        return static_cast<std::int32_t>(chunk_reference::number(to) - chunk_reference::number(from));
    }
    /// Moves a pointer from `r` to the next chunk; returns false if another lane has moved it. A chunk at which a
    /// pointer stands is not given back, and one whose elements are written has a next one.
    ORCHARD_INLINE bool move(word& pointer, std::uint64_t r) {
        const std::uint64_t next = next_of(r);
        std::uint64_t expected = r;
        return next != 0 && pointer.compare_exchange<simt::order::acq_rel>(expected, next);
    }
    ORCHARD_INLINE void give_back(std::uint64_t r) {
        // Release, and before the chunk goes to the pool: a lane that reads a word of its next use also sees that the
        // number has changed.
        header_of(r).number.store<simt::order::release>(0);
        chunk_pool(*v_).give_from_queue(chunk_reference::index(r));
    }

    const instance_view* v_;
    class_words* words_;
    std::uint64_t queue_;  ///< the upper half of the numbers of this queue's chunks
};

}  // namespace orchard::device::ouroboros
