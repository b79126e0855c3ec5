// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Extents, and the ring that carries them between the service and the growth thread.

#include <cstdint>
#include <optional>

#include "device/simt/atomic.cuh"
#include "uvm/geometry/geometry.hpp"
#include "uvm/geometry/managed_advice.hpp"
#include "uvm/memory/memory_driver.hpp"

namespace orchard {

/// Segments that are committed in one call, and decommitted in one call, and the tier that their memory is on. An
/// extent is never split or joined, because a backing undoes exactly one mapping at a time; except for a backing that
/// decommits at once (`backing::decommits_at_once`): there, each segment of an extent that was committed becomes an
/// extent of its own.
struct extent {
    segment_run run{segment_index{0}, 0};
    memory_tier tier = memory_tier::device;
    advice_code advice = 0;  ///< in `growth_line::advise`: the advice to be given; otherwise 0
    friend bool operator==(const extent&, const extent&) = default;
};

/// Extents on their way from one thread to another: a ring with one writer and one reader. Neither waits for the other,
/// and no lock is taken, so that neither the service's request path nor a driver call of the growth thread delays the
/// other.
///
///     a word    63       32 31     3 2      1    0
///               |  first   | count  | advice | host |      host = 1: the extent's memory is on the host
///
///     words_    | e | e | e | . | . | . | ...       `capacity` words, used in a circle
///                 ^popped_    ^pushed_              e: pushed and not popped yet; indices are modulo `capacity`
///
/// Both indices count up for ever and wrap at 2^32. That is harmless: `capacity` divides 2^32, and the number of
/// extents in the ring is the difference of the indices modulo 2^32.
class run_ring {
public:
    /// The most extents in the ring. A writer that finds it full keeps its extent and tries again later.
    static constexpr std::uint32_t capacity = 32;

    /// Adds an extent. Returns false, and changes nothing, if there is no room. Only the writer's thread calls it.
    /// Everything that the thread did before, such as the commit itself, is visible to the reader that pops the extent.
    /// Cost: a load and two stores; no system call.
    bool push(const extent& e) {
        // Relaxed: only this thread writes `pushed_`.
        const std::uint32_t at = pushed_.load<simt::order::relaxed>();
        if (at - popped_.load<simt::order::acquire>() == capacity) {  // pairs with `pop`: the word has been read
            return false;
        }
        words_[at % capacity].store<simt::order::relaxed>(pack(e));
        pushed_.store<simt::order::release>(at + 1);  // pairs with `pop`
        return true;
    }
    /// Returns true if the ring is full. The writer or the reader calls it. The result may be outdated, but only in one
    /// direction: to the writer the ring may seem full for a moment after the reader has made room, and never the other
    /// way round, since no other thread adds to it. After a result of false, the writer's next `push` succeeds.
    [[nodiscard]] bool is_full() const {
        return pushed_.load<simt::order::acquire>() - popped_.load<simt::order::acquire>() == capacity;
    }
    /// Returns the oldest extent, which stays in the ring; nothing if there is none. Only the reader's thread calls it.
    /// Cost: three loads.
    [[nodiscard]] std::optional<extent> front() const {
        // Relaxed: only this thread writes `popped_`.
        const std::uint32_t at = popped_.load<simt::order::relaxed>();
        if (at == pushed_.load<simt::order::acquire>()) {  // pairs with `push`
            return std::nullopt;
        }
        return unpack(words_[at % capacity].load<simt::order::relaxed>());
    }
    /// Takes the oldest extent; returns nothing if there is none. Only the reader's thread calls it. Cost: four loads
    /// and a store.
    std::optional<extent> pop() {
        const std::optional<extent> e = front();
        if (e) {
            popped_.store<simt::order::release>(popped_.load<simt::order::relaxed>() + 1);  // pairs with `push`
        }
        return e;
    }

private:
    /// Returns the word of an extent, as drawn above, and back. A count fits 29 bits, since a heap has at most 2^24
    /// segments.
    static std::uint64_t pack(const extent& e) {
        return std::uint64_t{to_underlying(e.run.first)} << 32 | std::uint64_t{e.run.count} << 3 |
               std::uint64_t{e.advice} << 1 | (e.tier == memory_tier::host ? 1u : 0u);
    }
    static extent unpack(std::uint64_t word) {
        return {{segment_index{static_cast<std::uint32_t>(word >> 32)}, static_cast<std::uint32_t>(word) >> 3},
                (word & 1) != 0 ? memory_tier::host : memory_tier::device,
                static_cast<advice_code>(word >> 1 & (advice_codes - 1))};
    }

    // Each index has a cache line of its own: the writer stores one of them and the reader the other, and neither
    // should take the line from the other thread.
    simt::host_word<std::uint64_t> words_[capacity]{};
    alignas(64) simt::host_word<std::uint32_t> pushed_{0};
    alignas(64) simt::host_word<std::uint32_t> popped_{0};
};

}  // namespace orchard
