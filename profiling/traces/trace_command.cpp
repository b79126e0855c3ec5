// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard trace FILE`: what a trace of a heap has. `orchard trace convert FILE --to FORMAT -o OUT`: the same events
/// for another program.

#include <CLI/CLI.hpp>
#include <array>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <system_error>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/cli/command_line.hpp"
#include "runtime/cli/json_output.hpp"
#include "runtime/text/text_table.hpp"
#include "runtime/trace/followed_blocks.hpp"
#include "runtime/trace/trace_convert.hpp"
#include "runtime/trace/trace_reader.hpp"

namespace orchard::traces {
namespace {

using nlohmann::ordered_json;

struct trace_arguments {
    std::vector<std::string> words;  ///< FILE, or `convert` and FILE
    std::string to;
    std::string output;
    command_line::json_option json;
};

/// What the events of a trace say together.
struct trace_sums {
    std::array<std::uint64_t, event_kinds> of_kind{};
    std::uint64_t unknown = 0;  ///< frees and tags of no block in use, and blocks where one is in use
    std::uint64_t live_bytes = 0;
    std::uint64_t peak_bytes = 0;
    std::uint64_t allocated_bytes = 0;
    std::uint64_t first_ns = 0;
    std::uint64_t last_ns = 0;
    followed_blocks blocks;

    void take(const event& e) {
        ++of_kind[static_cast<std::size_t>(e.kind)];
        first_ns = first_ns == 0 ? e.time_ns : std::min(first_ns, e.time_ns);
        last_ns = std::max(last_ns, e.time_ns);
        using effect = followed_blocks::effect;
        const followed_blocks::change c = blocks.take(e);
        unknown += c.what == effect::unknown || c.what == effect::doubled ? 1 : 0;
        if (c.what == effect::freed || c.what == effect::doubled) {
            live_bytes -= c.before.bytes;
        }
        if (c.what == effect::allocated || c.what == effect::doubled) {
            live_bytes += c.after.bytes;
            allocated_bytes += c.after.bytes;
        }
        peak_bytes = std::max(peak_bytes, live_bytes);
    }
};

/// Returns null if the trace has no waits.
ordered_json json_of(const std::optional<trace_waits>& waits) {
    const auto of = [](const event_waits& w) {
        return ordered_json{{"count", w.count}, {"seconds", static_cast<double>(w.ns) * 1e-9}};
    };
    return waits.has_value() ? ordered_json{{"kernels", of(waits->kernels)}, {"host", of(waits->host)}}
                             : ordered_json(nullptr);
}

ordered_json json_of(const trace_summary& trace, const trace_sums& sums) {
    ordered_json kinds;
    for (int k = 0; k < event_kinds; ++k) {
        kinds[std::string(name_of(static_cast<event_kind>(k)))] = sums.of_kind[static_cast<std::size_t>(k)];
    }
    const bool is_complete = trace.info.mode == event_mode::complete;
    return {{"mode", is_complete ? "complete" : "sampled"},
            {"recorded_on", trace.info.on_cuda ? "cuda" : "emulated"},
            {"bytes", trace.bytes},
            {"events", trace.counts.events},
            {"lost", trace.counts.lost},
            {"lost_notes", trace.counts.lost_notes},
            {"beyond_limit", trace.counts.beyond_limit},
            {"waits", json_of(trace.counts.waits)},
            {"can_replay", can_replay(trace.info, trace.counts)},
            {"unknown_blocks", sums.unknown},
            {"seconds", static_cast<double>(sums.last_ns - sums.first_ns) * 1e-9},
            {"live_blocks", sums.blocks.blocks().size()},
            {"live_bytes", sums.live_bytes},
            {"peak_bytes", sums.peak_bytes},
            {"allocated_bytes", sums.allocated_bytes},
            {"kinds", kinds}};
}

/// Returns why a trace cannot be replayed; empty if it can.
std::string why_not_replayed(const trace_summary& t) {
    return t.info.mode != event_mode::complete ? "sampled: it has no blocks"
           : t.counts.lost != 0                ? absl::StrCat("incomplete: ", t.counts.lost, " events were lost")
           : t.counts.beyond_limit != 0
               ? absl::StrCat("incomplete: ", t.counts.beyond_limit, " events came beyond the limit of its length")
               : "";
}

/// Returns the line of the waits for the trace; empty if the trace has none, or is sampled and all are 0.
std::string line_of_waits(const trace_summary& trace) {
    if (!trace.counts.waits.has_value()) {
        return "";
    }
    const auto [kernels, host] = *trace.counts.waits;
    if (kernels.count + host.count == 0) {
        return trace.info.mode == event_mode::complete ? "nothing waited for the trace\n" : "";
    }
    const auto ms = [](const event_waits& w) { return static_cast<double>(w.ns) * 1e-6; };
    return absl::StrFormat(
        "waits for the trace: %d of groups of a kernel, %.3f ms in all; %d of threads of the host, %.3f ms in all\n",
        kernels.count, ms(kernels), host.count, ms(host));
}

void print(const std::string& path, const trace_summary& trace, const trace_sums& sums, std::ostream& out) {
    const std::string not_replayed = why_not_replayed(trace);
    out << absl::StrFormat("%s: %d events in %d bytes, %.3f s, recorded on %s\n", absl::CEscape(path),
                           trace.counts.events, trace.bytes, static_cast<double>(sums.last_ns - sums.first_ns) * 1e-9,
                           trace.info.on_cuda ? "a GPU" : "the emulated device");
    out << (not_replayed.empty() ? "complete: orchard replay can replay it"
                                 : absl::StrCat(not_replayed, "; it cannot be replayed"))
        << "\n";
    if (trace.counts.lost_notes != 0) {
        out << absl::StrFormat("%d events of slabs and shortages were left out\n", trace.counts.lost_notes);
    }
    out << line_of_waits(trace);
    if (sums.unknown != 0) {
        out << absl::StrFormat(
            "%d events do not fit the blocks in use: frees that the program did twice, or events "
            "that are missing\n",
            sums.unknown);
    }
    std::vector<std::vector<std::string>> lines;
    for (int k = 0; k < event_kinds; ++k) {
        if (const std::uint64_t n = sums.of_kind[static_cast<std::size_t>(k)]; n != 0) {
            lines.push_back({std::string(name_of(static_cast<event_kind>(k))), absl::StrCat(n)});
        }
    }
    out << detail::in_columns(lines, "lr");
    if (trace.info.mode == event_mode::complete) {
        out << absl::StrFormat("blocks: %d bytes in all, at most %d at once; at the end %d blocks of %d bytes\n",
                               sums.allocated_bytes, sums.peak_bytes, sums.blocks.blocks().size(), sums.live_bytes);
    }
}

absl::Status summarize(const trace_arguments& a, const std::string& path) {
    absl::StatusOr<command_line::json_output> out = command_line::json_output::open(a.json);
    if (!out.ok()) {
        return out.status();
    }
    trace_sums sums;
    const auto trace = read_trace(path, [&](const std::vector<event>& events) {
        for (const event& e : events) {
            sums.take(e);
        }
        return absl::OkStatus();
    });
    if (!trace.ok()) {
        return trace.status();
    }
    print(path, *trace, sums, out->text());
    return out->commit(command_line::device_json("none", "a file was read"), json_of(*trace, sums));
}

absl::Status convert(const trace_arguments& a, const std::string& path) {
    const std::map<std::string, trace_target> targets{
        {"rmm", trace_target::rmm}, {"perfetto", trace_target::perfetto}, {"pytorch", trace_target::pytorch}};
    const auto to = targets.find(a.to);
    if (!a.to.empty() && to == targets.end()) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "trace convert: there is no format '%s'; choose rmm, perfetto or pytorch", absl::CEscape(a.to)));
    }
    if (a.to.empty() || a.output.empty()) {
        return absl::InvalidArgumentError("trace convert: give --to rmm, perfetto or pytorch, and the file by -o FILE");
    }
    // Once for the header and the names, which the footer has, and to be sure that all is right before anything is
    // written.
    const auto trace = read_trace(path);
    if (!trace.ok()) {
        return trace.status();
    }
    std::ofstream out(a.output, std::ios::binary | std::ios::trunc);
    // As the trace itself; an error, as of a pipe, changes nothing.
    std::error_code ignored;
    if (std::filesystem::is_regular_file(a.output, ignored)) {
        std::filesystem::permissions(a.output, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write,
                                     ignored);
    }
    const auto converter = make_converter(to->second, trace->info, trace->counts.names, out);
    const auto again = read_trace(path, [&](const std::vector<event>& events) {
        converter->take(events);
        return absl::OkStatus();
    });
    if (!again.ok()) {
        return again.status();
    }
    converter->finish();
    out.close();
    if (!out) {
        return absl::InvalidArgumentError(absl::StrCat(absl::CEscape(a.output), " cannot be written"));
    }
    if (const std::string why = why_not_replayed(*trace); !why.empty()) {
        command_line::warn({absl::StrCat("the trace is ", why)});
    }
    return absl::OkStatus();
}

