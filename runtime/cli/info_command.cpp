// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard info`: reports the machine's equipment, and the device that `auto` chooses. It never fails: a missing
/// driver or GPU is part of the report (`describe_machine`).

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cli/built_in_commands.hpp"
#include "runtime/cli/json_output.hpp"
#include "runtime/cli/machine_json.hpp"
#include "runtime/machine/machine_info.hpp"
#include "runtime/nvtx/domain.hpp"
#include "runtime/options/options.hpp"

namespace orchard::command_line {
namespace {

/// Prints the report, and writes it as JSON if that is asked for. Errors: those of the file of `--json`.
absl::Status report(const json_option& json) {
    absl::StatusOr<json_output> out = json_output::open(json);
    if (!out.ok()) {
        return out.status();
    }
    std::vector<std::string> foreign;
    (void)options::from_environment(&foreign);  // the report does not depend on the options
    warn(foreign);
    const machine_info machine = describe_machine();
    out->text() << to_text(machine) << "Profilers       " << nvtx::description() << ", "
                << (nvtx::is_attached() ? "a tool listens" : "no tool listens") << '\n';
    return out->commit(automatic_device_json(machine), json_of(machine));
}

}  // namespace

subcommand info_command() {
    // Owned by both functions: the flag sets it when the command line is parsed, and `run` reads it afterwards.
    const auto json = std::make_shared<json_option>();
    return {"info", "Show what was found: processor, memory, GPUs, driver, and which device would be used and why",
            "About", [json](CLI::App& app) { add_json(app, *json, "Write the report"); },
            [json] { return exit_code(report(*json)); }};
}

}  // namespace orchard::command_line
