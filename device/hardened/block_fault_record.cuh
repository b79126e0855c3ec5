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

/// A fault as the host reads it. Threads are named as by `own_name`.
struct recorded_block_fault {
    block_fault_kind kind = block_fault_kind::none;
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint64_t owner = 0;   ///< the thread that allocated the block
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
