// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Sizes in bytes as people write and read them.

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace orchard {

inline constexpr std::uint64_t kib = 1ull << 10;
inline constexpr std::uint64_t mib = 1ull << 20;
inline constexpr std::uint64_t gib = 1ull << 30;
inline constexpr std::uint64_t tib = 1ull << 40;

/// Returns the bytes that `text` states: a decimal number with an optional fraction, then an optional unit.
///
/// | unit                    | bytes                      |
/// |-------------------------|----------------------------|
/// | none, `B`               | 1                          |
/// | `KiB` `MiB` `GiB` `TiB` | 2^10, 2^20, 2^30, 2^40     |
/// | `KB` `MB` `GB` `TB`     | 10^3, 10^6, 10^9, 10^12    |
///
/// Upper and lower case are the same; blanks around the number and the unit are ignored. A fraction of a byte is
/// dropped ("1.5KiB" is 1536, "0.3KiB" is 307).
///
/// Errors: InvalidArgument for no number, a negative number, an unknown unit ("4G" could be either), 2^64 bytes or
/// more. The message quotes `text` and lists the accepted forms.
absl::StatusOr<std::uint64_t> parse_bytes(std::string_view text);

/// Returns `bytes` for people, in the largest binary unit that is not larger: "0 B", "512 B", "64 MiB". If the value is
/// not a whole number of that unit, it has two digits ("1.40 GiB"). `parse_bytes` reads a whole number of units back as
/// the same value.
std::string format_bytes(std::uint64_t bytes);

}  // namespace orchard
