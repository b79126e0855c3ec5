// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard info`: reports the machine's equipment, and the device that `auto` chooses. It never fails: a missing
/// driver or GPU is part of the report (`describe_machine`).

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "runtime/cli/built_in_commands.hpp"
#include "runtime/cli/machine_json.hpp"
#include "runtime/machine/machine_info.hpp"

namespace orchard::command_line {

subcommand info_command() {
    // Owned by both functions: the flag sets it when the command line is parsed, and `run` reads it afterwards.
    const auto json = std::make_shared<bool>(false);
    return {"info", "Show what was found: processor, memory, GPUs, driver, and which device would be used and why",
            "About", [json](CLI::App& app) { app.add_flag("--json", *json, "Print JSON"); },
            [json] {
                const machine_info machine = describe_machine();
                // The text ends with a line break, the JSON object does not.
                std::cout << (*json ? to_json(machine) + "\n" : to_text(machine));
                return 0;
            }};
}

}  // namespace orchard::command_line
