// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `array_hierarchy`: the storage of a queue in chunks, to which an array points (variant VA; section 5.1 of the
/// paper).
///
///     directory   [ - | 5 | 6 | 7 ]         4 entries: chunk number 5 of the queue lies at entry 1
///                       |   |   |
///     chunks           [xx] [x.] [..]        `x`: written and read; `-`: none
///
/// The lane with the first position of a chunk adds the next chunk, before its own element, so that others seldom wait
/// for one. A chunk all of whose elements were written and read goes back to the pool. An entry has the number of its
/// chunk beside the pointer: in print, a lane may use the chunk of the round before, which is still there.

#include <cstdint>

#include "device/published/ouroboros/chunk_pool.cuh"

namespace orchard::device::ouroboros {

class array_hierarchy {
public:
    ORCHARD_INLINE array_hierarchy(const instance_view& v, std::uint32_t page_class)
        : v_{&v},
          directory_{v.directories + v.layout[page_class].offset},
          mask_{(std::uint64_t{1} << v.layout[page_class].log) - 1} {}

    /// Adds the first chunk. One lane calls it, before all other calls.
    ORCHARD_FN void start() { add(0); }

    /// Writes a value. Waits for its chunk, which another lane may be adding.
    ORCHARD_FN void put(std::uint64_t position, std::uint32_t value) {
        const std::uint64_t number = position >> v_->places_log();
        if (place_of(position) == 0) {
            add(number + 1);
        }
        const std::uint32_t index = find(number);
        // Release: pairs with `take`.
        v_->places_of(index)[place_of(position)].store<simt::order::release>(value);
        count(number, index, 1);
    }
    /// Returns the value when it is there. Waits for its chunk, too.
    ORCHARD_FN std::uint32_t take(std::uint64_t position) {
        const std::uint64_t number = position >> v_->places_log();
        const std::uint32_t index = find(number);
        auto& place = v_->places_of(index)[place_of(position)];
        std::uint32_t value = 0;
        // Acquire: pairs with `put`. The place is not emptied: it is used once, until the chunk is added again.
        while ((value = place.load<simt::order::acquire>()) == 0) {
            simt::pause(100);
        }
        count(number, index, std::uint64_t{1} << 32);
        return value;
    }

private:
    [[nodiscard]] ORCHARD_INLINE std::uint64_t places() const { return std::uint64_t{1} << v_->places_log(); }
    [[nodiscard]] ORCHARD_INLINE std::uint64_t place_of(std::uint64_t position) const {
        return position & (places() - 1);
    }
    [[nodiscard]] ORCHARD_INLINE simt::device_word<std::uint64_t>& entry(std::uint64_t number) const {
        return directory_[number & mask_];
    }

    /// Returns the chunk with this number when it is there. It stays until the caller has counted its element.
    ORCHARD_FN std::uint32_t find(std::uint64_t number) const {
        for (std::uint32_t nanoseconds = 100;; nanoseconds = nanoseconds < 2000 ? nanoseconds * 2 : nanoseconds) {
            // Acquire: the chunk's empty places. Pairs with the release in `add`.
            const std::uint64_t r = entry(number).load<simt::order::acquire>();
            if (chunk_reference::is(r, number)) {
                return chunk_reference::index(r);
            }
            simt::pause(nanoseconds);
        }
    }
    /// Adds the chunk with this number. Waits until the chunk of the round before has left the directory, which has
    /// room for more elements than there are.
    ORCHARD_FN void add(std::uint64_t number) {
        const std::uint32_t index = chunk_pool(*v_).take_for_queue();
        // Release: pairs with `find`. A compare-and-swap, since a load may return a 0 from before that chunk.
        for (std::uint64_t none = 0;
             !entry(number).compare_exchange<simt::order::release>(none, chunk_reference::make(number, index));
             none = 0) {
            simt::pause(100);
        }
    }
    /// Counts an element that was written (1) or read (1 << 32). The last one of all gives the chunk back.
    ///
    /// Both counts only increase. In print, the second one is that of elements in the chunk: a reader that counts
    /// before its writer makes it negative, which changes the other count in the same word.
    ORCHARD_INLINE void count(std::uint64_t number, std::uint32_t index, std::uint64_t what) {
        // Release: this lane's access to its place; acquire: those of the others, before the chunk is used again.
        const std::uint64_t before = v_->headers[index].counts.fetch_add<simt::order::acq_rel>(what);
        if (before + what == (places() << 32 | places())) {
            // Relaxed: no lane looks for this chunk any more.
            entry(number).store<simt::order::relaxed>(0);
            chunk_pool(*v_).give_from_queue(index);
        }
    }

    const instance_view* v_;
    simt::device_word<std::uint64_t>* directory_;
    std::uint64_t mask_;
};

}  // namespace orchard::device::ouroboros
