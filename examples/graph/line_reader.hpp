// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "examples/graph/byte_source.hpp"

namespace orchard::examples {

/// The lines of a text file, one after another, without their ends ("\n" or "\r\n"); the last may lack its end.
class line_reader {
public:
    /// Opens `path`, plain or gzip. Errors: those of `byte_source::open`.
    static absl::StatusOr<line_reader> open(const std::string& path);

    /// The next line, valid until the next call; none at the end or on an error, which `status` then tells.
    std::optional<std::string_view> next();

    /// What stopped the reading: a damaged file, a line of more than 1 MiB.
    [[nodiscard]] const absl::Status& status() const { return status_; }

    /// Number of the line that `next` gave last, from 1; 0 before the first.
    [[nodiscard]] std::uint64_t line_number() const { return line_number_; }

    /// `InvalidArgument` "PATH:LINE: text" about the line that `next` gave last.
    [[nodiscard]] absl::Status error(std::string_view text) const;

    /// The same without a line, for what concerns the file as a whole.
    [[nodiscard]] absl::Status file_error(std::string_view text) const;

private:
    line_reader(std::string path, byte_source source);
    bool fill();
    std::string_view take(std::size_t length, std::size_t with_end);

    std::string path_;
    byte_source source_;
    std::vector<char> buffer_;
    std::size_t first_ = 0;  ///< the next line begins here
    std::size_t last_ = 0;   ///< end of the bytes read
    bool at_end_ = false;
    std::uint64_t line_number_ = 0;
    absl::Status status_;
};

/// `token` in quotes for an error's text: cut to 40 characters, what cannot be printed as escapes.
std::string quoted(std::string_view token);

}  // namespace orchard::examples
