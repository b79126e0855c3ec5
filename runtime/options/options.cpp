// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "runtime/options/options.hpp"

#include <sys/auxv.h>
#include <unistd.h>  // environ

#include <algorithm>
#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/options/nearest.hpp"
#include "runtime/options/option_fields.hpp"

namespace orchard {
namespace {

constexpr std::string_view prefix = "ORCHARD_";

// Variables for build systems and for the launcher; they do not concern a heap.
constexpr std::array<std::string_view, 5> ignored_variables = {
    "ORCHARD_HAS_CUDA", "ORCHARD_SOURCE_DIR", "ORCHARD_CHECKED", "ORCHARD_CUDA_ARCHITECTURES", "ORCHARD_NO_PACKAGES"};

absl::Status unknown(std::string_view label, std::span<const std::string> known) {
    const absl::string_view name(label.data(), label.size());
    return absl::NotFoundError(absl::StrCat(absl::CEscape(name), ": no such option; did you mean ",
                                            detail::nearest(label, known), "? (`orchard options` lists all)"));
}

template <class Name>
std::vector<std::string> names(Name name) {
    std::vector<std::string> all;
    for (const detail::option_field& option : detail::option_fields()) {
        all.push_back(std::string(name(option)));
    }
    return all;
}

absl::Status apply_variable(options& values, std::string_view name, std::string_view text) {
    for (const detail::option_field& option : detail::option_fields()) {
        if (detail::variable_of(option) == name) {
            return detail::set_field(values, option, name, text);
        }
    }
    if (std::ranges::find(ignored_variables, name) != ignored_variables.end()) {
        return absl::OkStatus();
    }
    return unknown(name, names(detail::variable_of));
}

}  // namespace

absl::StatusOr<options> options::from_environment() {
    options values;
    const absl::Status status = apply_environment(values);
    if (!status.ok()) {
        return status;
    }
    return values;
}

absl::Status validate(const options& values) {
    for (const detail::option_field& option : detail::option_fields()) {
        const absl::Status status = detail::check_field(values, option);
        if (!status.ok()) {
            return status;
        }
    }
    return absl::OkStatus();
}

absl::Status set(options& values, std::string_view name, std::string_view text) {
    const detail::option_field* option = detail::find_option(name);
    if (option == nullptr) {
        return unknown(name, names([](const detail::option_field& o) { return o.name; }));
    }
    return detail::set_field(values, *option, name, text);
}

absl::Status apply_environment(options& values) {
    return detail::apply_environment(values, environ, ::getauxval(AT_SECURE) != 0);
}

absl::Status detail::apply_environment(options& values, const char* const* assignments, bool is_privileged) {
    if (is_privileged) {
        return absl::OkStatus();
    }
    options changed = values;
    for (const char* const* entry = assignments; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view assignment = *entry;
        const std::size_t equals = assignment.find('=');
        if (!assignment.starts_with(prefix) || equals == std::string_view::npos) {
            continue;
        }
        const absl::Status status =
            apply_variable(changed, assignment.substr(0, equals), assignment.substr(equals + 1));
        if (!status.ok()) {
            return status;
        }
    }
    values = changed;
    return absl::OkStatus();
}

std::vector<option_info> option_table(const options& values) {
    std::vector<option_info> table;
    for (const detail::option_field& option : detail::option_fields()) {
        table.push_back({std::string(option.name), detail::variable_of(option), detail::flag_of(option),
                         detail::text_of(values, option), detail::allowed_of(option), std::string(option.unit),
                         std::string(option.help), std::holds_alternative<detail::flag_field>(option.access)});
    }
    return table;
}

std::string to_text(const options& values) {
    std::string text;
    for (const option_info& option : option_table(values)) {
        absl::StrAppendFormat(&text, "%s = %s\n", option.name, option.value);
    }
    return text;
}

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
        "A variable that starts with `ORCHARD_` and names no option is an error. Ignored, because build systems and "
        "the launcher use them:\n";
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
    for (const option_info& o : option_table()) {
        absl::StrAppendFormat(&text, "| `%s` | `%s` | `%s` | %s | %s | %s | %s |\n", o.name, o.variable, o.flag,
                              o.value, o.allowed, o.unit, o.help);
    }
    return text;
}

}  // namespace orchard
