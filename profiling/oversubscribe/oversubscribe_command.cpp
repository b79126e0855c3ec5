// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard oversubscribe`: reads the arguments and the rows of an earlier call, runs what is missing, prints a line
/// and writes the rows after each run.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "profiling/oversubscribe/runs.hpp"
#include "profiling/uvm/study.hpp"
#include "runtime/cli/command_line.hpp"
#include "runtime/cli/json_output.hpp"
#include "runtime/cli/kept_rows.hpp"
#include "runtime/cli/options_cli.hpp"
#include "runtime/machine/machine_info.hpp"
#include "runtime/options/byte_size.hpp"

namespace orchard::oversubscribe {
namespace {

struct arguments {
    plan what;
    std::vector<std::string> patterns;
    std::vector<std::string> layouts;
    std::vector<std::string> ways;
    std::string part = "8GiB";
    std::string resume;
    std::vector<std::string> applications;
    command_line::json_option json;
};

/// Returns the places of the named words in a list; all, if none is named. Errors: InvalidArgument with the known
/// words.
template <class T, std::size_t N>
absl::StatusOr<std::vector<T>> choose(const std::vector<std::string>& words, const std::string_view (&known)[N],
                                      const char* flag) {
    std::vector<T> chosen;
    for (std::uint32_t i = 0; words.empty() && i < N; ++i) {
        chosen.push_back(static_cast<T>(i));
    }
    for (const std::string& word : words) {
        const auto found = std::find(std::begin(known), std::end(known), word);
        if (found == std::end(known)) {
            return absl::InvalidArgumentError(
                absl::StrCat(flag, ": \"", word, "\" is none of ",
                             absl::StrJoin(known, ", ", [](std::string* to, std::string_view w) { to->append(w); })));
        }
        chosen.push_back(static_cast<T>(found - std::begin(known)));
    }
    return chosen;
}

absl::Status complete(arguments& a) {
    const auto patterns = choose<pattern>(a.patterns, pattern_names, "--patterns");
    const auto ways = choose<way>(a.ways, way_names, "--ways");
    const auto part = parse_bytes(a.part);
    absl::Status status = patterns.status();
    status.Update(ways.status());
    status.Update(part.status());
    if (!status.ok()) {
        return status;
    }
    if (!a.patterns.empty() || a.applications.empty()) {
        a.what.patterns = *patterns;
    }
    for (const std::string& name : a.applications) {
        auto named = apps::apps_named(name);
        if (!named.ok()) {
            return absl::Status(named.status().code(), absl::StrCat("--apps: ", named.status().message()));
        }
        a.what.applications.insert(a.what.applications.end(), named->begin(), named->end());
    }
    a.what.ways = *ways;
    a.what.part = *part;
    a.what.layouts.clear();
    for (const std::string& text : a.layouts.empty() ? std::vector<std::string>{"linear"} : a.layouts) {
        const auto how = uvm_study::parse_arrangement(text);
        if (!how.ok()) {
            return absl::Status(how.status().code(), absl::StrCat("--layouts: ", how.status().message()));
        }
        a.what.layouts.push_back(how->how);
    }
    if (a.what.heap.capacity == 0) {
        return absl::InvalidArgumentError(
            "--capacity: the device's budget must be given, since data is measured in it: 8GiB, say");
    }
    a.what.measures_managed = a.what.heap.allow_oversubscription;
    return absl::OkStatus();
}

/// Returns true if one of the rows has these axes.
bool has(const row& rows, const row& axes) {
    return std::any_of(rows.begin(), rows.end(), [&](const row& r) {
        return std::all_of(std::begin(row_axes), std::end(row_axes), [&](std::string_view key) {
            return r.value(std::string(key), row()) == axes.value(std::string(key), row());
        });
    });
}

std::string number(const row& r, const char* key) {
    const auto found = r.find(key);
    return found == r.end() || found->is_null() ? "-" : absl::StrFormat("%.3g", found->get<double>());
}

/// Prints a row as one line under the columns of `header`.
constexpr std::string_view header =
    "pattern      layout           data  way      by           first   third   tenth settled ms  moves ms  moved GiB  "
    "GB/s  on device  wrong\n";
std::string line_of(const row& r) {
    const double moved = static_cast<double>(r.value("moved_to_device_bytes", std::uint64_t{0}) +
                                             r.value("moved_to_host_bytes", std::uint64_t{0})) /
                         static_cast<double>(gib);
    return absl::StrFormat("%-12s %-15s %5.3g  %-8s %-9s %8s %7s %7s %10s %9s %10.3g %5s %10s %6s\n",
                           r.value("pattern", ""), r.value("layout", ""), r.value("data", 0.0), r.value("way", ""),
                           r.value("by", ""), number(r, "kernel_first_ms"), number(r, "kernel_third_ms"),
                           number(r, "kernel_tenth_ms"), number(r, "kernel_settled_ms"), number(r, "moves_ms"), moved,
                           number(r, "move_gb_s"), number(r, "resident_share"), number(r, "wrong"));
}

absl::Status run_command(arguments& a) {
    if (absl::Status s = complete(a); !s.ok()) {
        return s;
    }
    auto choice = choose_device(a.what.heap.device);
    if (!choice.ok()) {
        return choice.status();
    }
    a.what.device = choice->kind;
    auto rows = command_line::kept_rows(a.resume, *choice);
    auto out = command_line::json_output::open(a.json);
    absl::Status status = out.status();
    status.Update(rows.status());
    if (!status.ok()) {
        return status;
    }
    if (a.what.measures_managed) {
        std::cerr
            << "warning: --allow-oversubscription lets the UVM driver run out of GPU memory. Other programs on this "
               "GPU can become slow or fail, and it has happened that a GPU hung until it was reset. Kernels end "
               "after "
            << a.what.kernel_seconds << " s, and the program where a run takes longer than "
            << absl::FormatDuration(a.what.managed_patience) << "\n";
        a.what.stuck = [] {
            std::cerr << "orchard oversubscribe: a run over managed memory does not end; the program ends, so that the "
                         "driver ends its kernel. The rows before it are in the file of --json, and --resume goes on "
                         "with them\n";
            std::_Exit(1);
        };
    }
    out->text() << header;
    status = run(
        a.what, [&](const row& axes) { return has(*rows, axes); },
        [&](const row& r) {
            out->text() << line_of(r) << std::flush;
            rows->push_back(r);
            return command_line::keep_rows(a.json, *choice, {{"rows", *rows}});
        });
    if (a.what.device == simt::device_kind::emulated) {
        out->text() << "device: emulated; these are times of this processor, and say nothing of a GPU\n";
    }
    // Also where a run has an error: the rows before it are results.
    absl::Status written;
    if (status.ok() || !rows->empty()) {
        written = out->commit(command_line::device_json(*choice), {{"rows", *rows}});
    }
    return status.ok() ? written : status;
}

void declare(CLI::App& app, arguments& a) {
    app.add_option("--data", a.what.data, "Sizes of the data, in device budgets (--capacity)")
        ->delimiter(',')
        ->type_name("LIST")
        ->check(CLI::Range(0.01, 64.0).description(""));
    app.add_option("--patterns", a.patterns,
                   "How it is read; a list with commas, all unless given (working-set, random, same-index, sequential, "
                   "strided or graph-walk)")
        ->delimiter(',')
        ->type_name("LIST");
    app.add_option(
           "--apps", a.applications,
           "Applications of `orchard apps` beside the patterns; a list, or all; with it, patterns are run only if "
           "they are named")
        ->delimiter(',')
        ->type_name("LIST");
    app.add_option("--layouts", a.layouts, "linear, or interleaved:TILE such as interleaved:64KiB; a list")
        ->delimiter(',')
        ->type_name("LIST");
    app.add_option(
           "--ways", a.ways,
           "How it is reached; a list, all unless given:\ndevice: all of it on the GPU, for comparison\nstay: what "
           "exceeds "
           "the budget stays on the host\nmove: the same, moved by heap::migrate between passes\nmanaged: by the "
           "UVM driver; the model's figures, unless --allow-oversubscription is given")
        ->delimiter(',')
        ->type_name("LIST");
    app.add_option("--threads", a.what.threads, "Threads, each with an array (32 to 1,048,576)")
        ->capture_default_str()
        ->type_name("N")
        ->check(CLI::Range(32, 1 << 20).description(""));
    app.add_option("--passes", a.what.passes, "Passes over the data (1 to 1,000)")
        ->capture_default_str()
        ->type_name("N")
        ->check(CLI::Range(1, 1000).description(""));
    app.add_option("--accesses", a.what.accesses, "Accesses of a thread in a pass; of sequential: as --part says")
        ->capture_default_str();
    app.add_option("--part", a.part, "Most bytes that a pass of sequential reads")->capture_default_str();
    app.add_option("--limit", a.what.kernel_seconds,
                   "Seconds after which a kernel ends, whatever it has done (0.001 to 60)")
        ->capture_default_str()
        ->type_name("SECONDS")
        ->check(CLI::Range(0.001, 60.0).description(""));
    app.add_option("--resume", a.resume, "Keep the rows of this file, and run only what it has no row of")
        ->type_name("FILE");
    command_line::add_json(app, a.json, "Write the rows, after each run,");
    // No memory is given back between two rows: creating the host tier takes seconds.
    a.what.heap.decay = absl::ZeroDuration();
    add_to(app, a.what.heap);
}

command_line::subcommand oversubscribe_command() {
    const auto a = std::make_shared<arguments>();
    return {"oversubscribe", "Read more data than the device's budget, with and without moving it", "Measurements",
            [a](CLI::App& app) { declare(app, *a); }, [a] { return command_line::exit_code(run_command(*a)); }};
}

const command_line::registrar oversubscribe_registered{oversubscribe_command};

}  // namespace
}  // namespace orchard::oversubscribe
