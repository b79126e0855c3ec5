// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The lines of a text file; see line_reader.hpp. `memchr` finds the ends of lines, so that most of the time goes into
/// reading numbers.

#include "examples/graph/line_reader.hpp"

#include <cstring>
#include <span>
#include <utility>

#include <absl/strings/escaping.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

namespace orchard::examples {

namespace {

// Bytes of the longest line. A binary file may have no end of line for gigabytes; it is rejected after the first MiB.
constexpr std::size_t longest_line = 1 << 20;

}  // namespace

line_reader::line_reader(std::string path, byte_source source)
    : path_{std::move(path)}, source_{std::move(source)}, buffer_(longest_line + 1) {}  // with its end

/// The buffer is allocated once, for the longest line.
absl::StatusOr<line_reader> line_reader::open(const std::string& path) {
    absl::StatusOr<byte_source> source = byte_source::open(path);
    if (!source.ok()) {
        return source.status();
    }
    return line_reader(path, *std::move(source));
}

/// Moves the unfinished line to the front of the buffer and fills the rest. Returns false, and sets `status_`, after an
/// error of the source; the error is that of the line after the last one returned.
bool line_reader::fill() {
    std::memmove(buffer_.data(), buffer_.data() + first_, last_ - first_);
    last_ -= std::exchange(first_, 0);
    const std::span<char> room(buffer_.data() + last_, buffer_.size() - last_);
    absl::StatusOr<std::size_t> n = source_.read(room);
    if (!n.ok()) {
        ++line_number_;
        status_ = absl::Status(n.status().code(),
                               absl::StrFormat("%s:%u: %s", path_, line_number_, std::string(n.status().message())));
        return false;
    }
    at_end_ = *n < room.size();
    last_ += *n;
    return true;
}

/// Returns the next `length` bytes as a line, without a "\r" at its end, and skips `with_end` bytes.
std::string_view line_reader::take(std::size_t length, std::size_t with_end) {
    std::string_view line(buffer_.data() + first_, length);
    first_ += with_end;
    ++line_number_;
    if (line.ends_with('\r')) {
        line.remove_suffix(1);
    }
    return line;
}

/// A line in the buffer, else the rest of the file as its last line, else more bytes and again.
std::optional<std::string_view> line_reader::next() {
    while (status_.ok()) {
        const char* begin = buffer_.data() + first_;
        const std::size_t available = last_ - first_;
        if (const void* end = available == 0 ? nullptr : std::memchr(begin, '\n', available); end != nullptr) {
            const auto length = static_cast<std::size_t>(static_cast<const char*>(end) - begin);
            return take(length, length + 1);
        }
        // The last line may lack its end; an empty rest is no line.
        if (at_end_) {
            return available == 0 ? std::nullopt : std::optional(take(available, available));
        }
        // The buffer is full and has no end of line.
        if (available == buffer_.size()) {
            ++line_number_;
            status_ = error(absl::StrFormat("the line has more than %u bytes (it begins %s); give text lines",
                                            longest_line, quoted({begin, available})));
            return std::nullopt;
        }
        fill();
    }
    return std::nullopt;
}

/// An error of the line that was returned last: "graph.txt:12: text".
absl::Status line_reader::error(std::string_view text) const {
    return absl::InvalidArgumentError(absl::StrCat(path_, ":", line_number_, ": ", view(text)));
}

absl::Status line_reader::file_error(std::string_view text) const {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": ", view(text)));
}

/// Escapes keep a message on one line of printable characters, whatever a file contains.
std::string quoted(std::string_view token) {
    constexpr std::size_t most = 40;
    const bool cut = token.size() > most;
    return absl::StrCat("'", absl::CHexEscape(view(token.substr(0, most))), cut ? "...'" : "'");
}

}  // namespace orchard::examples
