// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A copy of a live page, read by its own table.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/live/live_format.hpp"
#include "runtime/live/live_process.hpp"

namespace orchard::live {

/// A field of a page, with its values.
struct field {
    std::string name;
    std::string unit;
    std::string axis;  ///< empty: one cell
    std::string help;
    field_kind kind = field_kind::gauge;
    std::vector<std::uint64_t> values;  ///< [count], of all kinds but text
    std::vector<std::string> texts;     ///< [count], of the kind text
};

/// What a page said at one moment.
struct snapshot {
    page_name name;
    std::uint64_t start_ticks = 0;
    std::uint64_t heartbeat_ns = 0;  ///< by CLOCK_MONOTONIC
    page_state state = page_state::making;
    std::uint32_t minor = 0;
    std::uint64_t statistics_version = 0;
    std::vector<field> fields;

    /// Returns the field of that name; null if the page has none.
    [[nodiscard]] const field* find(std::string_view name) const;
    /// Return the first number, or text, of the field of that name; 0, or "", if the page has none.
    [[nodiscard]] std::uint64_t number(std::string_view name) const;
    [[nodiscard]] std::string text(std::string_view name) const;
    /// Returns the names of the cells of a field: those that its axis has, or numbers.
    [[nodiscard]] std::vector<std::string> labels_of(const field& of) const;
};

/// Checks the first words of a page. Errors: DataLoss if it is none, with what is wrong; FailedPrecondition if it is of
/// another major version; Unavailable if it is being made.
/// @param page   the header at least
/// @param bytes  of the shared memory
absl::Status check_header(std::span<const std::uint64_t> page, std::uint64_t bytes);

/// Reads a copy of a page. The words may be any: names that are no names, and places outside the page, are errors.
///
/// Errors: those of `check_header`; DataLoss for a wrong table. Cost: linear in the page.
absl::StatusOr<snapshot> parse(std::span<const std::uint64_t> page);

}  // namespace orchard::live
