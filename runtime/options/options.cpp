// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The options as a whole: from the environment, as a table, as text. option_fields.cpp handles one option at a time.
///
///     options::from_environment
///       apply_environment(values)                        the process's variables
///         detail::apply_environment(values, environ)     on a copy of `values`, which replaces them at the end
///           apply_variable                               one ORCHARD_... variable
///             detail::set_field

#include "runtime/options/options.hpp"

#include <sys/auxv.h>
#include <unistd.h>  // environ

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/options/nearest.hpp"
#include "runtime/options/option_fields.hpp"

namespace orchard {
namespace {

// A variable that begins so should be an option or one of the ignored ones.
constexpr std::string_view prefix = "ORCHARD_";

// Variables for build systems, for the launcher, for the default heap (ORCHARD_INIT), for the Python package
// (ORCHARD_LIBRARY), and those that `orchard profile` sets for the program that it runs; they are no options of a heap.
constexpr std::array<std::string_view, 11> ignored_variables = {"ORCHARD_HAS_CUDA",      "ORCHARD_SOURCE_DIR",
                                                                "ORCHARD_CHECKED",       "ORCHARD_CUDA_ARCHITECTURES",
                                                                "ORCHARD_NO_PACKAGES",   "ORCHARD_INIT",
                                                                "ORCHARD_LIBRARY",       "ORCHARD_PROFILE_FOLDER",
                                                                "ORCHARD_PROFILE_CUPTI", "ORCHARD_PROFILE_SAMPLES",
                                                                "ORCHARD_PROFILE_LIMIT"};

/// Returns the message about a name that is no option, with `spelling` of the nearest option, if any is near.
/// @param label  the name as the user wrote it
/// @param name   the part of it in which options differ, in lower case
std::string unknown(std::string_view label, std::string_view name,
                    std::string (*spelling)(const detail::option_field& option)) {
    std::vector<std::string> known;
    for (const detail::option_field& option : detail::option_fields()) {
        known.emplace_back(option.name);
    }
    const std::string near = detail::nearest(name, known);
    return absl::StrCat(absl::CEscape(absl::string_view(label.data(), label.size())), ": no such option",
                        near.empty() ? "" : absl::StrCat(" (nearest: ", spelling(*detail::find_option(near)), ")"),
                        "; `orchard options` lists all");
}

/// Sets the option of variable `name`; accepts an ignored variable without any effect. Every other name may belong to
/// another program, or may be misspelt: `foreign`, if not null, gets a message about it.
absl::Status apply_variable(options& values, std::string_view name, std::string_view text,
                            std::vector<std::string>* foreign) {
    for (const detail::option_field& option : detail::option_fields()) {
        // A comparison with each option's variable: the list is short, and is walked once for each variable of the
        // process that begins with the prefix.
        if (detail::variable_of(option) == name) {
            return detail::set_field(values, option, name, text);
        }
    }
    // Only after the options: a name could be in both lists, and would then be an option.
    if (std::ranges::find(ignored_variables, name) == ignored_variables.end() && foreign != nullptr) {
        const std::string_view rest = name.substr(prefix.size());
        foreign->push_back(
            unknown(name, absl::AsciiStrToLower(absl::string_view(rest.data(), rest.size())), detail::variable_of));
    }
    return absl::OkStatus();
}

}  // namespace

absl::StatusOr<options> options::from_environment(std::vector<std::string>* foreign) {
    options values;
    const absl::Status status = apply_environment(values, foreign);
    if (!status.ok()) {
        return status;
    }
    return values;
}

/// The fields one by one, in the order of the struct. Rules that concern several fields are checked by `heap::make`.
absl::Status validate(const options& values) {
    for (const detail::option_field& option : detail::option_fields()) {
        const absl::Status status = detail::check_field(values, option);
        if (!status.ok()) {
            return status;
        }
    }
    return absl::OkStatus();
}

/// Finds the option by its name; the flags and the variables call `detail::set_field` for an option that they know.
absl::Status set(options& values, std::string_view name, std::string_view text) {
    // Found with either spelling of the words' separator.
    const detail::option_field* option = detail::find_option(name);
    if (option == nullptr) {
        return absl::NotFoundError(
            unknown(name, name, [](const detail::option_field& o) { return std::string(o.name); }));
    }
    // Messages begin with the name as the caller wrote it.
    return detail::set_field(values, *option, name, text);
}

/// AT_SECURE is set by the kernel if the program was started with more rights than its caller.
absl::Status apply_environment(options& values, std::vector<std::string>* foreign) {
    return detail::apply_environment(values, environ, ::getauxval(AT_SECURE) != 0, foreign);
}

/// The list is that of `environ`. An error names the variable and not the option, since the user wrote the variable.
absl::Status detail::apply_environment(options& values, const char* const* assignments, bool is_privileged,
                                       std::vector<std::string>* foreign) {
    // No variable is looked at: an error, too, would be an effect of the caller's environment.
    if (is_privileged) {
        return absl::OkStatus();
    }
    // A copy: an error in the last variable must not leave the first ones set.
    options changed = values;
    // `environ` may be null; the list ends with a null pointer.
    for (const char* const* entry = assignments; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view assignment = *entry;
        const std::size_t equals = assignment.find('=');
        // An entry without "=" is no assignment, and no variable that `getenv` would find.
        if (!assignment.starts_with(prefix) || equals == std::string_view::npos) {
            continue;
        }
        const absl::Status status =
            apply_variable(changed, assignment.substr(0, equals), assignment.substr(equals + 1), foreign);
        if (!status.ok()) {
            return status;
        }
    }
    values = changed;
    return absl::OkStatus();
}

/// A copy of all texts, so that the result does not depend on `values`.
std::vector<option_info> option_table(const options& values) {
    std::vector<option_info> table;
    for (const detail::option_field& option : detail::option_fields()) {
        table.push_back({std::string(option.name), detail::variable_of(option), detail::flag_of(option),
                         detail::text_of(values, option), detail::allowed_of(option), std::string(option.unit),
                         std::string(option.help), std::holds_alternative<detail::flag_field>(option.access)});
    }
    return table;
}

/// Each value as `set` reads it; a size that is no whole number of a unit in plain bytes.
std::string to_text(const options& values) {
    std::string text;
    for (const option_info& option : option_table(values)) {
        absl::StrAppendFormat(&text, "%s = %s\n", option.name, option.value);
    }
    return text;
}

/// `orchard options --markdown` prints it; a test compares it with the file. The ignored variables are listed from the
/// same array that `apply_variable` uses.
std::string options_markdown() {
    std::string text =
        "# Options\n"
        "\n"
        "<!-- Made by `orchard options --markdown` from runtime/options/options.def; a test holds the two together. "
        "-->\n"
        "\n"
        "Each option is a field of `orchard::options`, a variable of the environment and a flag of the commands that\n"
        "create a heap. A flag wins over the variable, the variable over the default.\n"
        "\n"
        "Bytes are written with a unit: `512MiB`, `4GiB` (powers of 1024), `2GB` (powers of 1000), or as a plain "
        "number.\n"
        "Times are written with a unit: `200us`, `500ms`, `10s`, `1m`. A switch is `true` or `false`; as a flag it "
        "needs no\n"
        "value, and `--no-` before its name turns it off.\n"
        "\n"
        "A variable that starts with `ORCHARD_` and names no option has no effect. `orchard` warns of it; other\n"
        "programs get the message from `options::from_environment(&foreign)`. No message is about those that build\n"
        "systems, the launcher, the default heap and the Python package use:\n";
    for (const std::string_view name : ignored_variables) {
        absl::StrAppendFormat(&text, "%s`%s`", name == ignored_variables.front() ? "" : ", ", std::string(name));
    }
    text +=
        ".\n"
        "\n"
        "A program with more rights than its caller (set-user-ID, set-group-ID, file capabilities) ignores all of "
        "these\n"
        "variables, since its caller chooses them; options that the program sets and flags apply.\n"
        "\n"
        "| field | variable | flag | default | allowed | unit | meaning |\n"
        "|---|---|---|---|---|---|---|\n";
    // One row for each option. No cell contains a vertical bar, since it would end the cell.
    for (const option_info& o : option_table()) {
        absl::StrAppendFormat(&text, "| `%s` | `%s` | `%s` | %s | %s | %s | %s |\n", o.name, o.variable, o.flag,
                              o.value, o.allowed, o.unit, o.help);
    }
    return text;
}

}  // namespace orchard
