// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard apps`: the eight applications on real memory. Reads the arguments and the rows of an earlier call, runs
/// what is missing, prints a table, and writes the rows as JSON after each run.

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "profiling/apps/matrix.hpp"
#include "runtime/cli/command_line.hpp"
#include "runtime/cli/json_output.hpp"
#include "runtime/cli/kept_rows.hpp"
#include "runtime/cli/options_cli.hpp"
#include "runtime/cli/output_file.hpp"
#include "runtime/machine/machine_info.hpp"
#include "runtime/options/byte_size.hpp"
#include "uvm/geometry/layout_text.hpp"

namespace orchard::apps {
namespace {

using nlohmann::ordered_json;

/// The arguments of one call. Lists are parsed after all arguments were read, so that an error can name its flag.
struct arguments {
    std::string name;
    std::vector<std::string> bytes;
    std::vector<std::string> backings;
    std::vector<std::string> layouts;
    matrix all;
    std::string resume;
    std::string trace;
    command_line::json_option json;
};

/// Parses each text of a list. Errors: that of the first text that is no value, with the flag.
template <class T, class Parse>
absl::Status parse_each(const std::vector<std::string>& texts, const char* flag, Parse parse, std::vector<T>& into) {
    into.clear();
    for (const std::string& text : texts) {
        auto value = parse(text);
        if (!value.ok()) {
            return absl::Status(value.status().code(), absl::StrCat(flag, ": ", value.status().message()));
        }
        into.push_back(*std::move(value));
    }
    return absl::OkStatus();
}

absl::StatusOr<backing_option> parse_backing(const std::string& text) {
    options values;
    const absl::Status status = set(values, "backing", text);
    return status.ok() ? absl::StatusOr<backing_option>(values.backing) : status;
}

absl::StatusOr<layout> parse_layout(const std::string& text) {
    const std::optional<layout> found = layout_from(text);
    if (!found || found->which == layout::choice::automatic) {
        return absl::InvalidArgumentError(absl::StrCat(
            "\"", text, "\" is no layout; give linear, or interleaved: and a tile of 4 to 512, 1K to 64K"));
    }
    return *found;
}

/// Completes `a.all` from the texts. Errors: the first one.
absl::Status complete(arguments& a) {
    absl::StatusOr<std::vector<app>> what = apps_named(a.name);
    absl::Status status = what.status();
    status.Update(parse_each(
        a.bytes, "--bytes", [](const std::string& t) { return parse_bytes(t); }, a.all.bytes));
    status.Update(parse_each(a.layouts, "--layout", parse_layout, a.all.layouts));
    status.Update(parse_each(a.backings, "--backing", parse_backing, a.all.backings));
    if (status.ok()) {
        a.all.what = *std::move(what);
    }
    if (a.all.backings.empty()) {
        a.all.backings.push_back(a.all.heap.backing);  // of the environment
    }
    if (a.all.each.moves && a.all.heap.move_unit == 0) {
        a.all.heap.move_unit = segment_bytes;
    }
    if (a.trace.empty()) {
        a.all.each.trace_every = 0;
    } else if (status.ok() &&
               a.all.what.size() * a.all.bytes.size() * a.all.layouts.size() * a.all.backings.size() != 1) {
        return absl::InvalidArgumentError("--trace: give one application, size, layout and backing");
    }
    return status;
}

/// Returns the members of the document that are this command's own.
ordered_json members_of(const ordered_json& rows) {
    ordered_json checks = ordered_json::object();
    for (const app& a : apps()) {
        checks[std::string(a.name)] = {{"task", a.task}, {"part", a.part}, {"check", a.check}};
    }
    return {{"applications", checks}, {"rows", rows}};
}

/// Prints a row as a line of a table.
void print_row(std::ostream& to, const ordered_json& row) {
    const auto number = [&](const char* of, int digits, double factor) {
        return row[of].is_null() ? std::string("-") : absl::StrFormat("%.*f", digits, row[of].get<double>() * factor);
    };
    const auto ms = [&](const char* of) { return number(of, 2, 1e-3); };
    const std::string moved =
        row["moved_bytes"].is_null() ? "-" : format_bytes(row["moved_bytes"].get<std::uint64_t>());
    to << absl::StrFormat(
        "%-11s %-8s %-8s %-15s %9s %6.3f %9s %9s %9s %9s %9s %9s %8s %5s %8s %5d %8d %5d\n",
        row["application"].get<std::string>(), row["backing"].get<std::string>(), row["by"].get<std::string>(),
        row["layout"].get<std::string>(), format_bytes(row["bytes"].get<std::uint64_t>()), row["part"].get<double>(),
        ms("first_us"), ms("third_us"), ms("tenth_us"), ms("median_us"), ms("allocate_us"), ms("fill_us"),
        number("gb_per_s", 1, 1), number("resident_share", 2, 1), moved, row["nulls"].get<std::uint64_t>(),
        row["checked"].get<std::uint64_t>(), row["wrong"].get<std::uint64_t>());
    if (row.contains("error")) {
        to << "  error: " << row["error"].get<std::string>() << "\n";
    }
}
void print_header(std::ostream& to) {
    to << absl::StrFormat("%-11s %-8s %-8s %-15s %9s %6s %9s %9s %9s %9s %9s %9s %8s %5s %8s %5s %8s %5s\n",
                          "application", "backing", "by", "layout", "bytes", "part", "first ms", "third", "tenth",
                          "median", "allocate", "fill", "GB/s", "on", "moved", "nulls", "checked", "wrong");
}

absl::Status run(arguments& a) {
    if (absl::Status status = complete(a); !status.ok()) {
        return status;
    }
    const auto device = choose_device(a.all.heap.device);
    if (!device.ok()) {
        return device.status();
    }
    auto rows = command_line::kept_rows(a.resume, *device, "applications");
    if (!rows.ok()) {
        return rows.status();
    }
    auto out = command_line::json_output::open(a.json);
    if (!out.ok()) {
        return out.status();
    }
    auto trace = command_line::open_if_named(a.trace, command_line::readable_by::owner);
    if (!trace.ok()) {
        return trace.status();
    }
    if (trace->has_value()) {
        a.all.done = [&](const outcome& found) { return (*trace)->commit(found.recorded.trace); };
    }
    print_header(out->text());
    const absl::Status status = run_matrix(a.all, *rows, [&](const ordered_json& all) {
        print_row(out->text(), all.back());
        out->text().flush();
        return command_line::keep_rows(a.json, *device, members_of(all));
    });
    if (device->kind == simt::device_kind::emulated) {
        out->text() << "device: emulated; these are times of this processor, and say nothing of a GPU\n";
    }
    // Also where a run has an error: its row says which.
    absl::Status written;
    if (status.ok() || !rows->empty()) {
        written = out->commit(command_line::device_json(*device), members_of(*rows));
    }
    return status.ok() ? written : status;
}

/// Returns the help of the name: each application with its task and its check.
std::string help_of_names() {
    std::string help = "Which application:\nall: all of them";
    for (const app& a : apps()) {
        help += absl::StrFormat("\n%s: %s; checked: %s", a.name, a.task, a.check);
    }
    return help;
}

void declare(CLI::App& app, arguments& a) {
    a = arguments{};
    a.bytes = {"1GiB"};
    a.layouts = {"linear"};
    job& j = a.all.each;
    j.trace_every = 16;
    app.add_option("application", a.name, help_of_names())->required();
    // What runs twice with the same memory keeps it: no memory is given back between two runs.
    a.all.heap.decay = absl::ZeroDuration();
    // Before those of the heap, which has another --trace: the variable ORCHARD_TRACE alone sets it here.
    app.add_option("--trace", a.trace,
                   "Record the 64 KiB pages that warps access in the first pass, for orchard uvm --trace; of one run")
        ->type_name("FILE");
    add_to(app, a.all.heap);
    // These two are lists here.
    app.remove_option(app.get_option("--backing"));
    app.remove_option(app.get_option("--layout"));
    app.add_option("--bytes", a.bytes, "Bytes of all arrays together, or a list: 1GiB,8GiB")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->type_name("BYTES")
        ->default_str("1GiB");
    app.add_option(
           "--backing", a.backings,
           "Backings of the heaps, or a list: elastic, fixed, managed (docs/backings.md); by default the heap's "
           "choice")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->type_name("BACKING");
    app.add_option("--layout", a.layouts, "Layout of the arrays, or a list: linear,interleaved:64K")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->type_name("LAYOUT")
        ->default_str("linear");
    app.add_option("--threads", j.threads, "Threads, each with an equal part of each array (1 to 1,048,576)")
        ->capture_default_str()
        ->type_name("N")
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 20).description(""));
    app.add_option("--passes", j.passes, "Passes of each application over its work (1 to 10,000)")
        ->capture_default_str()
        ->type_name("N")
        ->check(CLI::Range(1, 10'000).description(""));
    app.add_flag("--move", j.moves,
                 "Move memory between the device and the host between two passes, by use; of elastic heaps with a "
                 "--host-budget, in pieces of --move-unit (2 MiB unless it is given)");
    app.add_option("--part", j.part, "Most of its work that a pass does, above 0, up to 1")
        ->capture_default_str()
        ->type_name("SHARE")
        ->check(CLI::Range(1e-6, 1.0).description(""));
    app.add_option("--limit", j.limit_s, "Most kernel time of a pass, about: the first one ends there (0.001 to 60)")
        ->capture_default_str()
        ->type_name("SECONDS")
        ->check(CLI::Range(0.001, 60.0).description(""));
    app.add_option("--samples", j.samples, "Results that are checked, at random; all if there are fewer")
        ->capture_default_str()
        ->type_name("N")
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 30).description(""));
    app.add_option("--seed", j.seed, "Seed of numbers and graphs")->capture_default_str()->type_name("N");
    app.add_option("--resume", a.resume, "Keep the rows of this file, and run only what it has no row of")
        ->type_name("FILE");
    app.add_option("--trace-every", j.trace_every, "Each so many-th warp is recorded (1 to 32,768)")
        ->capture_default_str()
        ->type_name("N")
        ->check(CLI::Range(1, 32'768).description(""));
    command_line::add_json(app, a.json, "Write the rows, after each run,");
}

command_line::subcommand apps_command() {
    const auto a = std::make_shared<arguments>();
    return {"apps", "Run eight applications on large arrays of a heap, and check their results", "Measurements",
            [a](CLI::App& app) { declare(app, *a); }, [a] { return command_line::exit_code(run(*a)); }};
}

const command_line::registrar apps_command_registered{apps_command};

}  // namespace
}  // namespace orchard::apps
