// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard info`: reports what this machine has, and which device `auto` chooses.

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "runtime/cli/built_in_commands.hpp"
#include "runtime/machine/machine_info.hpp"

namespace orchard::command_line {

subcommand info_command() {
    const auto json = std::make_shared<bool>(false);
    return {"info", "Show what was found: processor, memory, GPUs, driver, and which device would be used and why",
            "About", [json](CLI::App& app) { app.add_flag("--json", *json, "Print JSON"); },
            [json] {
                const machine_info machine = describe_machine();
                std::cout << (*json ? to_json(machine) + "\n" : to_text(machine));
                return 0;
            }};
}

}  // namespace orchard::command_line
