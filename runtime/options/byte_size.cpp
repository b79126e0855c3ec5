// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Sizes in bytes as text; byte_size.hpp has the accepted forms.
///
///     "1.5 KiB"   decimal 15 / 10, unit KiB = 1024      15 * 1024 / 10 = 1536
///
/// Numbers are fractions of 128 bits and no floating-point numbers, so that every whole size below 2^64 is exact.

#include "runtime/options/byte_size.hpp"

#include <array>
#include <limits>

#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"

namespace orchard {
namespace {

/// A unit and its size. "" is the unit of a plain number.
struct unit {
    const char* name;
    std::uint64_t bytes;
};

// Units without "i" are powers of 1000. "K", "M" and the like alone are not in the list: they are read as either.
constexpr std::array<unit, 10> units{{{"", 1},
                                      {"B", 1},
                                      {"KiB", kib},
                                      {"MiB", mib},
                                      {"GiB", gib},
                                      {"TiB", tib},
                                      {"KB", 1'000},
                                      {"MB", 1'000'000},
                                      {"GB", 1'000'000'000},
                                      {"TB", 1'000'000'000'000}}};

/// Returns InvalidArgument with the text, the fault and the accepted forms. Control characters in the text are escaped,
/// since it may come from the environment.
absl::Status rejection(absl::string_view text, absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "\"%s\" is not a size in bytes: %s; write a number and a unit, such as 512MiB or 4GB (KiB, MiB, "
        "GiB, TiB are powers of 1024, KB, MB, GB, TB are powers of 1000)",
        absl::CEscape(text), why));
}

/// A decimal number as an exact fraction. Nine fractional digits determine a byte of a GiB; later digits are dropped.
struct decimal {
    absl::uint128 numerator = 0;
    std::uint64_t denominator = 1;
    std::size_t length = 0;  ///< characters read
    bool too_large = false;
};

/// Returns the number at the beginning of `text`: digits, optionally a point and digits. `length` is 0 if `text` begins
/// with anything else, also with a point. "1.5KiB" gives 15 / 10, with a length of 3; the rest is the unit.
decimal read_decimal(absl::string_view text) {
    // The largest denominator. Later digits are read, so that they do not count as a unit, and are dropped.
    constexpr std::uint64_t max_precise = 1'000'000'000;
    decimal number;
    bool fraction = false;
    bool digits = false;
    for (; number.length < text.size(); ++number.length) {
        const char c = text[number.length];
        // A second point ends the number, and becomes part of the unit, which is then unknown.
        if (c == '.' && digits && !fraction) {
            fraction = true;
            continue;
        }
        if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) {
            break;
        }
        digits = true;
        if (fraction && number.denominator == max_precise) {
            continue;
        }
        // 1.25 is read as 1 / 1, 12 / 10, 125 / 100.
        number.numerator = number.numerator * 10 + static_cast<unsigned>(c - '0');
        number.denominator *= fraction ? 10 : 1;
        // Checked at each digit, so that a number of any length cannot wrap around.
        number.too_large |= number.numerator / number.denominator > std::numeric_limits<std::uint64_t>::max();
    }
    return number;
}

}  // namespace

/// The product is computed before the division, so that "0.3KiB" is 307 and not 0. A product of more than 128 bits is
/// recognized before it is formed.
absl::StatusOr<std::uint64_t> parse_bytes(std::string_view text) {
    const absl::string_view whole(text.data(), text.size());
    const absl::string_view trimmed = absl::StripAsciiWhitespace(whole);
    const decimal number = read_decimal(trimmed);
    if (number.length == 0) {
        return rejection(whole, absl::StartsWith(trimmed, "-") ? "it is negative" : "it does not start with a number");
    }
    // Everything behind the number is the unit, so that trailing characters are never ignored.
    const absl::string_view name = absl::StripAsciiWhitespace(trimmed.substr(number.length));
    for (const unit& u : units) {
        // The empty name of the first unit matches a number without a unit.
        if (!absl::EqualsIgnoreCase(name, u.name)) {
            continue;
        }
        // The product could exceed 128 bits: a numerator has up to 94 of them, and a unit up to 41.
        const bool overflows = number.too_large || number.numerator > absl::Uint128Max() / u.bytes;
        const absl::uint128 bytes = overflows ? absl::Uint128Max() : number.numerator * u.bytes;
        // The division drops the fraction of a byte.
        if (bytes / number.denominator > std::numeric_limits<std::uint64_t>::max()) {
            // The message has the text as it was, blanks included.
            return rejection(whole, "it is 2^64 bytes or more");
        }
        return static_cast<std::uint64_t>(bytes / number.denominator);
    }
    return rejection(whole, absl::StrFormat("\"%s\" is not a unit", absl::CEscape(name)));
}

/// The largest unit that is not larger than the value: 1,048,576 is "1 MiB" and not "1024 KiB".
std::string format_bytes(std::uint64_t bytes) {
    // Binary units alone, the largest one first.
    constexpr std::array<unit, 5> scale{{{"TiB", tib}, {"GiB", gib}, {"MiB", mib}, {"KiB", kib}, {"B", 1}}};
    for (const unit& u : scale) {
        // Every value of at least a byte reaches a unit; 0 reaches none.
        if (bytes < u.bytes) {
            continue;
        }
        // A whole number is exact, and is read back as the same value; any other number is rounded to two digits.
        if (bytes % u.bytes == 0) {
            return absl::StrFormat("%d %s", bytes / u.bytes, u.name);
        }
        return absl::StrFormat("%.2f %s", static_cast<double>(bytes) / static_cast<double>(u.bytes), u.name);
    }
    return "0 B";
}

}  // namespace orchard
