// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Extents, and the ring that carries them between a shard's service and the growth thread.

#include <cstdint>
#include <optional>

#include "device/simt/atomic.cuh"
#include "uvm/geometry/geometry.hpp"
#include "uvm/memory/memory_driver.hpp"

namespace orchard {

/// Segments that are committed in one call, and decommitted in one call.
struct extent {
    segment_run run{segment_index{0}, 0};
    memory_tier tier = memory_tier::device;
    friend bool operator==(const extent&, const extent&) = default;
};

/// Extents on their way from one thread to another: a ring with one writer and one reader. Neither waits for the other.
///
///     word   63        32 31        1 0
///            |   first   |   count   | on the host
class run_ring {
public:
    static constexpr std::uint32_t capacity = 32;

    /// Adds an extent; returns false if there is no room. The writer calls it.
    bool push(const extent& e) {
        const std::uint32_t at = pushed_.load<simt::order::relaxed>();
        if (at - popped_.load<simt::order::acquire>() == capacity) {  // pairs with `pop`: the word has been read
            return false;
        }
        words_[at % capacity].store<simt::order::relaxed>(pack(e));
        pushed_.store<simt::order::release>(at + 1);  // pairs with `pop`
        return true;
    }
    /// Returns whether the ring is full. The writer or the reader calls it. The result may be outdated: to the writer,
    /// the ring may seem full for a moment after the reader has made room.
    [[nodiscard]] bool is_full() const {
        return pushed_.load<simt::order::acquire>() - popped_.load<simt::order::acquire>() == capacity;
    }
    /// Takes the next extent; returns nothing if there is none. The reader calls it.
    std::optional<extent> pop() {
        const std::uint32_t at = popped_.load<simt::order::relaxed>();
        if (at == pushed_.load<simt::order::acquire>()) {  // pairs with `push`
            return std::nullopt;
        }
        const extent e = unpack(words_[at % capacity].load<simt::order::relaxed>());
        popped_.store<simt::order::release>(at + 1);  // pairs with `push`
        return e;
    }

private:
    static std::uint64_t pack(const extent& e) {
        return std::uint64_t{to_underlying(e.run.first)} << 32 | std::uint64_t{e.run.count} << 1 |
               (e.tier == memory_tier::host ? 1u : 0u);
    }
    static extent unpack(std::uint64_t word) {
        return {{segment_index{static_cast<std::uint32_t>(word >> 32)}, static_cast<std::uint32_t>(word) >> 1},
                (word & 1) != 0 ? memory_tier::host : memory_tier::device};
    }

    simt::host_word<std::uint64_t> words_[capacity]{};
    alignas(64) simt::host_word<std::uint32_t> pushed_{0};
    alignas(64) simt::host_word<std::uint32_t> popped_{0};
};

}  // namespace orchard
