// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard options`: prints the table of options, with the values that a heap would have in this environment; with
/// --markdown, the text of docs/options.md, which has the defaults; with --json, the table as JSON.

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "absl/strings/str_format.h"
#include "runtime/cli/built_in_commands.hpp"
#include "runtime/cli/json_output.hpp"
#include "runtime/machine/machine_info.hpp"
#include "runtime/options/options.hpp"
#include "runtime/text/text_table.hpp"

namespace orchard::command_line {
namespace {

struct options_arguments {
    bool markdown = false;
    json_option json;
};

/// Returns the options as a JSON array, in the order of the table.
nlohmann::ordered_json rows_of(const options& values) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const option_info& o : option_table(values)) {
        rows.push_back({{"name", o.name},
                        {"variable", o.variable},
                        {"flag", o.flag},
                        {"value", o.value},
                        {"allowed", o.allowed},
                        {"help", o.help}});
    }
    return rows;
}

/// Returns the device that a heap with these options would have; kind "none" if it could not be created, with the
/// reason.
nlohmann::ordered_json device_of(const options& values) {
    const absl::StatusOr<device_choice> choice = choose_device(values.device);
    return choice.ok() ? device_json(*choice) : device_json("none", std::string(choice.status().message()));
}

/// Prints the table or the documentation, and writes the table as JSON if that is asked for. Errors: InvalidArgument if
/// a variable of the environment is wrong, but the documentation is printed in any; those of the file of `--json`.
absl::Status print(const options_arguments& a) {
    if (a.markdown) {
        std::cout << options_markdown();
        return absl::OkStatus();
    }
    absl::StatusOr<json_output> out = json_output::open(a.json);
    if (!out.ok()) {
        return out.status();
    }
    std::vector<std::string> foreign;
    const absl::StatusOr<options> values = options::from_environment(&foreign);
    warn(foreign);
    if (!values.ok()) {
        return values.status();
    }
    std::vector<std::vector<std::string>> lines;
    for (const option_info& o : option_table(*values)) {
        lines.push_back({o.flag, o.value, absl::StrFormat("%s (%s)", o.help, o.allowed)});
    }
    out->text() << detail::in_columns(lines, "l");
    return out->wanted() ? out->commit(device_of(*values), {{"options", rows_of(*values)}}) : absl::OkStatus();
}

}  // namespace

subcommand options_command() {
    // Owned by both functions: the flag sets it when the command line is parsed, and `run` reads it afterwards.
    const auto a = std::make_shared<options_arguments>();
    return {"options", "List the heap's options with the values that the environment gives them", "About",
            [a](CLI::App& app) {
                CLI::Option* const markdown = app.add_flag("--markdown", a->markdown, "Print docs/options.md instead");
                add_json(app, a->json, "Write the table");
                app.get_option("--json")->excludes(markdown);
            },
            [a] { return exit_code(print(*a)); }};
}

}  // namespace orchard::command_line
