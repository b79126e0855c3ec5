// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The columns of one line; see number_line.hpp. `std::from_chars` reads the numbers: it does not depend on the locale,
/// allocates nothing, and reports numbers that are too large.

#include "examples/graph/number_line.hpp"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>
#include <system_error>

#include <absl/strings/str_format.h>

namespace orchard::examples {

namespace {

/// Returns whether a character separates columns. "\r" counts: the line reader removes only one at the end of a line.
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

}  // namespace

/// Skips blanks. `whole`, `any` and `end` call it first, so that `rest_` begins with a column.
bool number_line::at_end() {
    while (!rest_.empty() && is_blank(rest_.front())) {
        rest_.remove_prefix(1);
    }
    return rest_.empty();
}

/// Returns the next column as text: all characters up to a blank.
std::string_view number_line::token() const {
    std::size_t length = 0;
    while (length < rest_.size() && !is_blank(rest_[length])) {
        ++length;
    }
    return rest_.substr(0, length);
}

absl::Status number_line::missing(const char* name) const {
    return reader_.error(
        absl::StrFormat("the line %s ends where %s belongs; add it or remove the line", quoted(line_), name));
}

/// A number must end at a blank or at the end of the line: "12x" and "1.5" are no whole numbers. The frequent faults,
/// too large and negative, have messages of their own.
absl::Status number_line::whole(const char* name, std::uint64_t& value) {
    if (at_end()) {
        return missing(name);
    }
    const char* end = rest_.data() + rest_.size();
    const auto [stop, problem] = std::from_chars(rest_.data(), end, value);
    if (problem == std::errc{} && (stop == end || is_blank(*stop))) {
        rest_.remove_prefix(static_cast<std::size_t>(stop - rest_.data()));
        return absl::OkStatus();
    }
    const std::string_view bad = token();
    if (problem == std::errc::result_out_of_range) {
        return reader_.error(
            absl::StrFormat("%s as %s does not fit 64 bits; give a smaller number", quoted(bad), name));
    }
    if (bad.size() > 1 && bad[0] == '-' && bad.find_first_not_of("0123456789", 1) == std::string_view::npos) {
        return reader_.error(absl::StrFormat("%s as %s is negative; give a number from 0", quoted(bad), name));
    }
    return reader_.error(
        absl::StrFormat("%s as %s is not a whole number; give a MatrixMarket file or an edge list "
                        "(two vertex numbers a line), plain or gzip",
                        quoted(bad), name));
}

absl::Status number_line::any(const char* name) {
    double dropped = 0;
    return number(name, dropped);
}

absl::Status number_line::weight(const char* name, double& value) {
    const std::string_view text = at_end() ? std::string_view() : token();
    absl::Status s = number(name, value);
    if (s.ok() && !(value >= 0 && std::isfinite(value))) {
        return reader_.error(
            absl::StrFormat("%s as %s is no weight; give a number from 0 to 1e308", quoted(text), name));
    }
    return s;
}

/// `from_chars` takes no leading "+", which such files may have.
absl::Status number_line::number(const char* name, double& value) {
    if (at_end()) {
        return missing(name);
    }
    const std::string_view text = token();
    const bool two_signs = text.size() > 1 && text[0] == '+' && text[1] == '-';
    const char* first = text.data() + (text.front() == '+' && !two_signs ? 1 : 0);
    double read = 0;
    const auto [stop, problem] = std::from_chars(first, text.data() + text.size(), read);
    // A value that is too large or too small for a double is still accepted as a number.
    const bool is_number = problem != std::errc::invalid_argument && stop == text.data() + text.size();
    if (!is_number || !std::isfinite(read)) {
        return reader_.error(absl::StrFormat("%s as %s is not a number; correct or remove it", quoted(text), name));
    }
    value = problem == std::errc::result_out_of_range ? std::strtod(std::string(text).c_str(), nullptr) : read;
    rest_.remove_prefix(text.size());
    return absl::OkStatus();
}

absl::Status number_line::end() {
    if (at_end()) {
        return absl::OkStatus();
    }
    return reader_.error(
        absl::StrFormat("%s is one column too many in the line %s; remove it", quoted(token()), quoted(line_)));
}

}  // namespace orchard::examples
