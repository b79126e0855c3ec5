// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The table of options, made from options.def, and the functions that read, check and print one option.
///
/// A line of options.def has a kind, and each kind is a function or an object of the same name in this file. The macro
/// calls it, so that the kind chooses the alternative of `option_field::access`:
///
///     ORCHARD_OPTION(count, refill_batch, 16, 1, 63, any, ...)
///       -> option_field{"refill_batch", unit, help, count(&options::refill_batch, 1, 63, option_rule::any)}
///       -> access: ranged_field<int>{&options::refill_batch, 1, 63, any}
///
/// Everything else is overloaded on that alternative, and called through `std::visit`:
///
///     read       text to value           set_field
///     problem    is the value valid?     set_field, check_field
///     show       value to text           text_of, and all messages
///     allowed    allowed values          allowed_of, and all messages
///
/// A new kind needs one of each, a type in options.hpp (`detail::option_type`), and its place in the variant.

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
// Kinds without a range get 0, 0 from the list, and ignore both.
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
constexpr text_field text(text_field field, int, int, option_rule) { return field; }
/// One object serves all enumerations: the type of the field tells which one is meant.
struct choice_kind {
    template <class E>
    constexpr choice_field<E> operator()(E options::*field, int, int, option_rule) const {
        return {field};
    }
};
// The names are those of the kinds in options.def.
constexpr choice_kind device, memory, mailbox, advice, portions, tails, order, guards, fill, pattern, recording;

