// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard replay TRACE`: makes the requests of a complete trace again, in a new heap, on either device.

#include <CLI/CLI.hpp>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "profiling/traces/replay.hpp"
#include "runtime/cli/command_line.hpp"
#include "runtime/cli/json_output.hpp"
#include "runtime/cli/options_cli.hpp"
#include "runtime/cli/program_heap.hpp"

namespace orchard::traces {
namespace {

using nlohmann::ordered_json;

struct replay_arguments {
    std::string file;
    std::uint64_t batch = 16'384;
    options heap;
    std::set<std::string> given;  ///< options whose flag was given
    command_line::json_option json;
};

/// Options that are the replay's own, whatever those of the record were.
bool is_own(const std::string& name) {
    static const std::set<std::string> own{"device",        "allow_oversubscription",
                                           "managed_limit", "service_core",
                                           "service_spin",  "emulated_workers",
                                           "trace",         "trace_mode",
                                           "trace_limit",   "sites"};
    return own.contains(name);
}

/// Sets the options that no flag names to those of the record. An option that this version does not know is left out.
void take_recorded(replay_arguments& a, const std::string& json) {
    const auto recorded = ordered_json::parse(json, nullptr, false);
    if (!recorded.is_object()) {
        return;
    }
    for (const auto& [name, value] : recorded.items()) {
        // Addresses follow from the capacity, if that is another one.
        const bool follows = name == "range" && (a.given.contains("capacity") || a.given.contains("backing"));
        if (value.is_string() && !is_own(name) && !follows && !a.given.contains(name)) {
            set(a.heap, name, value.get<std::string>()).IgnoreError();
        }
    }
}

/// Returns a percentage of two byte counts.
double percent(std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

ordered_json json_of(const replay_plan& plan, const replay_result& r) {
    return {{"allocations", plan.allocations},
            {"frees", plan.frees},
            {"batches", plan.batches.size()},
            {"failed_in_record", plan.shortages},
            {"failed_in_replay", r.failed},
            {"written_over", r.wrong},
            {"not_zero", r.not_zero},
            {"unaligned", r.unaligned},
            {"same_blocks_at_end", r.at_end == plan.at_end},
            {"kernel_seconds", r.kernel_seconds},
            {"peak_bytes", plan.peak_bytes},
            {"peak_committed_bytes", r.heap.peak_committed_bytes},
            {"statistics", command_line::json_of(r.heap)}};
}

void print(const replay_plan& plan, const replay_result& r, std::ostream& out) {
    std::uint64_t blocks = 0;
    std::uint64_t bytes = 0;
    for (const auto& [what, count] : r.at_end) {
        blocks += count;
        bytes += count * what.first;
    }
    out << absl::StrFormat("%d allocations and %d frees in %d kernels of %.3f s in all\n", plan.allocations, plan.frees,
                           plan.batches.size(), r.kernel_seconds);
    out << absl::StrFormat("failed: %d in the record, %d in the replay of what the record got\n", plan.shortages,
                           r.failed);
    out << absl::StrFormat("asked for at most %d bytes at once, committed at most %d: %.1f %% of that was asked for\n",
                           plan.peak_bytes, r.heap.peak_committed_bytes,
                           percent(plan.peak_bytes, r.heap.peak_committed_bytes));
    out << absl::StrFormat("at the end: %d blocks of %d bytes, %s\n", blocks, bytes,
                           r.at_end == plan.at_end ? "as in the record" : "not as in the record");
    if (r.wrong != 0) {
        out << absl::StrFormat("%d blocks were written over\n", r.wrong);
    }
    if (r.not_zero + r.unaligned != 0) {
        out << absl::StrFormat("%d blocks of calloc were not zero, %d of aligned_alloc not aligned\n", r.not_zero,
                               r.unaligned);
    }
    if (plan.unknown != 0) {
        out << absl::StrFormat("%d events that fit no block in use were left out\n", plan.unknown);
    }
}

absl::StatusOr<int> run(replay_arguments& a) {
    absl::StatusOr<command_line::json_output> out = command_line::json_output::open(a.json);
    if (!out.ok()) {
        return out.status();
    }
    auto trace = load_replayable(a.file);
    if (!trace.ok()) {
        return trace.status();
    }
    take_recorded(a, trace->summary.info.options_json);
    const replay_plan plan = plan_replay(trace->events, a.batch);
    trace->events = {};
    auto h = command_line::create_heap(a.heap);
    if (!h.ok()) {
        return h.status();
    }
    const auto r = replay(*h, plan);
    if (!r.ok()) {
        return r.status();
    }
    print(plan, *r, out->text());
    if (absl::Status s = out->commit(command_line::device_json(h->device()), json_of(plan, *r)); !s.ok()) {
        return s;
    }
    return r->passed(plan) ? 0 : 1;
}

command_line::subcommand replay_command() {
    const auto a = std::make_shared<replay_arguments>();
    return {"replay", "Make the requests of a complete trace again, in a new heap", "Traces",
            [a](CLI::App& app) {
                app.add_option("trace", a->file, "The trace's file")->type_name("FILE")->required();
                app.add_option("--batch", a->batch, "Most requests of one kernel (1 to 16,777,216)")
                    ->type_name("N")
                    ->capture_default_str()
                    ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 24).description(""));
                command_line::add_json(app, a->json, "Write the result");
                add_to(app, a->heap);
                app.footer("Options that no flag names are those of the record, but for the device and its threads.");
                app.parse_complete_callback([a, &app] {
                    for (const option_info& o : option_table()) {
                        if (app.count(o.flag) != 0) {
                            a->given.insert(o.name);
                        }
                    }
                });
            },
            [a] {
                const absl::StatusOr<int> code = run(*a);
                return code.ok() ? *code : command_line::exit_code(code.status());
            }};
}

const command_line::registrar replay_command_registered{replay_command};

}  // namespace
}  // namespace orchard::traces
