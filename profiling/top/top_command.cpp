// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard top`: shows what heaps of other processes do, by their live pages, and sends them commands. docs/live.md.
///
///     run_top
///       choose           the pages that were asked for
///       send             --send
///       show             a terminal
///       report           --list, --once, --json, --prometheus
///       serve            --listen

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "host/monotonic_clock.hpp"
#include "profiling/top/exporter.hpp"
#include "profiling/top/formats.hpp"
#include "profiling/top/terminal.hpp"
#include "runtime/cli/command_line.hpp"
#include "runtime/cli/json_output.hpp"
#include "runtime/live/live_reader.hpp"
#include "runtime/options/byte_size.hpp"

namespace orchard::top {
namespace {

using live::live_reader;
using live::page_name;
using live::snapshot;

/// The arguments as they were typed.
struct arguments {
    std::optional<int> pid;
    std::optional<std::uint32_t> heap;
    bool lists = false;
    bool once = false;
    bool prometheus = false;
    std::string send;
    std::string interval = "1s";
    std::string timeout = "30s";
    std::optional<std::uint16_t> port;
    command_line::json_option json;
};

/// What `--send` names.
struct sent_command {
    live::command what = live::command::none;
    std::uint64_t number = 0;
    std::string argument;
};

absl::StatusOr<absl::Duration> duration_of(const char* flag, const std::string& text, absl::Duration least) {
    absl::Duration value;
    if (!absl::ParseDuration(text, &value) || value < least || value > absl::Hours(1)) {
        return absl::InvalidArgumentError(absl::StrFormat("%s: %s: give a time from %s to 1h, such as 500ms", flag,
                                                          text, absl::FormatDuration(least)));
    }
    return value;
}

/// Reads "trim", "reserve=64MiB", "dump=FILE". A file gets its whole path, since the program that writes it may be in
/// another folder.
absl::StatusOr<sent_command> command_of(const std::string& text) {
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
    sent_command c;
    for (std::size_t i = 1; i < std::size(live::command_names); ++i) {
        c.what = live::command_names[i] == name ? static_cast<live::command>(i) : c.what;
    }
    const bool wants_bytes = c.what == live::command::reserve || c.what == live::command::budget;
    const bool wants_file = c.what == live::command::dump || c.what == live::command::trace_start;
    if (c.what == live::command::none || (wants_bytes || wants_file) == value.empty()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "--send: \"", text,
            "\": give trim, validate, dump=FILE, reserve=SIZE, budget=SIZE, trace_start=FILE or trace_stop"));
    }
    if (wants_bytes) {
        const auto bytes = parse_bytes(value);
        if (!bytes.ok()) {
            return absl::Status(bytes.status().code(), absl::StrCat("--send: ", bytes.status().message()));
        }
        c.number = *bytes;
    } else if (wants_file) {
        c.argument = std::filesystem::absolute(value).lexically_normal().string();
    }
    return c;
}

/// Opens the pages that were asked for. Errors: NotFound if there is none; the first page's error if none can be
/// opened, or if it was named.
absl::StatusOr<std::vector<live_reader>> choose(const arguments& a) {
    if (a.pid && a.heap) {
        auto one = live_reader::open({*a.pid, *a.heap});
        if (!one.ok()) {
            return one.status();
        }
        std::vector<live_reader> all;
        all.push_back(*std::move(one));
        return all;
    }
    std::vector<live_reader> all;
    absl::Status why;
    for (const page_name& name : live::living_pages()) {
        if ((a.pid && name.pid != *a.pid) || (a.heap && name.heap != *a.heap)) {
            continue;
        }
        auto one = live_reader::open(name);
        if (one.ok()) {
            all.push_back(*std::move(one));
        } else {
            why.Update(one.status());
        }
    }
    if (all.empty() && !a.lists) {
        return !why.ok() ? why
                         : absl::NotFoundError(
                               absl::StrCat(a.pid ? absl::StrCat("process ", *a.pid, ": ") : std::string(),
                                            "no heap shows itself; start its program with ORCHARD_LIVE_PAGE=1, or with "
                                            "the option live_page (docs/live.md)"));
    }
    return all;
}

/// Returns OK if there is one page. Errors: InvalidArgument with all names.
absl::Status check_single(const std::vector<live_reader>& from) {
    if (from.size() == 1) {
        return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "there are ", from.size(),
        " heaps; give --pid and --heap: ", absl::StrJoin(from, ", ", [](std::string* to, const live_reader& r) {
            absl::StrAppend(to, "--pid ", r.name().pid, " --heap ", r.name().heap);
        })));
}

/// What pages say, and the errors of those that cannot be read, as of a heap that has ended meanwhile.
struct read_pages {
    std::vector<snapshot> heaps;
    std::vector<absl::Status> errors;
};

/// Reads all pages. The device's counters are read for a reader that watches: waits up to two seconds for them, as long
/// as none are younger than that.
read_pages read_all(std::vector<live_reader>& from, absl::Duration watch) {
    constexpr std::uint64_t young_ns = 1'500'000'000;
    for (live_reader& r : from) {
        r.watch(watch);
    }
    read_pages all;
    const absl::Time end = monotonic_now() + absl::Seconds(2);
    for (live_reader& r : from) {
        for (;;) {
            auto heap = r.read();
            if (!heap.ok()) {
                all.errors.push_back(heap.status());
                break;
            }
            const std::uint64_t read_ns = heap->number("device_read_ns");
            if ((read_ns != 0 && monotonic_ns() - read_ns < young_ns) || monotonic_now() > end) {
                all.heaps.push_back(*std::move(heap));
                break;
            }
            absl::SleepFor(absl::Milliseconds(20));
        }
    }
    return all;
}

