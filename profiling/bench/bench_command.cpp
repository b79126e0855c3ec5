// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "profiling/bench/bench.hpp"
#include "runtime/cli/command_line.hpp"
#include "runtime/cli/options_cli.hpp"
#include "runtime/cli/output_file.hpp"
#include "runtime/machine/machine_info.hpp"

namespace orchard::bench {
namespace {

struct arguments {
    std::string name;
    std::string json;
    settings values;
};

std::string cell(const nlohmann::ordered_json& value) {
    if (value.is_number_float()) {
        return absl::StrFormat("%.4g", value.get<double>());
    }
    return value.is_string() ? value.get<std::string>() : value.dump();
}

void print_table(const nlohmann::ordered_json& rows) {
    for (const auto& row : rows) {
        std::string line;
        for (const auto& [key, value] : row.items()) {
            absl::StrAppend(&line, line.empty() ? "" : "  ", key, "=", cell(value));
        }
        std::cout << line << "\n";
    }
}

absl::Status run(const arguments& a) {
    for (const benchmark& b : all()) {
        if (b.name != a.name) {
            continue;
        }
        auto choice = choose_device(a.values.heap.device);
        if (!choice.ok()) {
            return choice.status();
        }
        auto json = command_line::open_if_named(a.json);
        if (!json.ok()) {
            return json.status();
        }
        settings s = a.values;
        s.device = choice->kind;
        if (s.heap.backing == backing_option::automatic) {
            s.heap.backing = backing_option::fixed;  // the way in which memory is committed is not measured here
        }
        auto rows = b.run(s);
        if (!rows.ok()) {
            return rows.status();
        }
        print_table(*rows);
        if (!b.shown.empty()) {
            std::cout << "times: " << b.shown << "\n";
        }
        return *json ? (*json)->commit(rows->dump(1) + "\n") : absl::OkStatus();
    }
    std::string known;
    for (const benchmark& b : all()) {
        absl::StrAppend(&known, known.empty() ? "" : ", ", b.name);
    }
    return absl::NotFoundError(absl::StrCat("there is no benchmark '", a.name, "'; choose one of: ", known));
}

command_line::subcommand bench_command() {
    const auto a = std::make_shared<arguments>();
    return {
        "bench", "Measure what requests cost, and what a heap holds", "Measurements",
        [a](CLI::App& app) {
            std::string help = "Which benchmark:";
            for (const benchmark& b : all()) {
                absl::StrAppend(&help, "\n", b.name, ": ", b.help);
            }
            app.add_option("benchmark", a->name, help)->required();
            app.add_option("--repeats", a->values.repeats, "Launches of which the median is taken")
                ->check(CLI::Range(1, 10000));
            app.add_flag("--quick", a->values.quick, "Small sizes: only to see that it works");
            app.add_option(
                "--operations", a->values.operations,
                "soak, storm: allocations in all; soak, 0: 10,000,000,000 on CUDA, 1,000,000 on the emulated device");
            app.add_option("--seconds", a->values.seconds, "storm: for how long; 0: ten minutes")
                ->check(CLI::Range(0, 86'400));
            app.add_option("--json", a->json, "Write the rows to this file");
            add_to(app, a->values.heap);
        },
        [a] { return command_line::exit_code(run(*a)); }};
}

const command_line::registrar bench_command_registered{bench_command()};

}  // namespace
}  // namespace orchard::bench
