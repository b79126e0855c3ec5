// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `orchard arena`: what a case is, and what comes of it. An allocator runs one case in a process of its own
/// (worker.hpp); what it returns there becomes a row of the result (results.hpp).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "device/simt/launch.cuh"

namespace orchard::arena {

/// What a case makes an allocator do. The functions that measure them are in measure_*.cuh.
enum class kind {
    malloc_time,   ///< each thread allocates a block: the time of that kernel
    free_time,     ///< the same: the time of the kernel that frees
    range,         ///< the same: addresses from the lowest to the highest block, over the bytes asked for
    fill,          ///< blocks until one is refused: the share of the memory that was asked for; and once more
    growth,        ///< blocks are allocated and half of them freed, again and again until one is refused: the share of
                   ///< the memory in the blocks that are left
    create,        ///< the owner is made and destroyed: the time to make it
    initialise,    ///< the owner is emptied: the time of that
    work,          ///< as malloc_time, with sizes as a work generation has them; `write` adds the time to write them
    churn,         ///< rounds of malloc, write and free in one kernel: its time
    lists,         ///< each thread builds a linked list of its own length: the time to build it
    grow,          ///< each thread grows a block by realloc: the time of the kernel
    graph_init,    ///< each thread allocates the row of a vertex: the time of that kernel
    graph_update,  ///< each thread adds neighbours to a row, which may move: the time of that kernel
    graph_expand,  ///< each thread doubles the neighbours of its row, `rounds` times: the time of those kernels
    handover,      ///< one half of the warps allocates, the other half frees what it gets from the first: its time
    keep,          ///< each thread allocates `rounds` blocks and frees none: the time of the kernel
    nearly_full,   ///< as malloc_time, after the memory was filled and a share of the blocks freed
    turn_over,     ///< each thread fills or empties one of its slots: the time of the kernel
    streams,       ///< as malloc_time, by two kernels of two streams at once: the time of the longer one
    beside,        ///< as malloc_time, while another process does the same on the same device
    malloc_registers,  ///< registers of the kernel of malloc_time; no time
    free_registers,    ///< registers of the kernel of free_time; no time
    atomics,           ///< each thread adds to one word: its time. No allocator takes part; the floor runs it
};

/// A case. Its numbers are those for a GPU; `for_device` reduces them for the emulated device.
struct arena_case {
    std::string name;    ///< its source, and after a slash what varies: "winter_9a/64"
    std::string source;  ///< the paper and the figure, or the benchmark
    kind what = kind::malloc_time;
    std::uint32_t threads = 0;              ///< of a launch
    std::uint32_t least = 0;                ///< bytes of a request
    std::uint32_t most = 0;                 ///< bytes of a request, included
    std::uint32_t of_first = 0;             ///< bytes that thread 0 asks for instead; 0: as the others
    bool powers = false;                    ///< sizes are `least` times powers of two, not all multiples of 4
    bool by_lane = false;                   ///< lane i of each warp asks for a page of another class than lane i + 1
    std::uint32_t lanes = simt::warp_size;  ///< of each warp allocate, the first ones
    bool fresh = false;                     ///< of `malloc_time`, `free_time`: emptied before each repetition
    bool write = false;                     ///< of `work`
    bool pressure = false;                  ///< of `graph_update`: few vertices get all new neighbours
    std::uint32_t rounds = 1;  ///< of `churn`, `handover`, `grow`, `keep`, `graph_expand`; the longest list; slots of
                               ///< `turn_over`; degrees of the other graphs: below 2^rounds
    std::uint32_t free_per_mille = 0;  ///< of `nearly_full`: blocks that are freed, of 1,000
    bool quick = false;                ///< one of the ten cases of --quick
};

/// What a worker runs.
struct task {
    arena_case what;           ///< with the numbers for the device
    simt::executor on;         ///< timed
    std::uint64_t memory = 0;  ///< bytes that the allocator has
    int repeats = 1;           ///< timed repetitions
};

/// How a case ended. All but `ok`, `not_offered` and `not_run` are faults of the allocator, and results.
enum class verdict {
    ok,
    null,         ///< a request that the memory suffices for was refused
    overlap,      ///< two live blocks share bytes, or a block lost what was written into it
    misaligned,   ///< a block is not aligned to 16 B
    leak,         ///< memory is not available again after all blocks were freed
    crash,        ///< the process or a kernel ended with an error
    hang,         ///< the time limit
    not_offered,  ///< the allocator has no such function
    not_run,      ///< the time of the whole call was over
};
inline constexpr std::string_view verdict_names[] = {"ok",    "null", "overlap",     "misaligned", "leak",
                                                     "crash", "hang", "not offered", "not run"};
/// Returns the word of the tables.
constexpr std::string_view word_of(verdict v) { return verdict_names[static_cast<int>(v)]; }

/// What one case gave.
struct outcome {
    verdict ended = verdict::ok;
    std::string detail;  ///< of a fault: what was found
    std::string unit = "us";
    std::vector<double> values;  ///< of each repetition, in order; empty after most faults

    /// Notes a fault. The gravest stays: crash, overlap, misaligned, null, leak.
    void fault(verdict v, std::string why);
};

/// Returns all cases of the arena, in the order of the tables.
const std::vector<arena_case>& all_cases();

/// Returns the case with the numbers that the device can do in a moment: on the emulated device at most 512 threads,
/// and fewer if their blocks are large.
arena_case for_device(arena_case c, simt::device_kind device);

/// Returns the bytes of the largest block that a case asks for.
std::uint64_t largest_request(const arena_case& c);

/// The memory that an allocator has, in bytes. Winter et al. give each 8 GiB; a quick run takes a quarter of that.
std::uint64_t default_memory(simt::device_kind device, bool quick);
/// Returns the bytes of them that a case uses: `fill` and `growth` take 2 GiB at most, as in the papers, and
/// `nearly_full` 256 MiB; on the emulated device 16 MiB, and `growth` 4. Where the requests of `malloc_time` may be all
/// of `memory` or more, it is five quarters of the most that they may be (up to 80 GiB, for Zhang et al., Fig. 10a),
/// unless `memory` is below the default, and thus a bound that was given.
std::uint64_t memory_for(const arena_case& c, std::uint64_t memory, simt::device_kind device);
/// Timed repetitions of a case.
int default_repeats(simt::device_kind device, bool quick);

}  // namespace orchard::arena
