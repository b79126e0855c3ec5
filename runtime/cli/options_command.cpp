// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard options`: prints the table of options, with the values that a heap would have in this environment; with
/// --markdown, the text of docs/options.md, which has the defaults.

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "absl/strings/str_format.h"
#include "runtime/cli/built_in_commands.hpp"
#include "runtime/options/options.hpp"

namespace orchard::command_line {
namespace {

/// Returns the exit code: 2 if a variable of the environment is wrong. The documentation is printed in any environment.
int print(bool markdown) {
    if (markdown) {
        std::cout << options_markdown();
        return 0;
    }
    std::vector<std::string> foreign;
    const absl::StatusOr<options> values = options::from_environment(&foreign);
    warn(foreign);
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
    // Owned by both functions: the flag sets it when the command line is parsed, and `run` reads it afterwards.
    const auto markdown = std::make_shared<bool>(false);
    return {"options", "List the heap's options with the values that the environment gives them", "About",
            [markdown](CLI::App& app) { app.add_flag("--markdown", *markdown, "Print docs/options.md instead"); },
            [markdown] { return print(*markdown); }};
}

}  // namespace orchard::command_line
