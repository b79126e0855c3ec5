// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Sums the records of a program's processes up, for tables and JSON.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "profiling/profile/page_ledger.hpp"
#include "profiling/profile/record_file.hpp"

namespace orchard::profiling {

/// All launches of one kernel. Times are in nanoseconds, of launches that CUPTI could measure.
struct kernel_row {
    std::string name;
    std::uint64_t launches = 0;
    std::uint64_t without_time = 0;
    std::uint64_t total_ns = 0;
    std::uint64_t least_ns = 0;
    std::uint64_t median_ns = 0;  ///< the lower one of the two in the middle
    std::uint64_t most_ns = 0;
    kernel_record last{};    ///< of the last launch: its grid, registers, ...
    bool same_shape = true;  ///< all launches had that grid and those blocks
};

/// Transfers, faults and mappings of one kind and cause.
struct unified_row {
    unified_kind kind = unified_kind::to_device;
    std::string cause;  ///< of a transfer or a mapping; of a fault, the kind of access; may be empty
    std::uint64_t records = 0;
    std::uint64_t bytes = 0;   ///< 0 for faults and throttling
    std::uint64_t groups = 0;  ///< of faults of the device
    std::uint64_t time_ns = 0;
};

/// Unified memory by what it was used for.
struct owner_row {
    std::string owner;  ///< "heap 0: pages of 64 B", "heap 0: chunks", "no heap of Orchard"
    std::uint64_t to_device_bytes = 0;
    std::uint64_t to_host_bytes = 0;
    std::uint64_t evicted_bytes = 0;  ///< of those, to make room
    std::uint64_t device_fault_groups = 0;
    std::uint64_t host_faults = 0;
    std::uint64_t thrashing_bytes = 0;
};

/// Copies, fills and changes of pools.
struct memory_row {
    std::string what;
    std::uint64_t count = 0;
    std::uint64_t bytes = 0;
    std::uint64_t time_ns = 0;
};

/// Samples of the program counter in one function.
struct sample_row {
    std::string function;
    std::uint64_t samples = 0;
    bool is_allocator = false;
};

/// A problem or a note, with how many processes had it.
struct problem_row {
    problem_code code = problem_code::note;
    std::string text;
    std::uint64_t processes = 0;
};

/// The sums over all processes.
struct summary {
    std::vector<std::uint32_t> pids;
    std::vector<kernel_row> kernels;  ///< the longest total first
    std::vector<unified_row> unified;
    std::vector<owner_row> owners;  ///< by bytes; only where there are records of unified memory
    std::vector<memory_row> memory;
    std::vector<sample_row> samples;  ///< the most first
    std::vector<problem_row> problems;
    std::uint64_t heaps = 0;
    std::uint64_t all_samples = 0;  ///< also those in no function
    std::uint64_t dropped_samples = 0;
    // Loss.
    std::uint64_t dropped_records = 0;
    std::uint64_t left_out_records = 0;
    std::uint64_t unread_bytes = 0;
    std::uint64_t unfinished = 0;  ///< processes that did not end in order
    ledger_findings pages;

    /// Returns true if records are known to be missing.
    [[nodiscard]] bool has_loss() const {
        return dropped_records != 0 || left_out_records != 0 || unread_bytes != 0 || unfinished != 0 ||
               pages.missing_to_host != 0 || pages.missing_to_device != 0;
    }
    /// Returns the bytes of all transfers in one direction, as far as there are records.
    [[nodiscard]] std::uint64_t bytes(unified_kind direction) const;
    /// Returns the samples in functions of the allocator.
    [[nodiscard]] std::uint64_t allocator_samples() const;
    /// Returns true if a problem of this kind was recorded.
    [[nodiscard]] bool has(problem_code code) const;
};

summary summarise(std::span<const recorded_process> processes);

/// Returns the name of a function as its source has it; the name itself if it is none of C++. Characters that no
/// terminal should get become '?'.
std::string readable_name(const std::string& name);

/// Returns true if a readable name is that of a function of the allocator: one in the namespace orchard::device, a
/// function of orchard/orchard.h, or `malloc`, `free` and the like. The types of parameters do not count.
bool is_allocator(std::string_view readable);

/// Returns the words for CUPTI's numbers: "evictions", "demand" and so on; "cause 9" for one that is not known.
std::string cause_of(const unified_record& record);
std::string_view name_of(unified_kind kind);

}  // namespace orchard::profiling
