// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "runtime/option_fields.hpp"

#include <array>
#include <bit>
#include <optional>
#include <type_traits>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "uvm/geometry.hpp"
#include "uvm/layout_text.hpp"

namespace orchard::detail {
namespace {

// The macro's words for kinds, rules and what a kind has no use for.
constexpr int not_used = 0;
constexpr auto bytes(std::uint64_t options::*field, std::uint64_t low, std::uint64_t high, option_rule rule) {
    return ranged_field<std::uint64_t>{field, low, high, rule};
}
constexpr auto count(int options::*field, int low, int high, option_rule rule) {
    return ranged_field<int>{field, low, high, rule};
}
constexpr auto duration(absl::Duration options::*field, absl::Duration low, absl::Duration high, option_rule rule) {
    return ranged_field<absl::Duration>{field, low, high, rule};
}
constexpr flag_field flag(flag_field field, int, int, option_rule) { return field; }
constexpr device_field device(device_field field, int, int, option_rule) { return field; }
constexpr policy_field policy(policy_field field, int, int, option_rule) { return field; }
constexpr portions_field portions(portions_field field, int, int, option_rule) { return field; }
constexpr layout_field arrays(layout_field field, int, int, option_rule) { return field; }
constexpr order_field order(order_field field, int, int, option_rule) { return field; }

const std::array fields = {
#define ORCHARD_OPTION(kind, name, default_value, minimum, maximum, rule, unit, help)                                  \
    option_field{#name, unit, help, kind(&options::name, minimum, maximum, option_rule::rule)},
#include "runtime/options.def"
#undef ORCHARD_OPTION
};

constexpr std::array<const char*, 3> device_names = {"auto", "cuda", "emulated"};  // indexed by device_option

absl::string_view view(std::string_view text) { return {text.data(), text.size()}; }
std::string quoted(std::string_view text) { return absl::StrCat("\"", absl::CEscape(view(text)), "\""); }

// ---- text of a value; bytes that are no whole number of a unit are printed as they are, to be read back the same

std::string show(std::uint64_t value) {
    const std::string text = format_bytes(value);
    return text.find('.') == std::string::npos ? text : absl::StrCat(value, " B");
}
std::string show(int value) { return absl::StrCat(value); }
std::string show(absl::Duration value) { return absl::FormatDuration(value); }
std::string show(bool value) { return value ? "true" : "false"; }
std::string show(device_option value) {
    const auto index = static_cast<std::size_t>(value);
    return index < device_names.size() ? device_names[index] : absl::StrCat(static_cast<int>(value));
}

std::string show(device::page_policy value) {
    const auto index = static_cast<std::size_t>(value);
    return index < device::page_policy_names.size() ? std::string(device::page_policy_names[index].name)
                                                    : absl::StrCat(index);
}
std::string show(portion_policy value) {
    return value == portion_policy::packed   ? "packed"
           : value == portion_policy::padded ? "padded"
                                             : absl::StrCat(static_cast<int>(value));
}
std::string show(layout value) { return text_of(value); }
std::string show(lane_order value) {
    const bool known = value == lane_order::ascending || value == lane_order::prefetch_first;
    return known ? text_of(value) : absl::StrCat(static_cast<int>(value));
}

// ---- what is allowed

template <class T>
std::string allowed(const ranged_field<T>& f) {
    const std::string range = absl::StrCat(show(f.minimum), " to ", show(f.maximum));
    switch (f.rule) {
        case option_rule::power_of_two: return absl::StrCat("a power of two from ", range);
        case option_rule::whole_segments: return absl::StrCat("a multiple of ", show(segment_bytes), " from ", range);
        case option_rule::any: break;
    }
    return range;
}
std::string allowed(flag_field) { return "true or false"; }
std::string allowed(device_field) { return "auto, cuda or emulated"; }
std::string allowed(policy_field) {
    std::string all;
    for (const device::page_policy_name& p : device::page_policy_names) {
        absl::StrAppend(&all, all.empty() ? "" : &p == &device::page_policy_names.back() ? " or " : ", ", view(p.name));
    }
    return all;
}
std::string allowed(portions_field) { return "packed or padded"; }
std::string allowed(layout_field) {
    return "automatic, linear, or interleaved:TILE with a tile of 4, 8, ... 512 bytes, 1K, 2K, ... 64K";
}
std::string allowed(order_field) { return "ascending or prefetch_first"; }

// ---- what is wrong with a value, to be read after it; nothing where it is right

template <class T>
bool breaks(const ranged_field<T>& f, T value) {
    if constexpr (!std::is_same_v<T, absl::Duration>) {
        const auto number = static_cast<std::uint64_t>(value);
        return (f.rule == option_rule::power_of_two && !std::has_single_bit(number)) ||
               (f.rule == option_rule::whole_segments && number % segment_bytes != 0);
    } else {
        return false;
    }
}

template <class T>
std::optional<std::string> problem(const ranged_field<T>& f, T value) {
    const std::string remedy = absl::StrCat("; give ", allowed(f));
    if (value < f.minimum) {
        return absl::StrCat("is below the minimum of ", show(f.minimum), remedy);
    }
    if (value > f.maximum) {
        return absl::StrCat("is above the maximum of ", show(f.maximum), remedy);
    }
    if (breaks(f, value)) {
        return absl::StrCat(
            f.rule == option_rule::power_of_two ? "is not a power of two" : "is not a multiple of 2 MiB", remedy);
    }
    return std::nullopt;
}
std::optional<std::string> problem(flag_field, bool) { return std::nullopt; }
std::optional<std::string> problem(device_field, device_option value) {
    if (static_cast<std::size_t>(value) < device_names.size()) {
        return std::nullopt;
    }
    return std::string("is not a device; give auto, cuda or emulated");
}
std::optional<std::string> problem(policy_field f, device::page_policy value) {
    if (static_cast<std::size_t>(value) < device::page_policy_names.size()) {
        return std::nullopt;
    }
    return absl::StrCat("is not a page policy; give ", allowed(f));
}
std::optional<std::string> problem(portions_field f, portion_policy value) {
    if (value == portion_policy::packed || value == portion_policy::padded) {
        return std::nullopt;
    }
    return absl::StrCat("is not a policy for portions; give ", allowed(f));
}
std::optional<std::string> problem(layout_field f, layout value) {
    const bool known =
        value.which == layout::choice::automatic || value.which == layout::choice::linear ||
        (value.which == layout::choice::interleaved && value.turn >= smallest_tile && value.turn <= largest_tile);
    return known ? std::nullopt : std::optional(absl::StrCat("is not a layout; give ", allowed(f)));
}
std::optional<std::string> problem(order_field f, lane_order value) {
    if (value == lane_order::ascending || value == lane_order::prefetch_first) {
        return std::nullopt;
    }
    return absl::StrCat("is not an order of lanes; give ", allowed(f));
}

// ---- from text

absl::StatusOr<std::uint64_t> read(const ranged_field<std::uint64_t>&, std::string_view text) {
    return parse_bytes(text);
}
absl::StatusOr<int> read(const ranged_field<int>& f, std::string_view text) {
    int value = 0;
    if (absl::SimpleAtoi(view(text), &value)) {
        return value;
    }
    return absl::InvalidArgumentError(
        absl::StrCat(quoted(text), " is not a whole number of 32 bits; give ", allowed(f)));
}
absl::StatusOr<absl::Duration> read(const ranged_field<absl::Duration>& f, std::string_view text) {
    absl::Duration value;
    if (absl::ParseDuration(view(text), &value)) {
        return value;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        quoted(text), " is not a duration; write a number and a unit, such as 500ms or 10s, from ", allowed(f)));
}
absl::StatusOr<bool> read(flag_field f, std::string_view text) {
    bool value = false;
    if (absl::SimpleAtob(view(text), &value)) {
        return value;
    }
    return absl::InvalidArgumentError(absl::StrCat(quoted(text), " is not a switch; give ", allowed(f)));
}
absl::StatusOr<device_option> read(device_field f, std::string_view text) {
    for (std::size_t i = 0; i < device_names.size(); ++i) {
        if (text == device_names[i]) {
            return static_cast<device_option>(i);
        }
    }
    return absl::InvalidArgumentError(absl::StrCat(quoted(text), " is not a device; give ", allowed(f)));
}
absl::StatusOr<device::page_policy> read(policy_field f, std::string_view text) {
    if (const auto found = device::page_policy_of(text)) {
        return *found;
    }
    return absl::InvalidArgumentError(absl::StrCat(quoted(text), " is not a page policy; give ", allowed(f)));
}
absl::StatusOr<portion_policy> read(portions_field f, std::string_view text) {
    if (text == "packed" || text == "padded") {
        return text == "packed" ? portion_policy::packed : portion_policy::padded;
    }
    return absl::InvalidArgumentError(absl::StrCat(quoted(text), " is not a policy for portions; give ", allowed(f)));
}
absl::StatusOr<layout> read(layout_field f, std::string_view text) {
    if (const auto found = layout_from(text)) {
        return *found;
    }
    return absl::InvalidArgumentError(absl::StrCat(quoted(text), " is not a layout; give ", allowed(f)));
}
absl::StatusOr<lane_order> read(order_field f, std::string_view text) {
    if (const auto found = lane_order_from(text)) {
        return *found;
    }
    return absl::InvalidArgumentError(absl::StrCat(quoted(text), " is not an order of lanes; give ", allowed(f)));
}

template <class T>
T options::*member(const ranged_field<T>& f) {
    return f.field;
}
flag_field member(flag_field f) { return f; }
device_field member(device_field f) { return f; }
policy_field member(policy_field f) { return f; }
portions_field member(portions_field f) { return f; }
layout_field member(layout_field f) { return f; }
order_field member(order_field f) { return f; }

absl::Status labelled(const absl::Status& status, std::string_view label) {
    return {status.code(), absl::StrCat(view(label), ": ", status.message())};
}

}  // namespace

std::span<const option_field> option_fields() { return fields; }

const option_field* find_option(std::string_view name) {
    const std::string wanted = absl::StrReplaceAll(view(name), {{"-", "_"}});
    for (const option_field& option : fields) {
        if (option.name == wanted) {
            return &option;
        }
    }
    return nullptr;
}

std::string variable_of(const option_field& option) {
    return absl::StrCat("ORCHARD_", absl::AsciiStrToUpper(view(option.name)));
}
std::string flag_of(const option_field& option) {
    return absl::StrCat("--", absl::StrReplaceAll(view(option.name), {{"_", "-"}}));
}

absl::Status set_field(options& values, const option_field& option, std::string_view label, std::string_view text) {
    return std::visit(
        [&](const auto& f) -> absl::Status {
            const auto value = read(f, text);
            if (!value.ok()) {
                return labelled(value.status(), label);
            }
            if (const auto wrong = problem(f, *value)) {
                return labelled(absl::OutOfRangeError(absl::StrCat(quoted(text), " ", *wrong)), label);
            }
            values.*member(f) = *value;
            return absl::OkStatus();
        },
        option.access);
}

absl::Status check_field(const options& values, const option_field& option) {
    return std::visit(
        [&](const auto& f) -> absl::Status {
            const auto value = values.*member(f);
            if (const auto wrong = problem(f, value)) {
                return labelled(absl::OutOfRangeError(absl::StrCat(show(value), " ", *wrong)), option.name);
            }
            return absl::OkStatus();
        },
        option.access);
}

std::string text_of(const options& values, const option_field& option) {
    return std::visit([&](const auto& f) { return show(values.*member(f)); }, option.access);
}

std::string allowed_of(const option_field& option) {
    return std::visit([](const auto& f) { return allowed(f); }, option.access);
}

}  // namespace orchard::detail
