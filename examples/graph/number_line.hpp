// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstdint>
#include <string_view>

#include <absl/status/status.h>

#include "examples/graph/line_reader.hpp"

namespace orchard::examples {

/// The numbers of one line, read from the left. Every error is `reader.error(...)`: it names file, line and value.
class number_line {
public:
    number_line(const line_reader& reader, std::string_view line) : reader_{reader}, line_{line}, rest_{line} {}

    /// The next column as a whole number of at most 64 bits. `name` says in errors what it is ("the first vertex").
    absl::Status whole(const char* name, std::uint64_t& value);

    /// Checks that the next column is a number, with a sign and a fraction or not; it is finite.
    absl::Status any(const char* name);

    /// Checks that nothing is left.
    absl::Status end();

    /// Whether nothing but blanks is left.
    bool at_end();

private:
    absl::Status missing(const char* name) const;
    std::string_view token() const;

    const line_reader& reader_;
    std::string_view line_;
    std::string_view rest_;
};

}  // namespace orchard::examples
