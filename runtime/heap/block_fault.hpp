// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Faults of a program that a hardened heap has found, as the host reports them.

#include <cstdint>
#include <string>
#include <string_view>

#include "uvm/geometry/hardening.hpp"

namespace orchard {

/// A fault. `to_text` makes a line of it for people.
struct block_fault {
    /// A thread of a kernel.
    struct thread_name {
        std::uint32_t block = 0;   ///< its block index
        std::uint32_t thread = 0;  ///< its index in the block
        friend constexpr bool operator==(const thread_name&, const thread_name&) = default;
    };

    // As the device has recorded them (device/hardened/block_fault_record.cuh).
    block_fault_kind kind = block_fault_kind::none;
    std::uintptr_t address = 0;  ///< of the block; of an invalid free, the address that was freed
    std::uint64_t bytes = 0;     ///< size that the program asked for; 0 if it is not known
    thread_name allocated_by{};  ///< the thread that allocated the block; known if `bytes` is
    thread_name found_by{};      ///< the thread whose call of `malloc` or `free` found the fault
    std::uint64_t time_ns = 0;   ///< on the device's clock (`simt::clock_ns`)
    std::uint32_t tag = 0;       ///< of the block (`heap_ref::malloc` with a tag); 0: none, or not known

    friend constexpr bool operator==(const block_fault&, const block_fault&) = default;
};

/// Returns the kind's name as in the enumeration: "use_after_free"; "unknown" for a value outside it.
std::string_view name_of(block_fault_kind kind);

/// Returns one line for people: the block, its size and tag, what happened, both threads, the time and the remedy.
std::string to_text(const block_fault& fault);

}  // namespace orchard
