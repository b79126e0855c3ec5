// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The join with each kind of memory for its result, and on the host.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "examples/graph/host_memory.hpp"
#include "examples/join/join_kernels.cuh"
#include "runtime/cli/progress.hpp"
#include "runtime/heap/heap.hpp"

namespace orchard::examples {

struct join_options {
    std::uint64_t tuples = 16'384;  ///< of each table
    std::uint64_t page_bytes = 64;  ///< a power of two, 32 B to 4 KiB
    int repeats = 10;
    std::uint64_t seed = 1;
    options heap;
};

/// The kinds of memory, by their names on the command line:
///
///     direct    an array from which each request takes the next page; nothing comes back ("direct output buffer")
///     queue     free pages in a queue with two atomic counters
///     rw, rw_bm64, corw    the published random walks
///     orchard   `heap_ref::malloc`
std::span<const std::string_view> join_memories();

struct join_totals {
    std::uint64_t matches = 0;
    std::uint64_t sum = 0;  ///< of `mix_result`
    friend bool operator==(const join_totals&, const join_totals&) = default;
};

struct join_run {
    std::string memory;
    join_totals totals;
    std::uint64_t pages = 0;
    std::uint64_t incomplete = 0;  ///< tuples without a page for a result
    bool is_whole = true;          ///< the heap is valid and empty afterwards; true where there is none
    std::string fault;
    std::vector<double> partition_us;  ///< of each repetition
    std::vector<double> probe_us;
    std::vector<double> free_us;
};

/// Returns ResourceExhausted if the tables of so many tuples, and a sorted copy of one, exceed the memory `have` of the
/// host. On the emulated device, the arrays of `run_join` are there, too.
absl::Status check_join_memory(std::uint64_t tuples, simt::device_kind device,
                               std::uint64_t have = host_memory_bytes());

/// Returns the tables: keys are random numbers below the number of tuples, so that a tuple matches one other on
/// average.
std::vector<join_tuple> make_table(std::uint64_t tuples, std::uint64_t seed, std::uint64_t table);

/// Returns the result by a plain join on the host, and the pages that it takes.
join_totals join_on_host(std::span<const join_tuple> first, std::span<const join_tuple> second,
                         std::uint64_t page_bytes, std::uint64_t* pages);

/// Returns the join with one kind of memory. `pages`: of `direct` and `queue`. Errors: those of the heap and of the
/// device.
absl::StatusOr<join_run> run_join(std::string_view memory, const join_options& options,
                                  std::span<const join_tuple> first, std::span<const join_tuple> second,
                                  std::uint64_t pages, command_line::progress& bar);

}  // namespace orchard::examples