// In the order of options.def, which is the order of the struct. `option_fields` and `find_option` are views of it.
const std::array fields = {
#define ORCHARD_OPTION(kind, name, default_value, minimum, maximum, rule, unit, help)                                  \
    option_field{#name, unit, help, kind(&options::name, minimum, maximum, option_rule::rule)},
#include "runtime/options/options.def"
#undef ORCHARD_OPTION
};

// ---- the possible choices of an option, indexed by the choice, and their description

/// The noun for a value, for messages, and the names of all values. The enumerations count from 0 without gaps, so that
/// the position of a name is its value.
struct choices {
    const char* what;
    std::vector<std::string_view> names;
};
// One function for each enumeration; the argument only selects it.
choices choices_of(device_option) { return {"a device", {"auto", "cuda", "emulated"}}; }
choices choices_of(backing_option) { return {"a backing", {"auto", "elastic", "fixed", "managed"}}; }
choices choices_of(mailbox_memory_option) { return {"mailbox memory", {"pinned", "managed"}}; }
choices choices_of(managed_advice) { return {"advice", {"first_touch_gpu", "cpu_resident", "none", "read_mostly"}}; }
choices choices_of(portion_policy) { return {"a policy for portions", {"packed", "padded"}}; }
choices choices_of(tail_policy) { return {"a policy for tails", {"adjacent", "pooled"}}; }
choices choices_of(lane_order) { return {"an order of lanes", {"ascending", "prefetch_first"}}; }
choices choices_of(hardening) { return {"a level of hardening", {"off", "detect", "guard"}}; }
choices choices_of(block_fill) { return {"a fill of new blocks", {"unchanged", "zero", "junk"}}; }
choices choices_of(event_mode) { return {"a mode of traces", {"sampled", "complete"}}; }
choices choices_of(access_pattern) {
    return {"an access pattern", {access_pattern_names.begin(), access_pattern_names.end()}};
}

// Abseil's type may differ from the standard one.
absl::string_view view(std::string_view text) { return {text.data(), text.size()}; }
// Escaped, because the text comes from a user and ends in a message of one line.
std::string quoted(std::string_view text) { return absl::StrCat("\"", absl::CEscape(view(text)), "\""); }

// ---- values as text; bytes that are no whole number of a unit are printed as plain bytes, so that they are read back
// exactly

/// 67,108,864 is "64 MiB"; 67,108,865 would be "64.00 MiB", which is another number, and is "67108865 B".
std::string show(std::uint64_t value) {
    const std::string text = format_bytes(value);
    return text.find('.') == std::string::npos ? text : absl::StrCat(value, " B");
}
std::string show(int value) { return absl::StrCat(value); }
std::string show(absl::Duration value) { return absl::FormatDuration(value); }
std::string show(bool value) { return value ? "true" : "false"; }
// `text_of` for a layout is in uvm/geometry/layout_text.hpp.
std::string show(const std::string& value) { return value; }
std::string show(layout value) { return text_of(value); }
/// Returns the name of a value, which `read` turns back into it.
template <class E>
requires std::is_enum_v<E> std::string show(E value) {
    const choices all = choices_of(value);
    const auto index = static_cast<std::size_t>(value);
    // A number outside the enumeration, set by a program, is shown as it is: `problem` rejects it with this text.
    return index < all.names.size() ? std::string(all.names[index]) : absl::StrCat(static_cast<int>(value));
}

// ---- allowed values

/// Return the allowed values as a phrase: "a power of two from 4 to 16384", "true or false", "auto, cuda or emulated".
template <class T>
std::string allowed(const ranged_field<T>& f) {
    const std::string range = absl::StrCat(show(f.minimum), " to ", show(f.maximum));
    switch (f.rule) {
        case option_rule::power_of_two: return absl::StrCat("a power of two from ", range);
        case option_rule::whole_segments: return absl::StrCat("a multiple of ", show(segment_bytes), " from ", range);
        // 0 lies outside the range, hence the separate word for it.
        case option_rule::or_automatic: return absl::StrCat("0, or ", range);
        case option_rule::any: break;
    }
    return range;
}
std::string allowed(flag_field) { return "true or false"; }
std::string allowed(text_field) { return "a file name, or nothing"; }
// Written out, as a layout has too many values for a list; `layout_from` decides.
std::string allowed(layout_field) {
    return "automatic, linear, or interleaved:TILE with a tile of 4, 8, ... 512 bytes, 1K, 2K, ... 64K";
}
/// For an enumeration of any size: "ascending or prefetch_first".
template <class E>
std::string allowed(choice_field<E>) {
    const choices all = choices_of(E{});
    std::string text;
    for (const std::string_view name : all.names) {
        // "a, b or c"
        absl::StrAppend(&text, text.empty() ? "" : name == all.names.back() ? " or " : ", ", view(name));
    }
    return text;
}

// ---- the fault of a value, as text that follows the value; empty if the value is valid

/// Returns true if a value within its range breaks the rule of its field. A duration has no such rule.
template <class T>
bool breaks(const ranged_field<T>& f, T value) {
    if constexpr (!std::is_same_v<T, absl::Duration>) {
        // Called for values in the range alone. Only fields with a minimum above 0 have one of the two rules.
        const auto number = static_cast<std::uint64_t>(value);
        return (f.rule == option_rule::power_of_two && !std::has_single_bit(number)) ||
               (f.rule == option_rule::whole_segments && number % segment_bytes != 0);
    } else {
        return false;
    }
}

/// Return the fault of a value, beginning with a verb: "is below the minimum of 1; give 1 to 4". The caller puts the
/// value before it. The range is checked before the rule, so that a message names the more obvious fault.
template <class T>
std::optional<std::string> problem(const ranged_field<T>& f, T value) {
    // Every message ends with the values that are allowed.
    const std::string remedy = absl::StrCat("; give ", allowed(f));
    // 0 leaves the choice to the heap, although it is below the minimum.
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
// Every value of a switch is valid.
std::optional<std::string> problem(flag_field, bool) { return std::nullopt; }
std::optional<std::string> problem(text_field, const std::string&) { return std::nullopt; }
std::optional<std::string> problem(layout_field f, layout value) {
    // A tile outside its limits can only be set by a program; text with such a tile is rejected by `layout_from`.
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

/// Return the value that a text states, without a look at the range, which `problem` checks. Errors: InvalidArgument
/// with the text and the allowed values.
absl::StatusOr<std::uint64_t> read(const ranged_field<std::uint64_t>&, std::string_view text) {
    return parse_bytes(text);
}
absl::StatusOr<int> read(const ranged_field<int>& f, std::string_view text) {
    // Also false for a number of more than 32 bits, instead of a value that was cut off.
    int value = 0;
    if (absl::SimpleAtoi(view(text), &value)) {
        return value;
    }
    return absl::InvalidArgumentError(
        absl::StrCat(quoted(text), " is not a whole number of 32 bits; give ", allowed(f)));
}
absl::StatusOr<absl::Duration> read(const ranged_field<absl::Duration>& f, std::string_view text) {
    // Accepts several parts, as in "1m30s", and "inf", which every range then rejects.
    absl::Duration value;
    if (absl::ParseDuration(view(text), &value)) {
        return value;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        quoted(text), " is not a duration; write a number and a unit, such as 500ms or 10s, from ", allowed(f)));
}
absl::StatusOr<bool> read(flag_field f, std::string_view text) {
    // Abseil also takes "t", "y" and the like, in upper and lower case.
    bool value = false;
    if (absl::SimpleAtob(view(text), &value)) {
        return value;
    }
    return absl::InvalidArgumentError(absl::StrCat(quoted(text), " is not a switch; give ", allowed(f)));
}
absl::StatusOr<std::string> read(text_field, std::string_view text) { return std::string(text); }
absl::StatusOr<layout> read(layout_field f, std::string_view text) {
    if (const auto found = layout_from(text)) {
        return *found;
    }
    return absl::InvalidArgumentError(absl::StrCat(quoted(text), " is not a layout; give ", allowed(f)));
}
/// Returns the value with this name.
template <class E>
absl::StatusOr<E> read(choice_field<E> f, std::string_view text) {
    const choices all = choices_of(E{});
    // The whole name in its exact spelling; nothing is abbreviated.
    const auto found = std::find(all.names.begin(), all.names.end(), text);
    if (found == all.names.end()) {
        return absl::InvalidArgumentError(absl::StrCat(quoted(text), " is not ", all.what, "; give ", allowed(f)));
    }
    // The position of a name is the value.
    return static_cast<E>(found - all.names.begin());
}

/// Return the pointer to the member of `options`, whichever alternative holds it.
template <class T>
T options::*member(const ranged_field<T>& f) {
    return f.field;
}
flag_field member(flag_field f) { return f; }
layout_field member(layout_field f) { return f; }
text_field member(text_field f) { return f; }
template <class E>
E options::*member(choice_field<E> f) {
    return f.field;
}

/// Returns the status with the option's name, as the user wrote it, before the text.
absl::Status labelled(const absl::Status& status, std::string_view label) {
    return {status.code(), absl::StrCat(view(label), ": ", status.message())};
}

}  // namespace

std::span<const option_field> option_fields() { return fields; }

/// Cost: a walk over the table.
const option_field* find_option(std::string_view name) {
    // The flag's spelling and the field's are the same to a user.
    const std::string wanted = absl::StrReplaceAll(view(name), {{"-", "_"}});
    for (const option_field& option : fields) {
        if (option.name == wanted) {
            return &option;
        }
    }
    return nullptr;
}

/// The three spellings of one name follow from each other: `request_timeout`, `ORCHARD_REQUEST_TIMEOUT`,
/// `--request-timeout`.
std::string variable_of(const option_field& option) {
    return absl::StrCat("ORCHARD_", absl::AsciiStrToUpper(view(option.name)));
}
std::string flag_of(const option_field& option) {
    return absl::StrCat("--", absl::StrReplaceAll(view(option.name), {{"_", "-"}}));
}

/// The value is checked before it is stored, so that an error leaves `values` unchanged. The first error is about the
/// form of the text (InvalidArgument), the second about the value (OutOfRange).
absl::Status set_field(options& values, const option_field& option, std::string_view label, std::string_view text) {
    return std::visit(
        [&](const auto& f) -> absl::Status {
            // Nothing is stored before both checks have passed.
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

/// For values that a program has set; those from text were checked by `set_field`.
absl::Status check_field(const options& values, const option_field& option) {
    return std::visit(
        [&](const auto& f) -> absl::Status {
            // The text is made from the value, since a program may have set it without any text.
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
