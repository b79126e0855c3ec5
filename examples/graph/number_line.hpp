// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The columns of one line of a graph file. A reader asks for one column after another, and returns the first error.
///
///     line_     "12  7 0.5"
///     rest_         "7 0.5"        after `whole("the first vertex", v)`: v = 12

#include <cstdint>
#include <string_view>

#include <absl/status/status.h>

#include "examples/graph/line_reader.hpp"

namespace orchard::examples {

/// Reads the numbers of one line from the left. Every error is `reader.error(...)`: it names file, line and value.
///
///     line "4 -7"    graph.txt:12: '-7' as the second vertex is negative; give a number from 0
///     line "4"       graph.txt:12: the line '4' ends where the second vertex belongs; ...
class number_line {
public:
    /// `reader` has just returned `line`; both must be valid while columns are read.
    number_line(const line_reader& reader, std::string_view line) : reader_{reader}, line_{line}, rest_{line} {}

    /// Reads the next column as a whole number of at most 64 bits. `name` names the column in errors ("the first
    /// vertex").
    absl::Status whole(const char* name, std::uint64_t& value);

    /// Checks that the next column is a finite number, with optional sign and fraction.
    absl::Status any(const char* name);

    /// Reads the next column as a weight: a finite number from 0.
    absl::Status weight(const char* name, double& value);

    /// Checks that no column is left.
    absl::Status end();

    /// Returns true if only blanks are left.
    bool at_end();

private:
    /// Reads the next column as a number; one that no `double` can hold is infinite, or 0.
    absl::Status number(const char* name, double& value);
    /// Return the error of a line that is too short, and the next column's text, for messages.
    absl::Status missing(const char* name) const;
    std::string_view token() const;

    const line_reader& reader_;  ///< for file and line number of errors
    std::string_view line_;
    std::string_view rest_;  ///< the columns not read yet
};

}  // namespace orchard::examples
