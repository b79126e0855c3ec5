// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The form of a file of records: what the library that `orchard profile` puts into a program writes, and the command
/// reads. One file for each process. Numbers are those of the machine (little endian).
///
///     file_header                     magic, version, process
///     block_header, payload           any number of times
///     ...
///     block_header, end_record        if the process ended in order; otherwise the file ends behind a block
///
///     block      payload
///     name       an index that counts up from 0, then the characters of a kernel or function, as the compiler made it
///     kernels    kernel_record...
///     unified    unified_record...
///     memory     memory_record...
///     samples    sample_record...
///     problem    a problem_code, then a text for people
///     heap       heap_record
///     owners     owners_header, then a `segment_owner` byte for each segment
///     end        end_record

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace orchard::profiling {

inline constexpr char file_magic[8] = {'O', 'R', 'C', 'H', 'P', 'R', 'O', 'F'};
/// Raised with each change of a record or of the meaning of a field.
inline constexpr std::uint32_t file_version = 1;

struct file_header {
    char magic[8];
    std::uint32_t version;
    std::uint32_t pid;
    std::uint64_t start_ns;       ///< by CUPTI's clock, as all times below; 0: unknown
    std::uint32_t cupti_version;  ///< of the library that was loaded; 0: none was
    std::uint32_t reserved;
};
static_assert(sizeof(file_header) == 32);

enum class block_kind : std::uint32_t { name = 1, kernels, unified, memory, samples, problem, heap, owners, end };

struct block_header {
    block_kind kind;
    std::uint32_t bytes;  ///< of the payload
    std::uint32_t checksum;
    std::uint32_t reserved;
};
static_assert(sizeof(block_header) == 16);
inline constexpr std::uint32_t most_block_bytes = 64u << 20;

/// A kernel that has run. Times are 0 if CUPTI could not measure them.
struct kernel_record {
    std::uint64_t start_ns;
    std::uint64_t end_ns;
    std::uint32_t name;
    std::uint32_t device;
    std::uint32_t grid[3];
    std::uint32_t block[3];
    std::uint32_t registers;     ///< of a thread
    std::uint32_t shared_bytes;  ///< of a block, static and dynamic
    std::uint32_t local_bytes;   ///< of a thread
    std::uint32_t stream;
};
static_assert(sizeof(kernel_record) == 64);

/// CUPTI's counters of unified memory, with its numbers.
enum class unified_kind : std::uint32_t {
    to_device = 1,
    to_host = 2,
    host_fault = 3,
    device_fault = 4,
    thrashing = 5,
    throttling = 6,
    remote_map = 7,
    between_devices = 8,
};

/// A record of unified memory.
struct unified_record {
    std::uint64_t start_ns;
    std::uint64_t end_ns;
    std::uint64_t address;
    std::uint64_t value;  ///< bytes; of a fault of the device, fault groups for one page
    unified_kind kind;
    std::uint32_t flags;  ///< cause of a transfer or of a remote mapping, kind of access of a fault: CUPTI's numbers
    std::uint32_t source;
    std::uint32_t destination;
};
static_assert(sizeof(unified_record) == 48);

enum class memory_operation : std::uint32_t { copy, set, pool_created, pool_destroyed, pool_trimmed };
inline constexpr std::uint32_t memory_operations = 5;

/// A copy, a fill, or a change of a memory pool.
struct memory_record {
    std::uint64_t start_ns;
    std::uint64_t end_ns;
    std::uint64_t bytes;
    memory_operation what;
    std::uint32_t copy_kind;  ///< CUPTI's number: 1 host to device, 2 device to host, 8 device to device, ...
    std::uint32_t device;
    std::uint32_t reserved;
};
static_assert(sizeof(memory_record) == 40);

/// How often the program counter was found in one function.
struct sample_record {
    std::uint64_t samples;
    std::uint32_t name;
    std::uint32_t reserved;
};
static_assert(sizeof(sample_record) == 16);

enum class problem_code : std::uint32_t {
    no_cupti = 1,  ///< the library of CUPTI could not be loaded or used: nothing was recorded
    no_kernels,    ///< of these CUPTI refused to make records
    no_unified,
    no_memory,
    no_samples,
    note,  ///< no problem; a word about how the records were made
};
inline constexpr std::uint32_t problem_codes = 6;

/// A heap of the program, as it was announced (runtime/heap/profiled_heap.hpp).
struct heap_record {
    std::uint64_t base;
    std::uint64_t bytes;
    std::uint64_t opened_ns;
    std::uint32_t number;
    std::uint32_t segment_bytes;
};
static_assert(sizeof(heap_record) == 32);

/// What each segment of a heap was used for when the heap ended.
struct owners_header {
    std::uint64_t closed_ns;
    std::uint32_t number;  ///< the heap's
    std::uint32_t segments;
};
static_assert(sizeof(owners_header) == 16);

struct end_record {
    std::uint64_t end_ns;
    std::uint64_t kernels;  ///< records in the file, to be compared
    std::uint64_t unified;
    std::uint64_t memory;
    std::uint64_t dropped;          ///< records that CUPTI says it has dropped
    std::uint64_t left_out;         ///< records that the limit of the file has left out
    std::uint64_t unread_bytes;     ///< of buffers in which CUPTI could not find the next record
    std::uint64_t samples;          ///< of the program counter, in all functions and in none
    std::uint64_t dropped_samples;  ///< by the hardware
};
static_assert(sizeof(end_record) == 72);

/// Returns a checksum of a payload. Any changed byte changes it; two changes may cancel out in one of 2^32 cases.
inline std::uint32_t checksum_of(std::string_view payload) {
    constexpr std::uint64_t prime = 0x9e37'79b9'7f4a'7c15;
    std::uint64_t sum = payload.size() * prime;
    std::size_t at = 0;
    for (; at + 8 <= payload.size(); at += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, payload.data() + at, 8);
        sum = (sum ^ word) * prime;
        sum ^= sum >> 29;
    }
    for (; at < payload.size(); ++at) {
        sum = (sum ^ static_cast<unsigned char>(payload[at])) * prime;
        sum ^= sum >> 29;
    }
    return static_cast<std::uint32_t>(sum ^ sum >> 32);
}

// The command tells the library in the program what to do by these variables of the environment.
inline constexpr char variable_folder[] = "ORCHARD_PROFILE_FOLDER";    ///< where files are written
inline constexpr char variable_cupti[] = "ORCHARD_PROFILE_CUPTI";      ///< the library of CUPTI
inline constexpr char variable_samples[] = "ORCHARD_PROFILE_SAMPLES";  ///< 1: sample the program counter
inline constexpr char variable_limit[] = "ORCHARD_PROFILE_LIMIT";      ///< most bytes of a file

}  // namespace orchard::profiling
