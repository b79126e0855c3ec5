// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstdint>
#include <string_view>

#include <absl/status/status.h>

#include "examples/graph/line_reader.hpp"

namespace orchard::examples {

/// Reads the numbers of one line from the left. Every error is `reader.error(...)`: it names file, line and value.
class number_line {
public:
    number_line(const line_reader& reader, std::string_view line) : reader_{reader}, line_{line}, rest_{line} {}

    /// Reads the next column as a whole number of at most 64 bits. `name` names the column in errors ("the first
    /// vertex").
    absl::Status whole(const char* name, std::uint64_t& value);

    /// Checks that the next column is a finite number, with optional sign and fraction.
    absl::Status any(const char* name);

    /// Checks that no column is left.
    absl::Status end();

    /// Returns true if only blanks are left.
    bool at_end();

private:
    absl::Status missing(const char* name) const;
    std::string_view token() const;

    const line_reader& reader_;
    std::string_view line_;
    std::string_view rest_;
};

}  // namespace orchard::examples
