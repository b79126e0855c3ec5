// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The table of options as data: how each field is read, checked and printed. Internal to runtime/.

#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/status.h"
#include "runtime/options/options.hpp"

namespace orchard::detail {

/// The requirement on a number in addition to its range.
enum class option_rule { any, power_of_two, whole_segments, or_automatic };

/// A field with a range; `T` is std::uint64_t (bytes), int or absl::Duration. Both limits are allowed values.
template <class T>
struct ranged_field {
    using member = T options::*;
    member field;
    T minimum;
    T maximum;
    option_rule rule;
};
/// Fields without a range: a switch, and a layout, whose values are checked by its own functions.
using flag_field = bool options::*;
using layout_field = layout options::*;
/// Any text, also none.
using text_field = std::string options::*;

/// A field with a few possible values: `E` counts from 0, and its names are `names_of(E{})`.
template <class E>
struct choice_field {
    E options::*field;
};

/// One option.
struct option_field {
    // Texts of options.def, which live as long as the program.
    std::string_view name;
    std::string_view unit;
    std::string_view help;
    std::variant<ranged_field<std::uint64_t>, ranged_field<int>, ranged_field<absl::Duration>, flag_field, layout_field,
                 text_field, choice_field<event_mode>, choice_field<device_option>, choice_field<backing_option>,
                 choice_field<mailbox_memory_option>, choice_field<managed_advice>, choice_field<portion_policy>,
                 choice_field<tail_policy>, choice_field<lane_order>, choice_field<hardening>, choice_field<block_fill>,
                 choice_field<access_pattern>>
        access;
};

/// Returns all options, in the order of the struct.
std::span<const option_field> option_fields();

/// Returns the option called `name`, with `_` or `-` between words; null if there is none.
const option_field* find_option(std::string_view name);

/// Return "ORCHARD_REQUEST_TIMEOUT" and "--request-timeout" for "request_timeout".
std::string variable_of(const option_field& option);
std::string flag_of(const option_field& option);

/// Sets the field from text. `label` is the flag or variable that the user wrote, for the error message. Errors: those
/// of `orchard::set`.
absl::Status set_field(options& values, const option_field& option, std::string_view label, std::string_view text);

/// Implements `orchard::apply_environment` for the environment `assignments` ("NAME=text", the last one null).
/// @param is_privileged  whether the program has more rights than its caller, as the kernel says by AT_SECURE. The
///     environment is then the choice of an account with fewer rights: no variable is read, not even a wrong one.
absl::Status apply_environment(options& values, const char* const* assignments, bool is_privileged,
                               std::vector<std::string>* foreign = nullptr);

/// Checks the field's value. Errors (OutOfRange): those of `orchard::validate`.
absl::Status check_field(const options& values, const option_field& option);

/// Returns the field's value as text that `set_field` reads back.
std::string text_of(const options& values, const option_field& option);

/// Returns the allowed values as text: "1ms to 1h".
std::string allowed_of(const option_field& option);

}  // namespace orchard::detail
