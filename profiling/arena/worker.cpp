// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "profiling/arena/worker.hpp"

#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <deque>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
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
    bool beside = false;  ///< runs its case again and again, until it is killed
};

/// The command line of a worker.
std::vector<std::string> words_for(const worker_arguments& a) {
    std::vector<std::string> words{own_program(), worker_command,
                                   "--allocator", a.allocator,
                                   "--cases",     absl::StrJoin(a.cases, ","),
                                   "--device",    a.device,
                                   "--workers",   absl::StrCat(a.workers),
                                   "--memory",    absl::StrCat(a.memory),
                                   "--repeats",   absl::StrCat(a.repeats)};
    if (a.beside) {
        words.emplace_back("--beside");
    }
    return words;
}

/// Another process that runs the same case of the same allocator again and again, while this object lives.
class process_beside {
public:
    /// Returns when that process has run the case for the first time, or has ended.
    process_beside(const worker_arguments& a, const arena_case& c) {
        worker_arguments its = a;
        its.cases = {c.name};
        its.beside = true;
        thread_ = std::thread([this, its, c] {
            bool said_why = false;
            const child_end end = run_child(
                words_for(its), longest,
                [&](std::string_view line) {
                    if (const auto o = outcome_in(line, c); o.has_value() && o->ended != verdict::ok) {
                        said_why = true;
                        result_.fault(o->ended, absl::StrCat("the other process: ", o->detail));
                    }
                    runs_.store(true);
                },
                &stop_);
            if (end.ended != child_end::how::stopped && !said_why) {
                result_.fault(end.ended == child_end::how::late ? verdict::hang : verdict::crash,
                              absl::StrCat("the other process: ", end.detail));
            }
            runs_.store(true);
        });
        while (!runs_.load()) {
            absl::SleepFor(absl::Milliseconds(1));
        }
    }
    process_beside(const process_beside&) = delete;
    process_beside& operator=(const process_beside&) = delete;
    ~process_beside() { end(); }

    /// Ends the process. Returns the fault that it found, if any.
    const outcome& end() {
        stop_.store(true);
        if (thread_.joinable()) {
            thread_.join();
        }
        return result_;
    }

private:
    static constexpr absl::Duration longest = absl::Minutes(2);  // without a line

    std::atomic<bool> stop_{false};
    std::atomic<bool> runs_{false};
    outcome result_;  ///< of the thread, until it has ended
    std::thread thread_;
};

/// Returns how the allocator ends a task.
outcome outcome_of(const allocator& of, const task& t) {
    auto result = of.run(t);
    if (result.ok()) {
        return *std::move(result);
    }
    outcome o;
    o.fault(verdict::crash, absl::StrCat("it could not be made: ", result.status().message()));
    return o;
}

/// Runs the cases one by one, and writes each line when it is known.
absl::Status work(const worker_arguments& a) {
    if (a.beside) {
        (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);  // it must not outlive the one that it runs for
    }
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
        std::optional<process_beside> other;
        if (found->what == kind::beside && !a.beside) {
            other.emplace(a, *found);
        }
        outcome o;
        do {
            o = outcome_of(**chosen, t);
            if (other.has_value() && other->end().ended != verdict::ok) {
                o.fault(other->end().ended, other->end().detail);
            }
            std::cout << line_of(*found, o) << "\n" << std::flush;
        } while (a.beside && o.ended == verdict::ok);
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
                app.add_flag("--beside", a->beside);
            },
            [a] { return command_line::exit_code(work(*a)); }};
}

const command_line::registrar worker_registered{worker_subcommand};

/// Returns the outcome of a case for which no time was left.
outcome not_run() {
    outcome o;
    o.ended = verdict::not_run;
    o.detail = "the time of the whole call is over";
    return o;
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
        if (absl::Now() >= with.until) {
            wanted = on_outcome(pending.front(), not_run());
            pending.pop_front();
            continue;
        }
        std::size_t left = names.size();
        const worker_arguments its{allocator,    names,       std::string(name_of(with.device)),
                                   with.workers, with.memory, with.repeats};
        const auto take = [&](std::string_view line) {
            const auto o = left == 0 ? std::nullopt : outcome_in(line, pending.front());
            if (o.has_value() && wanted) {
                wanted = on_outcome(pending.front(), *o);
                pending.pop_front();
                --left;
            }
        };
        const child_end end = run_child(words_for(its), with.limit, take, nullptr, with.until);
        // A worker that has written a crash ends by itself with 0, and the next one goes on behind it.
        if (left == names.size() || (left != 0 && end.ended != child_end::how::exited_0)) {
            outcome o;
            if (end.ended == child_end::how::late && absl::Now() >= with.until) {
                o = not_run();
            } else {
                o.fault(end.ended == child_end::how::late ? verdict::hang : verdict::crash,
                        end.ended == child_end::how::exited_0 ? "the worker ended without a result" : end.detail);
            }
            wanted = wanted && on_outcome(pending.front(), o);
            pending.pop_front();
        }
    }
}

}  // namespace orchard::arena
