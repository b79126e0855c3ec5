// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard arena`: reads the arguments, runs each allocator's cases in workers, prints a line and writes the rows
/// after each case.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "profiling/arena/adapter.hpp"
#include "profiling/arena/results.hpp"
#include "profiling/arena/worker.hpp"
#include "runtime/cli/command_line.hpp"
#include "runtime/cli/json_output.hpp"
#include "runtime/cli/kept_rows.hpp"
#include "runtime/cli/machine_json.hpp"
#include "runtime/cli/output_file.hpp"
#include "runtime/cli/progress.hpp"
#include "runtime/machine/machine_info.hpp"
#include "runtime/options/byte_size.hpp"
#include "runtime/text/text_table.hpp"

namespace orchard::arena {
namespace {

using nlohmann::ordered_json;

struct arguments {
    bool quick = false;
    bool full = false;
    bool list = false;
    std::vector<std::string> allocators;
    std::vector<std::string> only;
    std::string device = "auto";
    unsigned workers = 0;
    std::string memory;
    int repeats = 0;
    double limit_s = 0;
    double budget_s = 0;
    std::string resume;
    std::string read;
    std::string compare_with;
    double threshold = 1.1;
    std::string csv;
    std::string markdown;
    command_line::json_option json;
};

/// Returns the allocators that are named, all of the device if none is; the floor always, since figures are divided by
/// its own. Errors: InvalidArgument with the known names.
absl::StatusOr<std::vector<const allocator*>> choose_allocators(const arguments& a, simt::device_kind device) {
    const auto all = all_allocators(device);
    for (const std::string& name : a.allocators) {
        if (std::none_of(all.begin(), all.end(), [&](const allocator* x) { return x->is.name == name; })) {
            const auto named = [](std::string* to, const allocator* x) { to->append(x->is.name); };
            return absl::InvalidArgumentError(absl::StrCat("--allocator: there is no '", name, "' on the ",
                                                           name_of(device), " device; choose of ",
                                                           absl::StrJoin(all, ", ", named)));
        }
    }
    std::vector<const allocator*> chosen;
    for (const allocator* x : all) {
        if (a.allocators.empty() || x->is.floor ||
            std::count(a.allocators.begin(), a.allocators.end(), x->is.name) != 0) {
            chosen.push_back(x);
        }
    }
    return chosen;
}

/// Returns the name of a case without what varies in it.
std::string family_of(const std::string& name) { return name.substr(0, name.find('/')); }

/// Returns the cases that --quick, --full and --only choose. Errors: InvalidArgument with the known words.
absl::StatusOr<std::vector<arena_case>> choose_cases(const arguments& a) {
    const auto means = [](const std::string& word, const arena_case& c) {
        return word == c.name || word == family_of(c.name);
    };
    for (const std::string& word : a.only) {
        if (std::none_of(all_cases().begin(), all_cases().end(), [&](const auto& c) { return means(word, c); })) {
            std::vector<std::string> families;
            for (const arena_case& c : all_cases()) {
                if (families.empty() || families.back() != family_of(c.name)) {
                    families.push_back(family_of(c.name));
                }
            }
            return absl::InvalidArgumentError(absl::StrCat("--only: there is no case '", word, "'; choose of ",
                                                           absl::StrJoin(families, ", "),
                                                           ", or one that --list names"));
        }
    }
    std::vector<arena_case> chosen;
    for (const arena_case& c : all_cases()) {
        const bool named = a.only.empty() ||
                           std::any_of(a.only.begin(), a.only.end(), [&](const auto& word) { return means(word, c); });
        if (named && (c.quick || !a.quick)) {
            chosen.push_back(c);
        }
    }
    if (chosen.empty()) {
        return absl::InvalidArgumentError(
            absl::StrCat("--only: no case of --quick is among ", absl::StrJoin(a.only, ", "), "; give --full"));
    }
    return chosen;
}

/// Returns what all cases have in common, with the defaults of the device. Errors: those of the size.
absl::StatusOr<conditions> conditions_of(const arguments& a, simt::device_kind device) {
    conditions with;
    with.device = device;
    with.workers = a.workers;
    with.memory = default_memory(device, a.quick);
    if (!a.memory.empty()) {
        const auto given = parse_bytes(a.memory);
        if (!given.ok()) {
            return absl::Status(given.status().code(), absl::StrCat("--memory: ", given.status().message()));
        }
        if (*given < 4 * mib) {
            return absl::InvalidArgumentError(
                absl::StrCat("--memory: ", a.memory, " is too little for an allocator; give at least 4MiB"));
        }
        with.memory = *given;
    }
    with.repeats = a.repeats != 0 ? a.repeats : default_repeats(device, a.quick);
    with.limit = absl::Seconds(a.limit_s != 0 ? a.limit_s : a.quick ? 5 : 120);
    if (a.quick || a.budget_s != 0) {
        with.until = absl::Now() + absl::Seconds(a.budget_s != 0 ? a.budget_s : 60);
    }
    with.one_process = a.quick;  // a GPU's context takes longer to make than such a case
    return with;
}

/// Returns the members of the document beside those of every command.
ordered_json members_of(const arguments& a, const conditions& with, const ordered_json& machine, rows all) {
    return {{"machine", machine},
            {"options",
             {{"cases", a.quick ? "quick" : "full"},
              {"memory_bytes", with.memory},
              {"repeats", with.repeats},
              {"limit_s", absl::ToDoubleSeconds(with.limit)}}},
            {"rows", std::move(all)}};
}

/// Prints what there is.
void print_list(std::ostream& to, simt::device_kind device) {
    std::vector<std::vector<std::string>> lines{{"allocator", "source"}};
    for (const allocator* x : all_allocators(device)) {
        lines.push_back({x->is.name, x->is.source});
    }
    to << detail::in_columns(lines, "ll") << "\n";
    lines = {{"case", "quick", "source"}};
    for (const arena_case& c : all_cases()) {
        lines.push_back({c.name, c.quick ? "yes" : "", c.source});
    }
    to << detail::in_columns(lines, "lll");
}

/// Returns the document of an earlier call. Errors: NotFound if there is no such file; DataLoss if it is none.
absl::StatusOr<ordered_json> read_document(const std::string& flag, const std::string& file) {
    std::ifstream in(file);
    if (!in) {
        return absl::NotFoundError(absl::StrCat(flag, ": ", file, " cannot be read; give what --json has written"));
    }
    ordered_json document = ordered_json::parse(in, nullptr, false);
    const auto is_row = [](const ordered_json& row) {
        return row.is_object() && row.contains("allocator") && row.contains("case") && row.contains("verdict");
    };
    if (!document.is_object() || !document.contains("rows") || !document["rows"].is_array() ||
        !std::all_of(document["rows"].begin(), document["rows"].end(), is_row)) {
        return absl::DataLossError(absl::StrCat(flag, ": ", file, " is no document of `orchard arena --json`"));
    }
    return document;
}

/// The files of a call, opened before the work.
struct outputs {
    command_line::json_output json;
    std::optional<command_line::output_file> csv;
    std::optional<command_line::output_file> markdown;

