// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "runtime/statistics.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/byte_size.hpp"

namespace orchard {
namespace {

constexpr std::array table = {
#define ORCHARD_STATISTIC(name, unit, help) statistic_info{#name, #unit, help, &statistics::name},
#include "runtime/statistics.def"
#undef ORCHARD_STATISTIC
};

absl::string_view view(std::string_view text) { return {text.data(), text.size()}; }

std::string value_of(const statistic_info& info, std::uint64_t value) {
    // Below 1 KiB the plain number says it all.
    if (info.unit == "bytes" && value >= kib) {
        return absl::StrFormat("%d (%s)", value, format_bytes(value));
    }
    return absl::StrCat(value);
}

}  // namespace

std::span<const statistic_info> statistic_table() { return table; }

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
    return text;
}

std::string to_json(const statistics& values) {
    nlohmann::ordered_json json;
    json["version"] = statistics::version;
    for (const statistic_info& info : table) {
        json[std::string(info.name)] = values.*info.field;
    }
    return json.dump(2);
}

}  // namespace orchard
