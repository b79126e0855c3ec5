// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The lines of a text file, with the path and the number of each line for error messages.
///
///     buffer, 1 MiB    | lines already returned | this line \n | the next lines ... | room |
///                      0                        first_                         last_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include "examples/graph/byte_source.hpp"

namespace orchard::examples {

/// Returns the same characters for functions of Abseil, whose `string_view` may be a class of its own.
inline absl::string_view view(std::string_view s) { return {s.data(), s.size()}; }

/// Reads the lines of a text file one after another, without their ends ("\n" or "\r\n"). The last line may lack its
/// end.
class line_reader {
public:
    /// Opens `path`, plain or gzip. Errors: those of `byte_source::open`.
    static absl::StatusOr<line_reader> open(const std::string& path);

    /// Returns the next line, which is valid until the next call. Returns none at the end or after an error; `status`
    /// then returns the error.
    std::optional<std::string_view> next();

    /// Returns the error that stopped the reading: a damaged file, or a line of more than 1 MiB.
    [[nodiscard]] const absl::Status& status() const { return status_; }

    /// Returns the number of the line that `next` returned last, from 1; 0 before the first.
    [[nodiscard]] std::uint64_t line_number() const { return line_number_; }

    /// Returns `InvalidArgument` "PATH:LINE: text" for the line that `next` returned last.
    [[nodiscard]] absl::Status error(std::string_view text) const;

    /// Returns such an error without a line number, for an error of the whole file.
    [[nodiscard]] absl::Status file_error(std::string_view text) const;

private:
    // `fill` reads more bytes, and `take` hands out a line; both are described at their definitions.
    line_reader(std::string path, byte_source source);
    bool fill();
    std::string_view take(std::size_t length, std::size_t with_end);

    std::string path_;  ///< for messages
    byte_source source_;
    std::vector<char> buffer_;  ///< a line must fit
    std::size_t first_ = 0;     ///< the next line begins here
    std::size_t last_ = 0;      ///< end of the bytes read
    bool at_end_ = false;       ///< no bytes follow those in the buffer
    std::uint64_t line_number_ = 0;
    absl::Status status_;
};

/// Returns `token` in quotes for an error message: cut to 40 characters, with unprintable characters as escapes.
std::string quoted(std::string_view token);

}  // namespace orchard::examples