std::string list_of(const std::vector<snapshot>& heaps) {
    std::string text = heaps.empty() ? "no heap shows itself (docs/live.md)\n" : "";
    for (const snapshot& h : heaps) {
        absl::StrAppendFormat(&text, "--pid %d --heap %d   %s, %s, %s committed of %s\n", h.name.pid, h.name.heap,
                              h.text("program"), h.text("device"), format_bytes(h.number("committed_bytes")),
                              format_bytes(h.number("capacity_bytes")));
    }
    return text;
}

/// Prints the pages once: as Prometheus' text, or as text and JSON. A page that cannot be read is a warning beside
/// others, and an error if none can be read. A list leaves it out.
absl::Status report(const arguments& a, std::vector<live_reader>& from) {
    auto out = command_line::json_output::open(a.json);
    if (!out.ok()) {
        return out.status();
    }
    const auto [heaps, errors] = read_all(from, absl::Seconds(5));
    const bool none = !a.lists && heaps.empty() && !errors.empty();
    for (std::size_t i = none ? 1 : 0; !a.lists && i < errors.size(); ++i) {
        command_line::warn({std::string(errors[i].message())});
    }
    if (none) {
        return errors.front();
    }
    const std::uint64_t now = monotonic_ns();
    if (a.prometheus) {
        out->text() << to_prometheus(heaps, now);
    } else if (a.lists) {
        out->text() << list_of(heaps);
    } else {
        for (const snapshot& h : heaps) {
            out->text() << (&h == heaps.data() ? "" : "\n") << to_text(h, now);
        }
    }
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const snapshot& h : heaps) {
        all.push_back(to_json(h, now));
    }
    const bool one = !heaps.empty();
    return out->commit(command_line::device_json(one ? heaps.front().text("device") : "none",
                                                 one ? "that of the first heap shown" : "no heap is shown"),
                       {{"heaps", all}});
}

absl::Status send(const arguments& a, std::vector<live_reader>& to) {
    const auto c = command_of(a.send);
    const auto limit = duration_of("--timeout", a.timeout, absl::Milliseconds(1));
    absl::Status status = c.status();
    status.Update(limit.status());
    status.Update(status.ok() ? check_single(to) : status);
    if (!status.ok()) {
        return status;
    }
    const auto answer = to.front().send(c->what, c->number, c->argument, *limit);
    if (answer.ok()) {
        std::printf("%s\n", answer->c_str());
    }
    return answer.status();
}

/// The heaps are looked for anew for each request.
absl::Status listen(const arguments& a) {
    arguments every = a;
    every.lists = true;  // none is no error
    return serve(*a.port, [every] {
        auto from = choose(every);
        const std::vector<snapshot> heaps =
            from.ok() ? read_all(*from, absl::Seconds(30)).heaps : std::vector<snapshot>();
        return to_prometheus(heaps, monotonic_ns());
    });
}

absl::Status run_top(const arguments& a) {
    const bool reports = a.lists || a.once || a.prometheus || a.json.given;
    if (static_cast<int>(reports) + static_cast<int>(!a.send.empty()) + static_cast<int>(a.port.has_value()) > 1 ||
        (a.prometheus && (a.lists || a.json.given))) {
        return absl::InvalidArgumentError(
            "give one of --list, --once, --json, --prometheus, --send and --listen; --json also goes with --list and "
            "--once");
    }
    if (a.port) {
        return listen(a);
    }
    if (!a.send.empty()) {
        // Before any page is looked for: a wrong command is wrong everywhere.
        if (const auto c = command_of(a.send); !c.ok()) {
            return c.status();
        }
    }
    const auto interval = duration_of("--interval", a.interval, absl::Milliseconds(20));
    if (!interval.ok()) {
        return interval.status();
    }
    auto from = choose(a);
    if (!from.ok()) {
        return from.status();
    }
    if (!a.send.empty()) {
        return send(a, *from);
    }
    if (reports) {
        return report(a, *from);
    }
    const absl::Status single = check_single(*from);
    return single.ok() ? show(from->front(), *interval) : single;
}

void declare(CLI::App& app, arguments& a) {
    a = {};  // tests run several command lines in one process
    app.add_option("--pid", a.pid, "The process whose heaps are shown")->type_name("PID");
    app.add_option("--heap", a.heap, "Number of the heap in its process")->type_name("N");
    app.add_flag("--list", a.lists, "List the heaps that show themselves");
    app.add_flag("--once", a.once, "Print all numbers once");
    command_line::add_json(app, a.json, "Write all numbers");
    app.add_flag("--prometheus", a.prometheus, "Print all numbers in Prometheus' text format");
    app.add_option("--listen", a.port, "Serve them to Prometheus at this port of 127.0.0.1")->type_name("PORT");
    app.add_option("--send", a.send,
                   "Send the heap a command: trim, validate, dump=FILE, reserve=SIZE, budget=SIZE, trace_start=FILE, "
                   "trace_stop")
        ->type_name("COMMAND");
    app.add_option("--timeout", a.timeout, "How long to wait for the answer")->type_name("TIME")->capture_default_str();
    app.add_option("--interval", a.interval, "Time between two looks of the screen")
        ->type_name("TIME")
        ->capture_default_str();
}

command_line::subcommand top_command() {
    const auto a = std::make_shared<arguments>();
    return {"top", "Show what heaps of running programs do: memory, classes, mailbox, failures; send them commands",
            "Measurements", [a](CLI::App& app) { declare(app, *a); },
            [a] { return command_line::exit_code(run_top(*a)); }};
}

const command_line::registrar top_command_registered{top_command};

}  // namespace
}  // namespace orchard::top
