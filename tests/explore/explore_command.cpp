// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "tests/explore/explore_command.hpp"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>

#include "runtime/cli/output_file.hpp"
#include "runtime/cli/progress.hpp"
#include "runtime/options/nearest.hpp"
#include "tests/explore/crash_note.hpp"
#include "tests/explore/report.hpp"
#include "tests/explore/shrink.hpp"

namespace orchard::explore {

namespace ex = simt::explore;

namespace {

constexpr std::uint64_t default_seeds = 1000;
constexpr std::uint64_t default_max_runs = 1'000'000;

/// Opens the file of `--trace`, if one is named, before the work begins.
absl::StatusOr<std::optional<command_line::output_file>> open_trace(const explore_arguments& a) {
    return command_line::open_if_named(a.trace_file, command_line::readable_by::owner);
}

absl::Status write_trace(const explore_arguments& a, std::optional<command_line::output_file>& file,
                         const std::string& timeline) {
    if (!a.with_trace) {
        return absl::OkStatus();
    }
    if (!file) {
        std::cout << timeline;
        return absl::OkStatus();
    }
    return file->commit(timeline);
}

absl::StatusOr<const scenario*> named(const std::string& name) {
    if (const scenario* const found = find_scenario(name)) {
        return found;
    }
    std::vector<std::string> known;
    for (const scenario& s : all_scenarios()) {
        known.push_back(s.name);
    }
    return absl::NotFoundError(absl::StrCat("there is no scenario \"", name, "\"", detail::suggestion(name, known),
                                            "; `explore --list` lists all"));
}

/// Options that exclude each other, or need another one.
absl::Status check_together(const explore_arguments& a) {
    const bool one = a.seed.has_value();
    const bool all = a.exhaustive.has_value();
    struct rule {
        bool broken;
        const char* text;
    };
    for (const rule& r : {
             rule{one && a.scenarios.size() != 1, "--seed runs one seed of one scenario; name it by --scenario"},
             rule{one && (a.seeds || a.first || a.minutes), "--seed does not go with --seeds, --first and --minutes"},
             rule{one && all, "--seed does not go with --exhaustive; leave one of them out"},
             rule{a.shrink && !one, "--shrink needs the --seed that shows a violation"},
             rule{a.with_trace && !one && !all, "--trace needs the --seed whose run it is to write"},
             rule{a.seeds && a.minutes, "--seeds does not go with --minutes; leave one of them out"},
             rule{all && (a.seeds || a.first || a.minutes || a.strategy),
                  "--exhaustive takes no seeds; leave out --seeds, --first, --minutes and --strategy"},
             rule{all && a.scenarios.empty(), "--exhaustive needs a --scenario"},
             rule{a.with_trace && all && a.scenarios.size() != 1, "--trace writes one run; name one --scenario"},
             rule{a.max_runs && !all, "--most-runs limits --exhaustive, which was not asked for"},
             rule{a.json.given && (one || all), "--json is for runs of many seeds; leave out --seed and --exhaustive"},
         }) {
        if (r.broken) {
            return absl::InvalidArgumentError(r.text);
        }
    }
    return absl::OkStatus();
}

absl::StatusOr<int> explore_seeds(const plan& p, const explore_arguments& a) {
    auto out = command_line::json_output::open(a.json);
    if (!out.ok()) {
        return out.status();
    }
    const auto begin = std::chrono::steady_clock::now();
    command_line::progress line;
    const std::vector<tally> all = run_plan(p, [&line](const progress& so_far) {
        line.show(absl::StrFormat("%d runs in %.0f s, %d violations", so_far.runs, so_far.seconds, so_far.violations));
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    line.clear();
    out->text() << text_of(p, all, seconds);
    const auto device = command_line::device_json("simulated", "the exploring scheduler runs lanes and services");
    if (const absl::Status written = out->commit(device, json_of(p, all, seconds)); !written.ok()) {
        return written;
    }
    return std::ranges::any_of(all, [](const tally& t) { return t.violations() != 0; }) ? 1 : 0;
}

absl::StatusOr<int> explore_one_seed(const plan& p, const explore_arguments& a) {
    auto trace = open_trace(a);
    if (!trace.ok()) {
        return trace.status();
    }
    const sized_scenario& what = p.scenarios.front();
    const std::uint64_t seed = *a.seed;
    const ex::strategy how = strategy_of(seed, p.how);
    const crash_note note(what.what->name, seed, ex::name_of(how));
    ex::settings settings;
    settings.keep_trace = a.with_trace;
    std::string timeline;
    const ex::verdict v = run_once(*what.what, what.size, *ex::choices_of(how, seed), settings, &timeline);
    if (a.with_trace && !a.shrink) {
        // On standard output the timeline ends with the verdict.
        const absl::Status written = write_trace(a, *trace, timeline);
        if (!written.ok()) {
            return written;
        }
    }
    if (!a.with_trace || a.shrink || !a.trace_file.empty()) {
        std::cout << text_of(v) << "\n" << (v.ok() ? "" : replay_command(what, seed, how) + " --trace\n");
    }
    if (v.ok() || !a.shrink) {
        return v.ok() ? 0 : 1;
    }
    command_line::progress line;
    shrink_effort effort;
    effort.threads = p.threads;
    const auto small = shrink(what, seed, how, effort, [&line](const std::string& now) { line.show(now); });
    line.clear();
    if (!small) {
        return absl::InternalError("a second run of the seed shows no violation; please report this");
    }
    std::cout << "\n" << text_of(what, *small);
    const absl::Status written = write_trace(a, *trace, small->timeline);
    return written.ok() ? absl::StatusOr<int>(1) : written;
}

absl::StatusOr<int> explore_exhaustively(const plan& p, const explore_arguments& a) {
    auto trace = open_trace(a);
    if (!trace.ok()) {
        return trace.status();
    }
    command_line::progress line;
    int code = 0;
    for (const sized_scenario& what : p.scenarios) {
        const exhaustive_result r = search_exhaustively(what, *a.exhaustive, a.max_runs.value_or(default_max_runs),
                                                        [&line](const std::string& now) { line.show(now); });
        line.clear();
        std::cout << text_of(what, *a.exhaustive, r);
        if (!r.violation.empty()) {
            code = 1;
            const absl::Status written = write_trace(a, *trace, r.timeline);
            if (!written.ok()) {
                return written;
            }
        }
    }
    return code;
}

/// An option whose value is bound to an optional; CLI11 checks that a number is valid.
template <class T, class Check>
void add_optional(CLI::App& app, const char* name, std::optional<T>& value, const char* help, const Check& check) {
    app.add_option(name, value, help)->check(check);
}

void declare(CLI::App& app, explore_arguments& a) {
    a = explore_arguments{};
    const CLI::Range any_seed(std::uint64_t{0}, std::uint64_t{1} << 62, "SEED");
    app.add_option("--scenario", a.scenarios, "Scenario to run; may be given several times. Default: all")
        ->take_all()
        ->expected(1)
        ->type_name("NAME");
    add_optional(app, "--seeds", a.seeds, "How many seeds of each scenario (default: 1000)",
                 CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40, "COUNT"));
    add_optional(app, "--first", a.first, "The first of them (default: 0)", any_seed);
    add_optional(app, "--minutes", a.minutes, "Instead of --seeds: as many as fit into this time",
                 CLI::Range(0.0, 100'000.0, "TIME"));
    app.add_option("--strategy", a.strategy, "uniform or priority (default: even seeds uniform, odd ones priority)")
        ->type_name("NAME")
        ->check(CLI::IsMember({"uniform", "priority"}).description(""));
    app.add_option("--threads", a.threads, "Host threads, 1 to 1,024 (default: one for each core)")
        ->type_name("N")
        ->check(CLI::Range(1, 1024).description(""));
    add_optional(app, "--seed", a.seed, "Run this one seed of one scenario", any_seed);
    const CLI::Option* const trace =
        app.add_option("--trace", a.trace_file, "Write the timeline of that run to this file, or to standard output")
            ->expected(0, 1)
            ->type_name("[FILE]");
    app.callback([&a, trace] { a.with_trace = trace->count() != 0; });
    app.add_flag("--shrink", a.shrink, "Make its violation as small as possible; --trace then writes the smallest");
    add_optional(app, "--exhaustive", a.exhaustive,
                 "Every run with at most so many surprises, at --blocks (default: 1,1) and one operation",
                 CLI::Range(0, 100, "COUNT"));
    add_optional(app, "--most-runs", a.max_runs, "Runs after which --exhaustive gives up (default: 1000000)",
                 CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40, "COUNT"));
    app.add_option("--blocks", a.blocks, "Lanes of each warp of each block, such as 3+2,3 (default: the scenario's)");
    add_optional(app, "--operations", a.operations, "Rounds of each lane (default: the scenario's)",
                 CLI::Range(1, 1000, "COUNT"));
    app.add_flag("--list", a.list, "List the scenarios");
    command_line::add_json(app, a.json, "Write the table and what was found");
}

}  // namespace

absl::StatusOr<plan> plan_of(const explore_arguments& a) {
    if (const absl::Status together = check_together(a); !together.ok()) {
        return together;
    }
    plan p;
    std::optional<std::vector<ex::block_shape>> blocks;
    std::optional<int> operations = a.operations;
    if (a.exhaustive) {
        blocks = {{1}, {1}};
        operations = a.operations.value_or(1);
    }
    if (a.blocks) {
        const auto parsed = parse_blocks(*a.blocks);
        if (!parsed.ok()) {
            return parsed.status();
        }
        blocks = *parsed;
    }
    const auto add = [&](const scenario& s) {
        p.scenarios.push_back({&s, {blocks.value_or(s.size.blocks), operations.value_or(s.size.operations)}});
    };
    for (const std::string& name : a.scenarios) {
        const auto found = named(name);
        if (!found.ok()) {
            return found.status();
        }
        add(**found);
    }
    if (a.scenarios.empty()) {
        std::ranges::for_each(all_scenarios(), add);
    }
    p.first = a.first.value_or(0);
    p.seeds = a.seeds.value_or(default_seeds);
    if (a.minutes) {
        p.time = std::chrono::duration<double>(*a.minutes * 60);
    }
    if (a.strategy) {
        p.how = *a.strategy == ex::name_of(ex::strategy::uniform) ? ex::strategy::uniform : ex::strategy::priority;
    }
    p.threads = a.threads;
    return p;
}

absl::StatusOr<int> explore(const explore_arguments& a) {
    if (a.list) {
        if (a.json.given) {
            return absl::InvalidArgumentError("--json is for runs of many seeds; leave out --list");
        }
        std::cout << list_of(all_scenarios());
        return 0;
    }
    const absl::StatusOr<plan> p = plan_of(a);
    if (!p.ok()) {
        return p.status();
    }
    if (a.seed) {
        return explore_one_seed(*p, a);
    }
    if (a.exhaustive) {
        return explore_exhaustively(*p, a);
    }
    return explore_seeds(*p, a);
}

command_line::subcommand explore_command() {
    const auto a = std::make_shared<explore_arguments>();
    return {"explore", "Run scenarios of the whole heap under the exploring scheduler, seed by seed", "Tests",
            [a](CLI::App& app) { declare(app, *a); },
            [a] {
                const absl::StatusOr<int> code = explore(*a);
                return code.ok() ? *code : command_line::exit_code(code.status());
            }};
}

namespace {

const command_line::registrar explore_command_registered{explore_command};

}  // namespace
}  // namespace orchard::explore
