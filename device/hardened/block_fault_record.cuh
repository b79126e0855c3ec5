// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstdint>
#include <optional>

#include "device/simt/atomic.cuh"
#include "device/simt/lane.cuh"
#include "uvm/geometry/hardening.hpp"

namespace orchard::device {

/// Returns the calling thread's name in a word: its block, then its index there.
ORCHARD_INLINE std::uint64_t own_name() {
    const simt::thread_position at = simt::position();
    return std::uint64_t{at.block} << 32 | at.thread;
}

/// The thread that allocated a block, and the block's tag, in a word:
///
///     63           32 31      10 9        0
///     |  block index  |   tag   |  thread  |      with the tag 0: as `own_name`
struct block_owner {
    static constexpr std::uint32_t thread_bits = 10;
    static_assert(max_block_tag == ~std::uint32_t{0} >> thread_bits, "a tag and a thread's index fill half a word");

    /// Returns the word of a thread's name and a tag of at most `max_block_tag`.
    static ORCHARD_INLINE constexpr std::uint64_t word(std::uint64_t name, std::uint32_t tag) {
        return name | std::uint64_t{tag} << thread_bits;
    }
    static ORCHARD_INLINE constexpr std::uint32_t tag_of(std::uint64_t word) {
        return static_cast<std::uint32_t>(word) >> thread_bits;
    }
    static ORCHARD_INLINE constexpr std::uint64_t name_of(std::uint64_t word) {
        return word & ~(std::uint64_t{max_block_tag} << thread_bits);
    }
};

/// A fault as the host reads it. The thread that found it is named as by `own_name`.
struct recorded_block_fault {
    block_fault_kind kind = block_fault_kind::none;
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint64_t owner = 0;   ///< the thread that allocated the block, and its tag (`block_owner`)
    std::uint64_t finder = 0;  ///< the thread whose call found the fault
    std::uint64_t time_ns = 0;
};

/// The record of one fault, in host memory. It is written once; `kind` last.
struct alignas(64) block_fault_record {
    simt::host_word<std::uint64_t> address;
    simt::host_word<std::uint64_t> bytes;
    simt::host_word<std::uint64_t> owner;
    simt::host_word<std::uint64_t> finder;
    simt::host_word<std::uint64_t> time_ns;
    simt::host_word<std::uint32_t> kind;

    /// Returns the fault; nothing if none was recorded here. Any host thread may call it.
    [[nodiscard]] std::optional<recorded_block_fault> read() const {
        using simt::order;
        const auto what = static_cast<block_fault_kind>(kind.load<order::acquire>());  // pairs with the last store
        if (what == block_fault_kind::none) {
            return std::nullopt;
        }
        return recorded_block_fault{what,
                                    address.load<order::relaxed>(),
                                    bytes.load<order::relaxed>(),
                                    owner.load<order::relaxed>(),
                                    finder.load<order::relaxed>(),
                                    time_ns.load<order::relaxed>()};
    }
};

/// The first faults of a heap.
struct block_fault_board {
    static constexpr std::uint32_t records = 16;
    block_fault_record first[records];
};

}  // namespace orchard::device
