// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstdint>
#include <functional>
#include <istream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/trace/trace_format.hpp"

namespace orchard {

/// A trace file's header and footer.
struct trace_summary {
    trace_info info;
    trace_counts counts;
    std::uint64_t bytes = 0;  ///< of the file
};

/// Reads a trace, section by section, and calls `take` with the events of each, if it is given. Everything is checked:
/// checksums, lengths, kinds, counts. Memory: that of one section.
///
/// Errors: DataLoss with the place in the file and what is wrong there: no trace, one of a newer version, cut off (as
/// when the program ended before its heap), damaged. What `take` got before belongs to whole sections. An error of
/// `take` ends the reading and is returned.
absl::StatusOr<trace_summary> read_trace(std::istream& from, const std::string& name,
                                         const std::function<absl::Status(const std::vector<event>&)>& take = {});

/// The same for a file. Errors: NotFound with the system's text if it cannot be opened.
absl::StatusOr<trace_summary> read_trace(const std::string& path,
                                         const std::function<absl::Status(const std::vector<event>&)>& take = {});

/// A whole trace in memory: 32 bytes an event.
struct whole_trace {
    trace_summary summary;
    std::vector<event> events;
};
/// Returns the whole trace of a file. Errors: those of `read_trace`.
absl::StatusOr<whole_trace> load_trace(const std::string& path);

}  // namespace orchard
