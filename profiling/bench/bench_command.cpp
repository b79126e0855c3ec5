// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The subcommand `bench`: reads the arguments, chooses the device, runs one benchmark, prints its rows as lines
/// `key=value` and writes them as JSON.

#include <CLI/CLI.hpp>
#include <memory>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "profiling/bench/bench.hpp"
#include "runtime/cli/command_line.hpp"
#include "runtime/cli/json_output.hpp"
#include "runtime/cli/options_cli.hpp"
#include "runtime/machine/machine_info.hpp"

namespace orchard::bench {
namespace {

/// The arguments of one call.
struct arguments {
    std::string name;  ///< the benchmark
    std::string allocator = "orchard";
    command_line::json_option json;
    settings values;
};

/// Returns a value as printed: four significant digits for times and ratios; counts in full; text without quotes.
std::string cell(const nlohmann::ordered_json& value) {
    if (value.is_number_float()) {
        return absl::StrFormat("%.4g", value.get<double>());
    }
    return value.is_string() ? value.get<std::string>() : value.dump();
}

/// Prints each row on a line of its own. Rows of one benchmark may have different keys, so that a table with fixed
/// columns would be mostly empty.
void print_table(std::ostream& to, const nlohmann::ordered_json& rows) {
    for (const auto& row : rows) {
        std::string line;
        for (const auto& [key, value] : row.items()) {
            // Two blanks between values, since text may contain one.
            absl::StrAppend(&line, line.empty() ? "" : "  ", key, "=", cell(value));
        }
        to << line << "\n";
    }
}

/// Runs the benchmark `a.name`. Errors: NotFound for an unknown name, with all known ones; those of the device's
/// choice, of the output file and of the benchmark.
absl::Status run(const arguments& a) {
    for (const benchmark& b : all()) {
        if (b.name != a.name) {
            continue;
        }
        if (a.allocator != "orchard") {
            return absl::InvalidArgumentError(
                absl::StrCat("--allocator: this program measures heaps of Orchard alone, and not '", a.allocator,
                             "'; in a checkout, `./orchard bench pages --allocator NAME` measures the published ones, "
                             "and `./orchard "
                             "arena` all of them (docs/arena.md)"));
        }
        auto choice = choose_device(a.values.heap.device);
        if (!choice.ok()) {
            return choice.status();
        }
        // The file is opened before the measurement, so that a wrong path fails at once and not after minutes.
        auto out = command_line::json_output::open(a.json);
        if (!out.ok()) {
            return out.status();
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
        print_table(out->text(), *rows);
        if (!b.shown.empty()) {
            out->text() << "times: " << b.shown << "\n";
        }
        if (s.device == simt::device_kind::emulated) {
            out->text() << "device: emulated; these are times of this processor, and say nothing of a GPU\n";
        }
        // The document is written only here: a benchmark that fails leaves none.
        nlohmann::ordered_json members{{"benchmark", b.name}};
        if (!b.shown.empty()) {
            members["shown"] = b.shown;
        }
        members["rows"] = *std::move(rows);
        return out->commit(command_line::device_json(*choice), members);
    }
    // No benchmark has that name: the error lists all of them.
    std::string known;
    for (const benchmark& b : all()) {
        absl::StrAppend(&known, known.empty() ? "" : ", ", b.name);
    }
    return absl::NotFoundError(absl::StrCat("there is no benchmark '", a.name, "'; choose one of: ", known));
}

/// Returns the subcommand. Its two functions share the arguments: the first one binds them to the flags, the second one
/// runs with what the parser stored there.
command_line::subcommand bench_command() {
    const auto a = std::make_shared<arguments>();
    return {
        "bench", "Measure what requests cost, and what a heap holds", "Measurements",
        [a](CLI::App& app) {
            // The help lists the benchmarks by name, because registration is the only list of them.
            std::string help = "Which benchmark:";
            for (const benchmark& b : all()) {
                absl::StrAppend(&help, "\n", b.name, ": ", b.help);
            }
            app.add_option("benchmark", a->name, help)->required();
            // The ranges are in the help texts: what CLI11 would print is its own notation.
            app.add_option("--repeats", a->values.repeats, "Launches of which the median is taken (1 to 10,000)")
                ->type_name("N")
                ->check(CLI::Range(1, 10'000).description(""));
            app.add_flag("--quick", a->values.quick, "Small sizes: only to see that it works");
            // Only these benchmarks read the number of operations.
            app.add_option(
                "--operations", a->values.operations,
                "soak, storm: allocations in all; soak, 0: 10,000,000,000 on CUDA, 1,000,000 on the emulated device; "
                "graph: logarithm of the vertices, up to 27; 0: 22 on CUDA, 9 on the emulated device");
            app.add_flag(
                "--large", a->values.large,
                "soak: blocks of 512 KiB to 4 MiB alone; with --cached-segments 0 the host grants each of them");
            app.add_option(
                   "--seconds", a->values.seconds,
                   "storm: for how long at most (1 to 86,400); 10 unless given, 600 with --operations or --quick")
                ->type_name("N")
                ->check(CLI::Range(1, 86'400).description(""));
            app.add_option("--allocator", a->allocator,
                           "pages: others than orchard are in the program of docs/arena.md, beside orchard")
                ->type_name("NAME")
                ->capture_default_str();
            app.add_option("--from", a->values.from, "replay: a complete trace")->type_name("FILE");
            command_line::add_json(app, a->json, "Write the rows");
            add_to(app, a->values.heap);
        },
        [a] { return command_line::exit_code(run(*a)); }};
}

const command_line::registrar bench_command_registered{bench_command};

}  // namespace
}  // namespace orchard::bench
