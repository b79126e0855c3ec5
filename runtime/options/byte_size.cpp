// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
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

struct unit {
    const char* name;
    std::uint64_t bytes;
};

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

decimal read_decimal(absl::string_view text) {
    constexpr std::uint64_t max_precise = 1'000'000'000;
    decimal number;
    bool fraction = false;
    bool digits = false;
    for (; number.length < text.size(); ++number.length) {
        const char c = text[number.length];
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
        number.numerator = number.numerator * 10 + static_cast<unsigned>(c - '0');
        number.denominator *= fraction ? 10 : 1;
        // Checked at each digit, so that a number of any length cannot wrap around.
        number.too_large |= number.numerator / number.denominator > std::numeric_limits<std::uint64_t>::max();
    }
    return number;
}

}  // namespace

absl::StatusOr<std::uint64_t> parse_bytes(std::string_view text) {
    const absl::string_view whole(text.data(), text.size());
    const absl::string_view trimmed = absl::StripAsciiWhitespace(whole);
    const decimal number = read_decimal(trimmed);
    if (number.length == 0) {
        return rejection(whole, absl::StartsWith(trimmed, "-") ? "it is negative" : "it does not start with a number");
    }
    const absl::string_view name = absl::StripAsciiWhitespace(trimmed.substr(number.length));
    for (const unit& u : units) {
        if (!absl::EqualsIgnoreCase(name, u.name)) {
            continue;
        }
        const bool overflows = number.too_large || number.numerator > absl::Uint128Max() / u.bytes;
        const absl::uint128 bytes = overflows ? absl::Uint128Max() : number.numerator * u.bytes;
        if (bytes / number.denominator > std::numeric_limits<std::uint64_t>::max()) {
            return rejection(whole, "it is 2^64 bytes or more");
        }
        return static_cast<std::uint64_t>(bytes / number.denominator);
    }
    return rejection(whole, absl::StrFormat("\"%s\" is not a unit", absl::CEscape(name)));
}

std::string format_bytes(std::uint64_t bytes) {
    constexpr std::array<unit, 5> scale{{{"TiB", tib}, {"GiB", gib}, {"MiB", mib}, {"KiB", kib}, {"B", 1}}};
    for (const unit& u : scale) {
        if (bytes < u.bytes) {
            continue;
        }
        if (bytes % u.bytes == 0) {
            return absl::StrFormat("%d %s", bytes / u.bytes, u.name);
        }
        return absl::StrFormat("%.2f %s", static_cast<double>(bytes) / static_cast<double>(u.bytes), u.name);
    }
    return "0 B";
}

}  // namespace orchard
