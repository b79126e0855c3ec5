// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The tables of statistics, made from the two lists, and their text and JSON.
///
///     version 2                                                                        to_text: that of the lists,
///     allocated_bytes      1052672 (1.00 MiB)  bytes     bytes handed out by ...       one line for each
///     ...
///
///     page_bytes  slabs  pages_in_use ...                                              and one for each class in use
///             16      1             3 ...
///
/// Both are printed from the same tables of names and fields, so that they always have the same statistics.

#include "runtime/statistics/statistics.hpp"

#include <array>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "runtime/options/byte_size.hpp"
#include "runtime/text/text_table.hpp"

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

/// Returns the classes in use, one line each, under a line of names; empty if there are none.
std::string class_lines(const statistics& values) {
    std::vector<std::vector<std::string>> lines(1);
    for (const class_statistic_info& info : class_table) {
        lines.front().emplace_back(info.name);
    }
    for (const class_statistics& one : values.classes) {
        if (one.in_use()) {
            std::vector<std::string>& line = lines.emplace_back();
            for (const class_statistic_info& info : class_table) {
                line.push_back(absl::StrCat(one.*info.field));
            }
        }
    }
    // No line of names without a line of numbers.
    return lines.size() == 1 ? "" : absl::StrCat("\n", detail::in_columns(lines, "r"));
}

}  // namespace

std::span<const statistic_info> statistic_table() { return table; }
std::span<const class_statistic_info> class_statistic_table() { return class_table; }

/// Values are aligned to the right, so that digits of the same weight stand under each other.
std::string to_text(const statistics& values) {
    std::vector<std::vector<std::string>> lines;
    for (const statistic_info& info : table) {
        lines.push_back({std::string(info.name), std::string(value_of(info, values.*info.field)),
                         std::string(info.unit), std::string(info.help)});
    }
    return absl::StrCat("version ", statistics::version, "\n", detail::in_columns(lines, "lrll"), class_lines(values));
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
