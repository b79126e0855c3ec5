// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The ring through which kernels report events to the host: of a heap that is traced, or that counts its allocation
/// sites.
///
///     device memory    ticket    events that have a place so far; place n is slot n mod `slots`
///                      room      tickets below it may be written: a copy, seldom read anew, of `progress` + `slots`
///     host memory      words     [4][slots]: four words to a slot; one array for each, so that the lanes of a warp
///                                write whole cache lines
///                      progress  events that the host has read so far, in total
///
/// Every word of a slot carries a mark of the ring's lap, so that the host sees from each word alone whether it is new:
/// the device needs no fence between them. As a slot is written again only after the host has read it, the word that is
/// overwritten always has the mark of the lap before, or of an earlier one if it was left out.
///
///     63   61 60                                                    0
///     | mark |  time in ns                                           |    word 0
///     | mark |  byte offset in the heap                              |    word 1
///     | mark |  bytes                                                |    word 2
///     | mark |  kind (5 bits)  |  detail (24 bits)  |  thread (32)   |    word 3
///
/// Example: a ring of 65,536 slots. Ticket 200,000 goes to slot 3,392, in lap 3; its words have the mark 4. Laps are
/// counted from 0, and have the marks 1, 2, 3, 4, 1, ...

#include <cstdint>

#include "device/simt/atomic.cuh"
#include "uvm/geometry/geometry.hpp"

namespace orchard::device {

/// The kinds of events that kernels report. `none` is the kind of no slot. The numbers are those of this ring alone;
/// traces have those of `event_kind`.
enum class device_event : std::uint32_t {
    none,
    block_allocated,
    block_freed,
    block_tagged,
    slab_opened,
    slab_retired,
    shortage,
};

/// The fields of the words of a slot.
struct event_words {
    static constexpr int mark_shift = 61;
    static constexpr std::uint64_t value_mask = (std::uint64_t{1} << mark_shift) - 1;
    static constexpr int kind_shift = 56;
    static constexpr int detail_shift = 32;
    static constexpr std::uint32_t detail_mask = (1u << 24) - 1;

    /// Returns the mark of a lap, counted from 0: 1 to 4. Memory that was never written has the mark 0.
    static ORCHARD_INLINE constexpr std::uint64_t mark_of(std::uint64_t lap) { return (lap & 3) + 1; }
    static ORCHARD_INLINE constexpr std::uint64_t word(std::uint64_t mark, std::uint64_t value) {
        return mark << mark_shift | (value & value_mask);
    }
    static ORCHARD_INLINE constexpr std::uint64_t what(device_event kind, std::uint32_t detail, std::uint32_t thread) {
        return std::uint64_t{static_cast<std::uint32_t>(kind)} << kind_shift |
               std::uint64_t{detail & detail_mask} << detail_shift | thread;
    }
};

/// The device's part of the ring, in device memory. The host sets the constants before the first kernel.
struct event_ring {
    static constexpr std::uint32_t words_a_slot = 4;

    alignas(128) simt::device_word<std::uint64_t> ticket;
    alignas(128) simt::device_word<std::uint64_t> room;
    alignas(128) simt::device_word<std::uint64_t> lost;  ///< events of blocks that got no ticket
    simt::device_word<std::uint64_t> lost_notes;         ///< other events that got none
    /// Nonzero once a group has waited in vain for room in a complete ring: no group waits or writes from then on, as
    /// the events before and after a gap could not be replayed.
    simt::device_word<std::uint64_t> is_broken;
    simt::device_word<std::uint64_t> waits;      ///< groups that found the ring full and waited
    simt::device_word<std::uint64_t> waited_ns;  ///< the sum of their times

    alignas(128) simt::host_word<std::uint64_t>* words;  ///< [words_a_slot][slots]
    simt::host_word<std::uint64_t>* progress;
    std::uint64_t slots;  ///< a power of two, at least 32
    std::uint32_t log_slots;
    std::uint64_t timeout_ns;  ///< how long a group waits for the host's next progress
};

}  // namespace orchard::device
