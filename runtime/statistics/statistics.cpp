// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "runtime/statistics/statistics.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/options/byte_size.hpp"

namespace orchard {
namespace {

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

absl::string_view view(std::string_view text) { return {text.data(), text.size()}; }

std::string value_of(const statistic_info& info, std::uint64_t value) {
    // Below 1 KiB the plain number suffices.
    if (info.unit == "bytes" && value >= kib) {
        return absl::StrFormat("%d (%s)", value, format_bytes(value));
    }
    return absl::StrCat(value);
}

/// Leaves room for a page's bytes, or for counts of billions.
int class_column_width(const class_statistic_info& info) {
    constexpr std::size_t counts = 12;
    return static_cast<int>(info.unit == "bytes" ? info.name.size() : std::max(counts, info.name.size()));
}
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

std::string to_text(const statistics& values) {
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

std::string to_json(const statistics& values) {
    nlohmann::ordered_json json;
    json["version"] = statistics::version;
    for (const statistic_info& info : table) {
        json[std::string(info.name)] = values.*info.field;
    }
    json["classes"] = nlohmann::ordered_json::array();
    for (const class_statistics& one : values.classes) {
        if (one.in_use()) {
            nlohmann::ordered_json of_class;
            for (const class_statistic_info& info : class_table) {
                of_class[std::string(info.name)] = one.*info.field;
            }
            json["classes"].push_back(std::move(of_class));
        }
    }
    return json.dump(2);
}

}  // namespace orchard
