// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "runtime/options/option_fields.hpp"

#include <algorithm>
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
#include "uvm/geometry/geometry.hpp"
#include "uvm/geometry/layout_text.hpp"

namespace orchard::detail {
namespace {

// The macro's words for kinds and rules, and for the columns that a kind does not use.
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
constexpr layout_field arrays(layout_field field, int, int, option_rule) { return field; }
struct choice_kind {
    template <class E>
    constexpr choice_field<E> operator()(E options::*field, int, int, option_rule) const {
        return {field};
    }
};
constexpr choice_kind device, memory, advice, portions, order, guards, fill, pattern;

const std::array fields = {
#define ORCHARD_OPTION(kind, name, default_value, minimum, maximum, rule, unit, help)                                  \
    option_field{#name, unit, help, kind(&options::name, minimum, maximum, option_rule::rule)},
#include "runtime/options/options.def"
#undef ORCHARD_OPTION
};

// ---- the possible choices of an option, indexed by the choice, and their description

struct choices {
    const char* what;
    std::vector<std::string_view> names;
};
choices choices_of(device_option) { return {"a device", {"auto", "cuda", "emulated"}}; }
choices choices_of(backing_option) { return {"a backing", {"auto", "elastic", "fixed", "managed"}}; }
choices choices_of(managed_advice) { return {"advice", {"first_touch_gpu", "cpu_resident", "none"}}; }
choices choices_of(portion_policy) { return {"a policy for portions", {"packed", "padded"}}; }
choices choices_of(lane_order) { return {"an order of lanes", {"ascending", "prefetch_first"}}; }
choices choices_of(hardening) { return {"a level of hardening", {"off", "detect", "guard"}}; }
choices choices_of(block_fill) { return {"a fill of new blocks", {"unchanged", "zero", "junk"}}; }
choices choices_of(access_pattern) {
    return {"an access pattern", {access_pattern_names.begin(), access_pattern_names.end()}};
}

absl::string_view view(std::string_view text) { return {text.data(), text.size()}; }
std::string quoted(std::string_view text) { return absl::StrCat("\"", absl::CEscape(view(text)), "\""); }

// ---- values as text; bytes that are no whole number of a unit are printed as plain bytes, so that they are read back
// exactly

std::string show(std::uint64_t value) {
    const std::string text = format_bytes(value);
    return text.find('.') == std::string::npos ? text : absl::StrCat(value, " B");
}
std::string show(int value) { return absl::StrCat(value); }
std::string show(absl::Duration value) { return absl::FormatDuration(value); }
std::string show(bool value) { return value ? "true" : "false"; }
std::string show(layout value) { return text_of(value); }
template <class E>
requires std::is_enum_v<E> std::string show(E value) {
    const choices all = choices_of(value);
    const auto index = static_cast<std::size_t>(value);
    return index < all.names.size() ? std::string(all.names[index]) : absl::StrCat(static_cast<int>(value));
}

// ---- allowed values

template <class T>
std::string allowed(const ranged_field<T>& f) {
    const std::string range = absl::StrCat(show(f.minimum), " to ", show(f.maximum));
    switch (f.rule) {
        case option_rule::power_of_two: return absl::StrCat("a power of two from ", range);
        case option_rule::whole_segments: return absl::StrCat("a multiple of ", show(segment_bytes), " from ", range);
        case option_rule::or_automatic: return absl::StrCat("0, or ", range);
        case option_rule::any: break;
    }
    return range;
}
std::string allowed(flag_field) { return "true or false"; }
std::string allowed(layout_field) {
    return "automatic, linear, or interleaved:TILE with a tile of 4, 8, ... 512 bytes, 1K, 2K, ... 64K";
}
template <class E>
std::string allowed(choice_field<E>) {
    const choices all = choices_of(E{});
    std::string text;
    for (const std::string_view name : all.names) {
        absl::StrAppend(&text, text.empty() ? "" : name == all.names.back() ? " or " : ", ", view(name));
    }
    return text;
}

// ---- the fault of a value, as text that follows the value; empty if the value is valid

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
    if (f.rule == option_rule::or_automatic && value == T{}) {
        return std::nullopt;
    }
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
std::optional<std::string> problem(layout_field f, layout value) {
    const bool known =
        value.which == layout::choice::automatic || value.which == layout::choice::linear ||
        (value.which == layout::choice::interleaved && value.turn >= smallest_tile && value.turn <= largest_tile);
    return known ? std::nullopt : std::optional(absl::StrCat("is not a layout; give ", allowed(f)));
}
template <class E>
std::optional<std::string> problem(choice_field<E> f, E value) {
    const choices all = choices_of(value);
    if (static_cast<std::size_t>(value) < all.names.size()) {
        return std::nullopt;
    }
    return absl::StrCat("is not ", all.what, "; give ", allowed(f));
}

// ---- values from text

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
absl::StatusOr<layout> read(layout_field f, std::string_view text) {
    if (const auto found = layout_from(text)) {
        return *found;
    }
    return absl::InvalidArgumentError(absl::StrCat(quoted(text), " is not a layout; give ", allowed(f)));
}
template <class E>
absl::StatusOr<E> read(choice_field<E> f, std::string_view text) {
    const choices all = choices_of(E{});
    const auto found = std::find(all.names.begin(), all.names.end(), text);
    if (found == all.names.end()) {
        return absl::InvalidArgumentError(absl::StrCat(quoted(text), " is not ", all.what, "; give ", allowed(f)));
    }
    return static_cast<E>(found - all.names.begin());
}

template <class T>
T options::*member(const ranged_field<T>& f) {
    return f.field;
}
flag_field member(flag_field f) { return f; }
layout_field member(layout_field f) { return f; }
template <class E>
E options::*member(choice_field<E> f) {
    return f.field;
}

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
