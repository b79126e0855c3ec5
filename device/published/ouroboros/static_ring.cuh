// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `static_ring`: the storage of a queue as one array (variant S; section 3.3 and lines 6 and 13 of Alg. 1).
///
///     positions    8   9   2   3   4   5   6   7          size 8: position 9 lies at place 1
///     words      [ . | . | a | b | . | . | . | . ]        `.`: 0, the mark of an empty place
///                          ^front  ^back
///
/// Two lanes may share a place if one of them is a round behind: both writers wait until it is empty, both readers
/// until it is not. Each then gets some element, and none is lost, which is all that users of the queues need.

#include <cstdint>

#include "device/simt/atomic.cuh"
#include "device/simt/lane.cuh"
#include "device/simt/mutation.cuh"

namespace orchard::device::ouroboros {

class static_ring {
public:
    using word = simt::device_word<std::uint32_t>;

    /// @param words  2^log words, zero at first
    ORCHARD_INLINE static_ring(word* words, std::uint32_t log) : words_{words}, mask_{(std::uint64_t{1} << log) - 1} {}

    /// Writes the value when the place is empty, which is after the read of the position 2^log before.
    ORCHARD_FN void put(std::uint64_t position, std::uint32_t value) {
        word& place = words_[position & mask_];
        // Release: what the lane did before, such as setting up a chunk. Pairs with `take`.
        simt::mutation::weaken_next(simt::mutation::fault::page_put);
        for (std::uint32_t empty = 0; !place.compare_exchange<simt::order::release>(empty, value); empty = 0) {
            simt::pause(100);
            simt::mutation::weaken_next(simt::mutation::fault::page_put);
        }
    }
    /// Returns the value, and empties the place, when a value is there.
    ORCHARD_FN std::uint32_t take(std::uint64_t position) {
        word& place = words_[position & mask_];
        for (;;) {
            // Acquire: pairs with the release in `put`.
            if (const std::uint32_t value = place.exchange<simt::order::acquire>(0); value != 0) {
                return value;
            }
            simt::pause(100);
        }
    }

private:
    word* words_;
    std::uint64_t mask_;
};

}  // namespace orchard::device::ouroboros
