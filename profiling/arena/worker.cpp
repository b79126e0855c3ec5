// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "profiling/arena/worker.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "profiling/arena/adapter.hpp"
#include "profiling/arena/child.hpp"
#include "runtime/cli/command_line.hpp"
#include "runtime/machine/machine_info.hpp"

namespace orchard::arena {
namespace {

using nlohmann::ordered_json;

std::string line_of(const arena_case& c, const outcome& o) {
    return ordered_json{{"case", c.name},
                        {"verdict", static_cast<int>(o.ended)},
                        {"detail", o.detail},
                        {"unit", o.unit},
                        {"values", o.values}}
        .dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

/// Returns the outcome in a worker's line; none if it is no such line of this case.
std::optional<outcome> outcome_in(std::string_view line, const arena_case& c) {
    const ordered_json found = ordered_json::parse(line, nullptr, false);
    if (!found.is_object() || found.value("case", "") != c.name) {
        return std::nullopt;
    }
    outcome o;
    o.ended =
        static_cast<verdict>(std::clamp(found.value("verdict", 0), 0, static_cast<int>(std::size(verdict_names)) - 1));
    o.detail = found.value("detail", "");
    o.unit = found.value("unit", "us");
    o.values = found.value("values", std::vector<double>());
    return o;
}

struct worker_arguments {
    std::string allocator;
    std::vector<std::string> cases;
    std::string device;
    unsigned workers = 0;
    std::uint64_t memory = 0;
    int repeats = 1;
};

/// Runs the cases one by one, and writes each line when it is known.
absl::Status work(const worker_arguments& a) {
    const auto device = a.device == "cuda" ? simt::device_kind::cuda : simt::device_kind::emulated;
    const auto all = all_allocators(device);
    const auto chosen =
        std::find_if(all.begin(), all.end(), [&](const allocator* x) { return x->is.name == a.allocator; });
    if (chosen == all.end()) {
        return absl::NotFoundError(absl::StrCat("there is no allocator '", a.allocator, "'"));
    }
    for (const std::string& name : a.cases) {
        const auto& cases = all_cases();
        const auto found =
            std::find_if(cases.begin(), cases.end(), [&](const arena_case& c) { return c.name == name; });
        if (found == cases.end()) {
            return absl::NotFoundError(absl::StrCat("there is no case '", name, "'"));
        }
        const task t{for_device(*found, device),
                     {.kind = device, .workers = a.workers, .timed = true},
                     memory_for(*found, a.memory, device),
                     a.repeats};
        auto result = (*chosen)->run(t);
        outcome o;
        if (result.ok()) {
            o = *std::move(result);
        } else {
            o.fault(verdict::crash, absl::StrCat("it could not be made: ", result.status().message()));
        }
        std::cout << line_of(*found, o) << "\n" << std::flush;
        if (o.ended == verdict::crash) {
            // After an error of a kernel the GPU's context is of no use any more.
            return absl::OkStatus();
        }
    }
    return absl::OkStatus();
}

command_line::subcommand worker_subcommand() {
    const auto a = std::make_shared<worker_arguments>();
    return {worker_command, "Run cases of one allocator", "",
            [a](CLI::App& app) {
                app.add_option("--allocator", a->allocator)->required();
                app.add_option("--cases", a->cases)->delimiter(',')->required();
                app.add_option("--device", a->device)->required();
                app.add_option("--workers", a->workers);
                app.add_option("--memory", a->memory)->required();
                app.add_option("--repeats", a->repeats)->required();
            },
            [a] { return command_line::exit_code(work(*a)); }};
}

const command_line::registrar worker_registered{worker_subcommand()};

/// The command line of a worker.
std::vector<std::string> words_for(const std::string& allocator, const std::vector<std::string>& names,
                                   const conditions& with) {
    return {own_program(), worker_command,
            "--allocator", allocator,
            "--cases",     absl::StrJoin(names, ","),
            "--device",    name_of(with.device),
            "--workers",   absl::StrCat(with.workers),
            "--memory",    absl::StrCat(with.memory),
            "--repeats",   absl::StrCat(with.repeats)};
}

}  // namespace

void run_in_workers(const std::string& allocator, const std::vector<arena_case>& cases, const conditions& with,
                    const std::function<bool(const arena_case&, const outcome&)>& on_outcome) {
    std::deque<arena_case> pending(cases.begin(), cases.end());
    bool wanted = true;
    while (!pending.empty() && wanted) {
        std::vector<std::string> names;
        const auto memory_of = [&](const arena_case& c) { return memory_for(c, with.memory, with.device); };
        for (const arena_case& c : pending) {
            // The size of CUDA's own heap is that of a process.
            if (!names.empty() && (!with.one_process || memory_of(c) != memory_of(pending.front()))) {
                break;
            }
            names.push_back(c.name);
        }
        std::size_t left = names.size();
        const child_end end = run_child(words_for(allocator, names, with), with.limit, [&](std::string_view line) {
            const auto o = left == 0 ? std::nullopt : outcome_in(line, pending.front());
            if (o.has_value() && wanted) {
                wanted = on_outcome(pending.front(), *o);
                pending.pop_front();
                --left;
            }
        });
        // A worker that has written a crash ends by itself with 0, and the next one goes on behind it.
        if (left == names.size() || (left != 0 && end.ended != child_end::how::exited_0)) {
            outcome o;
            o.fault(end.ended == child_end::how::late ? verdict::hang : verdict::crash,
                    end.ended == child_end::how::exited_0 ? "the worker ended without a result" : end.detail);
            wanted = wanted && on_outcome(pending.front(), o);
            pending.pop_front();
        }
    }
}

}  // namespace orchard::arena
