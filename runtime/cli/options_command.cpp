// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard options`: prints the table of options.

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "absl/strings/str_format.h"
#include "runtime/cli/built_in_commands.hpp"
#include "runtime/options/options.hpp"

namespace orchard::command_line {
namespace {

int print(bool markdown) {
    if (markdown) {
        std::cout << options_markdown();
        return 0;
    }
    const absl::StatusOr<options> values = options::from_environment();
    if (!values.ok()) {
        return exit_code(values.status());
    }
    for (const option_info& o : option_table(*values)) {
        std::cout << absl::StrFormat("%-20s %-12s %s (%s)\n", o.flag, o.value, o.help, o.allowed);
    }
    return 0;
}

}  // namespace

subcommand options_command() {
    const auto markdown = std::make_shared<bool>(false);
    return {"options", "List the heap's options with the values that the environment gives them", "About",
            [markdown](CLI::App& app) { app.add_flag("--markdown", *markdown, "Print docs/options.md instead"); },
            [markdown] { return print(*markdown); }};
}

}  // namespace orchard::command_line
