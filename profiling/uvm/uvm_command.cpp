// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard uvm`: predicts the UVM driver's work for a kernel's accesses by the model, on any machine. Two modes: a
/// study of what is named on the command line, or with --recommend a grid of its own.

#include <CLI/CLI.hpp>
#include <checkout.hpp>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "profiling/uvm/applications/application.hpp"
#include "profiling/uvm/recommend.hpp"
#include "profiling/uvm/study.hpp"
#include "profiling/uvm/study_report.hpp"
#include "runtime/cli/command_line.hpp"
#include "runtime/cli/json_output.hpp"
#include "runtime/cli/progress.hpp"
#include "runtime/cli/run_program.hpp"
#include "runtime/options/byte_size.hpp"
#include "uvm/model/paging_policy.hpp"
#include "uvm/model/patterns.hpp"

namespace orchard::uvm_study {
namespace {

/// The arguments as they were typed. Text is parsed after all arguments were read, so that an error can name its flag.
struct arguments {
    study what;  ///< numbers and names that need no parsing; the rest is set by `complete`
    // Lists keep their defaults in `what` if nothing is named.
    std::vector<std::string> layouts;
    std::vector<std::string> placements;
    std::string tails = "adjacent";
    std::vector<std::string> capacities;
    std::vector<std::string> policies;
    std::string bytes_per_thread = "256KiB";
    std::string stride = "64KiB";
    std::string machine = "h200";
    std::string contents = "cpu";
    std::string advice = "none";
    command_line::json_option json;
    std::string plot;  ///< folder of the pictures; empty: none
    bool best = false;
    bool recommends = false;
    bool header = false;
    std::vector<const CLI::Option*> of_study;  ///< options that have no meaning with `--recommend`
    bool quiet = false;
};

/// Returns an error with the flag in front of its text.
absl::Status named(const absl::Status& s, const char* flag) {
    return s.ok() ? s : absl::Status(s.code(), absl::StrCat(flag, ": ", s.message()));
}

/// Parses each text of a list; `into` keeps its default if the list is empty. Errors: that of the first text that is no
/// value.
template <class T, class Parse>
absl::Status parse_each(const std::vector<std::string>& texts, const char* flag, Parse parse, std::vector<T>& into) {
    if (texts.empty()) {
        return absl::OkStatus();
    }
    into.clear();
    // An error ends the list: the message names the flag, and quotes the text.
    for (const std::string& text : texts) {
        auto value = parse(text);
        if (!value.ok()) {
            return named(value.status(), flag);
        }
        into.push_back(*std::move(value));
    }
    return absl::OkStatus();
}

/// Returns one of a few values, by its name. @param what  end of the error message: "no placement; give packed or
/// padded"
template <class T>
absl::StatusOr<T> parse_choice(std::string_view text, const std::map<std::string_view, T>& all, const char* what) {
    if (const auto found = all.find(text); found != all.end()) {
        return found->second;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("\"", absl::CEscape(absl::string_view(text.data(), text.size())), "\" is ", what));
}
/// The choices of the options of that name.
absl::StatusOr<portion_policy> parse_placement(std::string_view text) {
    return parse_choice<portion_policy>(text, {{"packed", portion_policy::packed}, {"padded", portion_policy::padded}},
                                        "no placement; give packed or padded");
}
absl::StatusOr<tail_policy> parse_tails(std::string_view text) {
    return parse_choice<tail_policy>(text, {{"adjacent", tail_policy::adjacent}, {"pooled", tail_policy::pooled}},
                                     "no policy for tails; give adjacent or pooled");
}
absl::StatusOr<before> parse_contents(std::string_view text) {
    return parse_choice<before>(text, {{"cpu", before::cpu}, {"nowhere", before::nowhere}},
                                "no place of contents; give cpu or nowhere");
}
absl::StatusOr<told> parse_advice(std::string_view text) {
    return parse_choice<told>(text,
                              {{"none", told::nothing},
                               {"prefer_gpu", told::prefer_gpu},
                               {"prefer_cpu", told::prefer_cpu},
                               {"read_mostly", told::read_mostly}},
                              "no advice; give none, prefer_gpu, prefer_cpu or read_mostly");
}

/// Checks that flags are given together with those that they belong to. --recommend runs all patterns and sizes, so
/// that flags that choose some of them would be ignored; they are rejected instead.
absl::Status check_flags(const arguments& a) {
    if (a.header && !a.recommends) {
        return absl::InvalidArgumentError("--header: it is for what --recommend says; give both");
    }
    // Flags are compared by whether they were given, not by their values, which may be defaults.
    for (const CLI::Option* other : a.of_study) {
        if (a.recommends && other->count() != 0) {
            return absl::InvalidArgumentError(
                absl::StrCat(other->get_name(), ": --recommend runs a grid of its own; leave one of them out"));
        }
    }
    return absl::OkStatus();
}

/// Parses all text into `a.what`. Errors: the first one, with its flag.
absl::Status complete(arguments& a) {
    absl::Status status = check_flags(a);
    status.Update(parse_each(a.layouts, "--layout", parse_arrangement, a.what.layouts));
    status.Update(parse_each(a.placements, "--placement", parse_placement, a.what.placements));
    status.Update(parse_each(a.capacities, "--capacity", parse_capacity, a.what.capacities));
    status.Update(parse_each(a.policies, "--policy", uvm_model::paging_policy_named, a.what.policies));
    const auto bytes = parse_bytes(a.bytes_per_thread);
    const auto stride = parse_bytes(a.stride);
    const auto machine = uvm_model::parse_calibration(a.machine);
    status.Update(named(bytes.status(), "--bytes-per-thread"));
    status.Update(named(stride.status(), "--stride"));
    status.Update(named(machine.status(), "--machine"));
    const auto tails = parse_tails(a.tails);
    const auto contents = parse_contents(a.contents);
    const auto advice = parse_advice(a.advice);
    status.Update(named(tails.status(), "--tails"));
    status.Update(named(contents.status(), "--contents"));
    status.Update(named(advice.status(), "--advice"));
    if (status.ok()) {
        a.what.bytes_per_thread = *bytes;
        a.what.stride = *stride;
        a.what.machine = *machine;
        a.what.tails = *tails;
        a.what.contents = *contents;
        a.what.advice = *advice;
    }
    return status;
}

/// Returns the file of the numbers in the folder of `--plot`.
std::string plotted(const std::string& folder) { return folder + "/uvm.json"; }

/// Opens that file, if a folder is named, and makes the folder.
absl::StatusOr<command_line::json_output> open_plotted(const std::string& folder) {
    if (folder.empty()) {
        return command_line::json_output::open({});
    }
    // The folder is made if it is missing; several levels at once.
    std::error_code failed;  // the file's error names the path
    std::filesystem::create_directories(folder, failed);
    return command_line::json_output::open({true, plotted(folder)});
}

/// Writes a document of this command.
absl::Status write(command_line::json_output& to, const nlohmann::ordered_json& members) {
    return to.commit(command_line::device_json("none", "a model predicts the driver's work; no kernel runs"), members);
}

/// Draws the numbers by profiling/report/plot_uvm.py, which needs Python and matplotlib. Errors: FailedPrecondition if
/// the pictures cannot be drawn: the numbers are kept, and the text says how to draw them.
/// @param to  the stream for the script's output, the names of the pictures
absl::Status plot(const std::string& folder, command_line::child_output to) {
    const std::string data = plotted(folder);
    // -B: Python leaves no compiled files beside the script.
    const std::vector<std::string> draw{"python3", "-B",           ORCHARD_SOURCE_DIR "/profiling/report/plot_uvm.py",
                                        data,      "--output-dir", folder};
    const absl::Status drawn = command_line::run_program(draw, to);
    return drawn.ok() ? drawn
                      : absl::FailedPreconditionError(absl::StrCat(drawn.message(),
                                                                   ": the pictures were not drawn; the numbers are in ",
                                                                   data, "; try: ", command_line::as_shell_line(draw)));
}

/// Returns what shows the progress of a run on `line`.
progress shown_on(command_line::progress& line) {
    return [&line](std::size_t done, std::size_t all) { line.show(absl::StrFormat("%d of %d", done, all)); };
}

/// Run the grid or the study; the progress has ended when they return.
absl::StatusOr<std::vector<verdict>> run_grid(const arguments& a, const grid& g) {
    command_line::progress line(!a.quiet);
    return recommend(g, shown_on(line));
}
absl::StatusOr<std::vector<outcome>> run_study(const arguments& a) {
    command_line::progress line(!a.quiet);
    return run(a.what, shown_on(line));
}

/// Runs the grid, prints the table or the header, and writes JSON if asked for.
absl::Status run_recommend(const arguments& a) {
    // The grid has its own patterns, sizes and layouts; only what concerns the machine is taken over.
    grid g;
    g.seed = a.what.seed;
    g.contents = a.what.contents;
    g.advice = a.what.advice;
    g.machine = a.what.machine;
    // Files are opened before the work, so that a wrong path fails at once.
    auto out = command_line::json_output::open(a.json);
    if (!out.ok()) {
        return out.status();
    }
    const auto verdicts = run_grid(a, g);
    if (!verdicts.ok()) {
        return verdicts.status();
    }
    if (!a.quiet) {
        out->text() << (a.header ? to_header(*verdicts, a.machine) : to_table(*verdicts));
    }
    return write(*out, json_of(g, *verdicts));
}

/// Runs the command of either mode. Errors: those of arguments, files and the study.
absl::Status run_command(arguments& a) {
    // The texts are completed for both modes, because --machine and others apply to both.
    if (absl::Status s = complete(a); !s.ok() || a.recommends) {
        return s.ok() ? run_recommend(a) : s;
    }
    auto out = command_line::json_output::open(a.json);
    if (!out.ok()) {
        return out.status();
    }
    auto numbers = open_plotted(a.plot);
    if (!numbers.ok()) {
        return numbers.status();
    }
    const auto cells = run_study(a);
    if (!cells.ok()) {
        return cells.status();
    }
    // With --best the table has the fastest cells only; JSON always has all of them.
    if (!a.quiet) {
        out->text() << to_table(a.best ? fastest(*cells) : *cells);
    }
    const nlohmann::ordered_json members = json_of(a.what, *cells);
    absl::Status status = write(*out, members);
    status.Update(status.ok() ? write(*numbers, members) : absl::OkStatus());
    if (!status.ok() || !numbers->wanted()) {
        return status;
    }
    return plot(a.plot, out->owns_standard_output() ? command_line::child_output::standard_error
                                                    : command_line::child_output::standard_output);
}

/// Returns the help of --pattern: all names with one line each.
std::string pattern_help() {
    std::string help = "What the threads access; may be repeated:";
    for (const auto& p : uvm_model::patterns()) {
        absl::StrAppend(&help, "\n", std::string(p.name), ": ", std::string(p.help));
    }
    for (const auto& one : applications::applications()) {
        absl::StrAppend(&help, "\n", std::string(one.name), ": ", std::string(one.help));
    }
    return help;
}

/// Returns the help of --policy: all names with one line each.
std::string policy_help() {
    std::string help = "What the driver does; may be repeated (docs/uvm_model.md):";
    for (const auto& p : uvm_model::paging_policies()) {
        absl::StrAppend(&help, "\n", std::string(p.name), ": ", std::string(p.help));
    }
    return help;
}

/// Declares the flags of --recommend, and lists those that it does not go with. They must have been declared before.
void declare_recommend(CLI::App& app, arguments& a) {
    app.add_flag("--recommend", a.recommends,
                 "Run a grid of its own, and print which layout and placement to take for each pattern, where memory "
                 "fits and where it does not (docs/uvm_model.md)");
    app.add_flag("--header", a.header, "Print that as runtime/heap/recommended_layouts.hpp");
    // All flags that choose what a study runs, or how it is shown.
    for (const char* other :
         {"--pattern", "--trace", "--layout", "--placement", "--tails", "--capacity", "--policy", "--threads",
          "--bytes-per-thread", "--accesses", "--element", "--stride", "--scale", "--best", "--plot"}) {
        a.of_study.push_back(app.get_option(other));
    }
}

/// Declares all flags, with their defaults.
void declare(CLI::App& app, arguments& a) {
    app.add_option("--pattern", a.what.patterns, pattern_help())->type_name("NAME");
    app.add_option("--trace", a.what.traces, "A recorded trace; may be repeated (docs/uvm_traces.md)")
        ->type_name("FILE");
    app.add_option("--layout", a.layouts,
                   "linear, sync_malloc, or interleaved:TILE[:ORDER] such as interleaved:4KiB; may be repeated")
        ->type_name("LAYOUT");
    app.add_option("--placement", a.placements, "packed or padded: how the warps' memory lies; may be repeated")
        ->type_name("PLACEMENT");
    app.add_option("--tails", a.tails,
                   "adjacent or pooled: where the rest of a warp's interleaved memory beyond whole 2 MiB lies, of a "
                   "pattern or an application")
        ->capture_default_str();
    app.add_option("--capacity", a.capacities,
                   "GPU memory: a share of what the threads have (50%), bytes (4GiB) or unlimited; may be repeated")
        ->type_name("CAPACITY");
    app.add_option("--policy", a.policies, policy_help())->type_name("POLICY");
    app.add_option("--threads", a.what.threads, "Threads, 32 a warp")->capture_default_str();
    app.add_option("--bytes-per-thread", a.bytes_per_thread, "Memory of each thread, of a pattern")
        ->capture_default_str();
    app.add_option("--accesses", a.what.accesses, "Accesses of each thread, of a pattern")->capture_default_str();
    app.add_option("--element", a.what.element_bytes, "Bytes of an element")->capture_default_str();
    app.add_option("--stride", a.stride, "Bytes from access to access, of the pattern strided")->capture_default_str();
    app.add_option("--scale", a.what.scale, "Size of an application, in units of its own")->capture_default_str();
    app.add_option("--seed", a.what.seed, "Seed of what is random")->capture_default_str();
    app.add_option("--machine", a.machine,
                   "h200 or titan_v, and constants as NAME=VALUE, with commas between (docs/uvm_model.md)")
        ->capture_default_str();
    app.add_option("--contents", a.contents, "Where the memory's contents are before: cpu or nowhere")
        ->capture_default_str();
    app.add_option("--advice", a.advice,
                   "What the driver is told of the memory: none, prefer_gpu, prefer_cpu or read_mostly")
        ->capture_default_str();
    app.add_flag("--best", a.best, "Print the fastest layout and placement of each pattern, capacity and policy alone");
    command_line::add_json(app, a.json, "Write all counts");
    app.add_option("--plot", a.plot, "Draw pictures into this folder (needs python3-matplotlib)")->type_name("DIR");
    app.add_flag("--quiet", a.quiet, "Print no table and no progress");
    declare_recommend(app, a);
}

/// Returns the subcommand. Its two functions share the arguments: the first one binds them to flags.
command_line::subcommand uvm_command() {
    const auto a = std::make_shared<arguments>();
    return {"uvm", "What the UVM driver would do with managed memory, by a model of it", "Measurements",
            [a](CLI::App& app) { declare(app, *a); }, [a] { return command_line::exit_code(run_command(*a)); }};
}

const command_line::registrar uvm_command_registered{uvm_command};

}  // namespace
}  // namespace orchard::uvm_study
