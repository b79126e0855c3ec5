// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard layouts`: runs the examples of arrays of lanes, which check their own results.

#include <CLI/CLI.hpp>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "examples/layout/examples.hpp"
#include "runtime/cli/command_line.hpp"
#include "runtime/cli/json_output.hpp"
#include "runtime/cli/options_cli.hpp"
#include "runtime/machine/machine_info.hpp"

namespace orchard::examples {
namespace {

/// An example: the name of its file and its function.
struct example {
    const char* name;
    absl::StatusOr<statistics> (*run)(const options&);
};
constexpr example examples[] = {{"per_thread_arrays", per_thread_arrays},
                                {"lane_stack", lane_stack},
                                {"hand_over", hand_over},
                                {"row_matrix", row_matrix}};

struct arguments {
    options values;
    command_line::json_option json;
};

/// Runs the examples in order, each with a heap of its own, and prints a line for each. Stops at the first that fails;
/// errors have its name.
absl::Status layouts(const arguments& a) {
    absl::StatusOr<command_line::json_output> out = command_line::json_output::open(a.json);
    const absl::StatusOr<device_choice> device = choose_device(a.values.device);
    if (!out.ok() || !device.ok()) {
        return out.ok() ? device.status() : out.status();
    }
    out->text() << absl::StrFormat("device   %s (%s)\n", name_of(device->kind), device->reason);
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const example& e : examples) {
        const absl::StatusOr<statistics> counted = e.run(a.values);
        if (!counted.ok()) {
            return absl::Status(counted.status().code(), absl::StrCat(e.name, ": ", counted.status().message()));
        }
        out->text() << absl::StrFormat("passed  %-18s %d arrays and blocks, %d warp chunks\n", e.name,
                                       counted->allocations, counted->chunk_allocations);
        rows.push_back({{"example", e.name}, {"statistics", command_line::json_of(*counted)}});
    }
    return out->commit(command_line::device_json(*device), {{"rows", rows}});
}

/// Returns the subcommand; its flags are --json and the options of the heaps.
command_line::subcommand layouts_command() {
    const auto a = std::make_shared<arguments>();
    return {"layouts", "Run the examples of arrays of lanes: tables, stacks, pointers that are handed over, a matrix",
            "Examples",
            [a](CLI::App& app) {
                command_line::add_json(app, a->json, "Write each example's statistics");
                add_to(app, a->values);
            },
            [a] { return command_line::exit_code(layouts(*a)); }};
}

const command_line::registrar layouts_command_registered{layouts_command};

}  // namespace
}  // namespace orchard::examples
