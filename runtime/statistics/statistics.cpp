// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The tables of statistics, made from the two lists, and their text and JSON.
///
///     allocated_bytes      1052672 (1.00 MiB)  bytes     bytes handed out by ...       to_text: one line for each
///     ...
///
///     page_bytes  slabs  pages_in_use ...                                              and one for each class in use
///             16      1             3 ...
///
/// Both are printed from the same tables of names and fields, so that they always have the same statistics.

#include "runtime/statistics/statistics.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "runtime/options/byte_size.hpp"

namespace orchard {
namespace {

// The unit is a bare word in the lists, hence the `#`.
constexpr std::array table = {
#define ORCHARD_STATISTIC(source, name, unit, help) statistic_info{#name, #unit, help, &statistics::name},
#include "runtime/statistics/statistics.def"
#undef ORCHARD_STATISTIC
};

constexpr std::array class_table = {
#define ORCHARD_CLASS_STATISTIC(name, unit, help) class_statistic_info{#name, #unit, help, &class_statistics::name},
#include "runtime/statistics/class_statistics.def"
#undef ORCHARD_CLASS_STATISTIC
};

// Abseil's type may differ from the standard one.
absl::string_view view(std::string_view text) { return {text.data(), text.size()}; }

/// Returns a number for people: bytes also in binary units. The plain number, which is exact, is always there.
std::string value_of(const statistic_info& info, std::uint64_t value) {
    // Below 1 KiB the plain number suffices.
    if (info.unit == "bytes" && value >= kib) {
        return absl::StrFormat("%d (%s)", value, format_bytes(value));
    }
    return absl::StrCat(value);
}

/// Returns the width of a column: room for its name, and for a page's bytes or for counts of billions. It does not
/// depend on the values, so that the line of names and all rows have the same columns.
int class_column_width(const class_statistic_info& info) {
    constexpr std::size_t counts = 12;
    return static_cast<int>(info.unit == "bytes" ? info.name.size() : std::max(counts, info.name.size()));
}
/// Returns the text behind a column: a line break behind the last one. `info` is an element of `class_table`, known by
/// its address.
const char* end_of(const class_statistic_info& info) { return &info == &class_table.back() ? "\n" : "  "; }

/// Returns the classes in use, one line each, under a line of names; empty if there are none.
std::string class_lines(const statistics& values) {
    std::string rows;
    for (const class_statistics& one : values.classes) {
        if (!one.in_use()) {
            continue;
        }
        for (const class_statistic_info& info : class_table) {
            absl::StrAppendFormat(&rows, "%*d%s", class_column_width(info), one.*info.field, end_of(info));
        }
    }
    // No line of names without a line of numbers.
    if (rows.empty()) {
        return rows;
    }
    std::string names;
    for (const class_statistic_info& info : class_table) {
        absl::StrAppendFormat(&names, "%*s%s", class_column_width(info), view(info.name), end_of(info));
    }
    return absl::StrCat("\n", names, rows);
}

}  // namespace

std::span<const statistic_info> statistic_table() { return table; }
std::span<const class_statistic_info> class_statistic_table() { return class_table; }

/// Names and units are aligned to the left, values to the right, so that digits of the same weight stand under each
/// other. Only the columns of the first table depend on the values.
std::string to_text(const statistics& values) {
    // First the widest name and value, then the lines.
    std::size_t name_width = 0;
    std::size_t value_width = 0;
    for (const statistic_info& info : table) {
        name_width = std::max(name_width, info.name.size());
        value_width = std::max(value_width, value_of(info, values.*info.field).size());
    }
    std::string text;
    for (const statistic_info& info : table) {
        absl::StrAppendFormat(&text, "%-*s  %*s  %-8s  %s\n", static_cast<int>(name_width), view(info.name),
                              static_cast<int>(value_width), value_of(info, values.*info.field), view(info.unit),
                              view(info.help));
    }
    return text + class_lines(values);
}

/// Numbers are plain integers, bytes too. `version` comes first, so that a reader can check it before all else.
std::string to_json(const statistics& values) {
    std::string json = absl::StrFormat("{\n  \"version\": %d,\n", statistics::version);
    for (const statistic_info& info : table) {
        // Ordered as in the lists: new statistics appear at the end of their group.
        absl::StrAppendFormat(&json, "  \"%s\": %d,\n", view(info.name), values.*info.field);
    }
    std::vector<std::string> classes;
    for (const class_statistics& one : values.classes) {
        if (one.in_use()) {
            std::vector<std::string> fields;
            for (const class_statistic_info& info : class_table) {
                fields.push_back(absl::StrFormat("      \"%s\": %d", view(info.name), one.*info.field));
            }
            classes.push_back(absl::StrCat("    {\n", absl::StrJoin(fields, ",\n"), "\n    }"));
        }
    }
    const std::string all = classes.empty() ? "[]" : absl::StrCat("[\n", absl::StrJoin(classes, ",\n"), "\n  ]");
    return absl::StrCat(json, "  \"classes\": ", all, "\n}");
}

}  // namespace orchard
