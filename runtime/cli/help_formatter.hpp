// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace orchard::command_line {

/// Prints help without CLI11's notes about types and validators: a number is N, a text VALUE, and the description says
/// the rest.
class help_formatter : public CLI::Formatter {
public:
    /// Returns the names of an option; a switch without the value that its `--no-` form stands for.
    [[nodiscard]] std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
        return absl::StrReplaceAll(CLI::Formatter::make_option_name(option, is_positional), {{"{false}", ""}});
    }
    /// Returns what follows the names: the value's kind and its default, as in " N=1024".
    [[nodiscard]] std::string make_option_opts(const CLI::Option* option) const override {
        if (!option->get_option_text().empty() || option->get_type_size() == 0) {
            return option->get_option_text().empty() ? "" : absl::StrCat(" ", option->get_option_text());
        }
        std::string kind = option->get_type_name();
        kind.resize(std::min(kind.size(), kind.find(':')));  // behind it CLI11 names the validators
        if (kind == "UINT" || kind == "INT" || kind == "FLOAT") {
            kind = "N";
        } else if (kind == "TEXT") {
            kind = option->get_positional() ? "" : "VALUE";
        }
        const std::string value = option->get_default_str();
        return absl::StrCat(kind.empty() ? "" : " ", kind, value.empty() ? "" : "=", value,
                            option->get_expected_max() == CLI::detail::expected_max_vector_size ? " ..." : "");
    }
};

}  // namespace orchard::command_line
