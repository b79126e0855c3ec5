// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Reads a file of records (record_format.hpp), and checks all of it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "profiling/profile/record_format.hpp"

namespace orchard::profiling {

/// Something that could not be recorded, or a note.
struct problem {
    problem_code code = problem_code::note;
    std::string text;
};

/// A heap of the program.
struct recorded_heap {
    heap_record about{};
    std::uint64_t closed_ns = 0;       ///< 0: it was not closed before the process ended
    std::vector<std::uint8_t> owners;  ///< [segment]: a `segment_owner`; empty: not known
};

/// The records of one process.
struct recorded_process {
    std::uint32_t pid = 0;
    std::uint32_t cupti_version = 0;
    std::uint64_t start_ns = 0;
    std::vector<std::string> names;
    std::vector<kernel_record> kernels;
    std::vector<unified_record> unified;
    std::vector<memory_record> memory;
    std::vector<sample_record> samples;
    std::vector<problem> problems;
    std::vector<recorded_heap> heaps;
    std::optional<end_record> end;  ///< empty: the process did not end in order, and later records are missing
};

/// Returns the records of a whole file. Errors, each with the place: DataLoss if it is not a file of records, is cut
/// off inside a block, or a block is not as its checksum says; Unimplemented if a later version wrote it.
absl::StatusOr<recorded_process> parse_records(std::string_view file);

/// Returns the records of the file `path`. Errors: those of `parse_records`, with the path; NotFound if it cannot be
/// read.
absl::StatusOr<recorded_process> read_records(const std::string& path);

}  // namespace orchard::profiling