    static absl::StatusOr<outputs> open(const arguments& a) {
        auto json = command_line::json_output::open(a.json);
        auto csv = command_line::open_if_named(a.csv);
        auto markdown = command_line::open_if_named(a.markdown);
        absl::Status status = json.status();
        status.Update(csv.status());
        status.Update(markdown.status());
        if (!status.ok()) {
            return status;
        }
        return outputs{*std::move(json), *std::move(csv), *std::move(markdown)};
    }
    /// Writes all that are wanted. @param document  with "device" and all members
    absl::Status commit(const ordered_json& device, const ordered_json& members, const ordered_json& document) {
        absl::Status status = json.commit(device, members);
        if (csv) {
            status.Update(csv->commit(to_csv(document["rows"])));
        }
        if (markdown) {
            status.Update(markdown->commit(to_markdown(document)));
        }
        return status;
    }
};

/// Runs what `all` has no row of, and adds it. Errors: those of writing the rows.
absl::Status run_missing(const arguments& a, const conditions& with, const device_choice& choice,
                         const std::vector<const allocator*>& allocators, const std::vector<arena_case>& cases,
                         const ordered_json& machine, std::ostream& text, rows& all) {
    absl::Status status;
    command_line::progress progress;
    const std::string floor = allocators.front()->is.floor ? allocators.front()->is.name : "";
    for (const allocator* x : allocators) {
        std::vector<arena_case> missing;
        for (const arena_case& c : cases) {
            if (!has_row(all, x->is.name, for_device(c, with.device), memory_for(c, with.memory, with.device),
                         with.repeats)) {
                missing.push_back(c);
            }
        }
        progress.show(absl::StrCat(x->is.name, ": ", missing.size(), " cases"));
        run_in_workers(x->is.name, missing, with, [&](const arena_case& c, const outcome& o) {
            ordered_json row = row_of(x->is.name, for_device(c, with.device), memory_for(c, with.memory, with.device),
                                      with.repeats, o);
            row["commit"] = command_line::commit();
            row["code"] = x->is.commit;
            progress.clear();
            text << absl::StrFormat("%-14s %-24s %10s %s", x->is.name, c.name, cell_of(row), o.unit);
            text << (o.detail.empty() ? "" : absl::StrCat("  ", o.detail)) << "\n" << std::flush;
            all.push_back(std::move(row));
            add_ratios(all, floor);
            if (!a.quick) {
                status.Update(command_line::keep_rows(a.json, choice, members_of(a, with, machine, all)));
            }
            return status.ok();
        });
        if (!status.ok()) {
            return status;
        }
    }
    return status;
}

/// Prints the comparison. Returns 1 if something is worse.
int print_comparison(std::ostream& to, const comparison& found, const arguments& a) {
    to << absl::StrFormat("\ncompared with %s: %d rows, %d worse by more than %g, %d better\n", a.compare_with,
                          found.compared, found.worse.size(), a.threshold, found.better.size());
    for (const std::string& line : found.worse) {
        to << "  worse   " << line << "\n";
    }
    for (const std::string& line : found.better) {
        to << "  better  " << line << "\n";
    }
    return found.worse.empty() ? 0 : 1;
}

/// Returns the exit code, or why the arena could not run.
absl::StatusOr<int> run_arena(const arguments& a) {
    const auto wanted = a.device == "cuda"       ? device_option::cuda
                        : a.device == "emulated" ? device_option::emulated
                                                 : device_option::automatic;
    auto choice = choose_device(wanted);
    if (!choice.ok()) {
        return choice.status();
    }
    if (!a.list && a.read.empty() && a.quick == a.full) {
        return absl::InvalidArgumentError("give --quick (ten cases) or --full (all); --list names them");
    }
    const auto allocators = choose_allocators(a, choice->kind);
    const auto cases = choose_cases(a);
    const auto with = conditions_of(a, choice->kind);
    const auto kept = command_line::kept_rows(a.resume, *choice, "options");
    const auto old = a.compare_with.empty() ? ordered_json() : read_document("--compare", a.compare_with);
    const auto read = a.read.empty() ? ordered_json() : read_document("--read", a.read);
    absl::Status status;
    for (const absl::Status& s :
         {allocators.status(), cases.status(), with.status(), kept.status(), old.status(), read.status()}) {
        status.Update(s);
    }
    if (!status.ok()) {
        return status;
    }
    auto out = outputs::open(a);
    if (!out.ok()) {
        return out.status();
    }
    std::ostream& text = out->json.text();
    if (a.list) {
        print_list(text, choice->kind);
        return 0;
    }
    ordered_json device = command_line::device_json(*choice);
    ordered_json members;
    ordered_json document = *read;
    if (a.read.empty()) {
        rows all = without_not_run(*kept);
        const ordered_json machine = json_of(describe_machine());
        status = run_missing(a, *with, *choice, *allocators, *cases, machine, text, all);
        members = members_of(a, *with, machine, std::move(all));
        document = command_line::json_document(device, members);
    } else {
        device = document.value("device", device);
        for (const char* name : {"machine", "options", "rows"}) {
            members[name] = document.value(name, ordered_json());
        }
    }
    text << "\n" << to_text(document["rows"]);
    if (device.value("kind", "") == "emulated") {
        text << "device: emulated; these are times of this processor, and say nothing of a GPU\n";
    }
    int code = 0;
    if (!a.compare_with.empty()) {
        code = print_comparison(text, compare((*old)["rows"], document["rows"], a.threshold), a);
    }
    status.Update(out->commit(device, members, document));
    return status.ok() ? absl::StatusOr<int>(code) : status;
}

void declare(CLI::App& app, arguments& a) {
    app.add_flag("--quick", a.quick, "Ten cases, an allocator's in one process");
    app.add_flag("--full", a.full, "All cases, each in a process of its own");
    app.add_flag("--list", a.list, "Only print the allocators and the cases");
    app.add_option("--allocator", a.allocators, "Allocators, a list with commas; all unless given. The floor runs, too")
        ->delimiter(',')
        ->type_name("LIST");
    app.add_option("--only", a.only, "Cases, or families such as winter_9a; a list with commas")
        ->delimiter(',')
        ->type_name("LIST");
    app.add_option("--device", a.device, "auto, cuda or emulated")
        ->capture_default_str()
        ->type_name("DEVICE")
        ->check(CLI::IsMember({"auto", "cuda", "emulated"}).description(""));
    app.add_option("--emulated-workers", a.workers, "Threads of the emulated device; 0: as many as the machine has")
        ->capture_default_str()
        ->type_name("N")
        ->check(CLI::Range(0, 1024).description(""));
    app.add_option(
           "--memory", a.memory,
           "Memory of each allocator; unless given 8GiB, up to 80GiB for the largest requests of align_10a, 2GiB with "
           "--quick, 128MiB on the emulated device")
        ->type_name("BYTES");
    app.add_option(
           "--repeats", a.repeats,
           "Timed repetitions (1 to 10,000); 100 unless given, 20 with --quick; 10 and 3 on the emulated device")
        ->type_name("N")
        ->check(CLI::Range(1, 10'000).description(""));
    app.add_option("--limit", a.limit_s, "Seconds of a case (0.1 to 86,400); 120 unless given, 5 with --quick")
        ->type_name("SECONDS")
        ->check(CLI::Range(0.1, 86'400.0).description(""));
    app.add_option("--budget", a.budget_s,
                   "Seconds of the whole call (0.1 to 86,400), after which cases are not run; 60 with --quick unless "
                   "given, else no bound")
        ->type_name("SECONDS")
        ->check(CLI::Range(0.1, 86'400.0).description(""));
    app.add_option("--resume", a.resume, "Keep the rows of this file, and run only what it has no row of")
        ->type_name("FILE");
    app.add_option("--read", a.read, "Run nothing; show, write or compare the rows of this file")->type_name("FILE");
    app.add_option("--compare", a.compare_with, "Compare with an earlier result; exit code 1 if something is worse")
        ->type_name("FILE");
    app.add_option("--threshold", a.threshold, "Times as much that --compare takes for no difference (1 to 100)")
        ->capture_default_str()
        ->type_name("FACTOR")
        ->check(CLI::Range(1.0, 100.0).description(""));
    app.add_option("--csv", a.csv, "Write the rows as a table with commas")->type_name("FILE");
    app.add_option("--markdown", a.markdown, "Write a page with the tables")->type_name("FILE");
    command_line::add_json(app, a.json, "Write the rows; with --full after each case,");
}

command_line::subcommand arena_subcommand() {
    const auto a = std::make_shared<arguments>();
    return {"arena", "Run allocators against each other, and check them", "Measurements",
            [a](CLI::App& app) { declare(app, *a); },
            [a] {
                const auto code = run_arena(*a);
                return code.ok() ? *code : command_line::exit_code(code.status());
            }};
}

const command_line::registrar arena_registered{arena_subcommand};

}  // namespace
}  // namespace orchard::arena