absl::Status run(const trace_arguments& a) {
    if (a.words.size() == 1) {
        return a.to.empty() && a.output.empty()
                   ? summarize(a, a.words.front())
                   : absl::InvalidArgumentError("--to and -o belong to `orchard trace convert FILE`");
    }
    if (a.words.front() != "convert") {
        return absl::InvalidArgumentError(
            absl::StrCat("trace: \"", absl::CEscape(a.words.front()), "\": give one file, or convert and a file"));
    }
    return convert(a, a.words.back());
}

command_line::subcommand trace_command() {
    const auto a = std::make_shared<trace_arguments>();
    return {"trace", "Summary of a trace of a heap, or the trace in the format of another program", "Traces",
            [a](CLI::App& app) {
                app.add_option("words", a->words, "The trace's file; or the word convert and the file")
                    ->type_name("[convert] FILE")
                    ->expected(1, 2)
                    ->required();
                app.add_option("--to", a->to, "With convert: rmm, perfetto or pytorch")->type_name("FORMAT");
                app.add_option("-o,--output", a->output, "With convert: the file that is written")->type_name("FILE");
                command_line::add_json(app, a->json, "Write the summary");
            },
            [a] { return command_line::exit_code(run(*a)); }};
}

const command_line::registrar trace_command_registered{trace_command};

}  // namespace
}  // namespace orchard::traces
