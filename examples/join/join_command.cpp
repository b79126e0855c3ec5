// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard join`: the hash join of the random-walk paper, whose result goes to pages, with each way to get a page.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "examples/join/join_run.hpp"
#include "examples/report/checked_command.hpp"
#include "examples/report/repetitions.hpp"
#include "runtime/cli/options_cli.hpp"
#include "runtime/options/byte_size.hpp"
#include "runtime/text/text_table.hpp"

namespace orchard::examples {
namespace {

using nlohmann::ordered_json;

struct join_arguments {
    join_options join;
    std::string memory = "all";
    bool capacity_given = false;
    command_line::json_option json;
    bool quiet = false;
};

struct join_report {
    device_choice device;
    join_totals right;
    std::uint64_t pages = 0;  ///< that the result takes
    std::vector<join_run> runs;

    std::vector<check> checks;

    [[nodiscard]] bool is_right(const join_run& r) const {
        return r.totals == right && r.pages == pages && r.incomplete == 0 && r.is_whole;
    }
};

check check_of(const join_report& r, const join_run& run) {
    return {run.memory, r.is_right(run),
            absl::StrFormat("%d matches, %d pages%s%s", run.totals.matches, run.pages,
                            run.incomplete != 0 ? absl::StrFormat("; %d tuples without a page", run.incomplete) : "",
                            run.is_whole ? "" : absl::StrCat("; the heap is not whole: ", run.fault))};
}

absl::StatusOr<join_report> execute(join_arguments& a) {
    join_report report;
    const auto device = choose_device(a.join.heap.device);
    if (!device.ok()) {
        return device.status();
    }
    report.device = *device;
    if (absl::Status fits = check_join_memory(a.join.tuples, device->kind); !fits.ok()) {
        return fits;
    }
    const auto first = make_table(a.join.tuples, a.join.seed, 1);
    const auto second = make_table(a.join.tuples, a.join.seed, 2);
    report.right = join_on_host(first, second, a.join.page_bytes, &report.pages);
    if (!a.capacity_given) {
        // Twice the pages, so that half of them are free, as a heap's segments come in pieces of 2 MiB.
        a.join.heap.capacity = std::max<std::uint64_t>(64 * mib, std::bit_ceil(2 * report.pages * a.join.page_bytes));
    }
    command_line::progress bar(!a.quiet);
    for (const std::string_view memory : join_memories()) {
        if (a.memory != "all" && a.memory != memory) {
            continue;
        }
        auto run = run_join(memory, a.join, first, second, 2 * report.pages, bar);
        if (!run.ok()) {
            return run.status();
        }
        report.runs.push_back(*std::move(run));
        report.checks.push_back(check_of(report, report.runs.back()));
    }
    return report;
}

std::string to_text(const join_arguments& a, const join_report& r) {
    std::string text = absl::StrFormat(
        "join     two tables of %d tuples, %d matches in %d pages of %d B\n"
        "device   %s (%s)\n\n",
        a.join.tuples, r.right.matches, r.pages, a.join.page_bytes, name_of(r.device.kind), r.device.reason);
    std::vector<std::vector<std::string>> lines{
        {"microseconds", "partition, settled", "probe: first / 3rd / 10th / settled", "free: the same"}};
    for (const join_run& run : r.runs) {
        lines.push_back({run.memory, absl::StrFormat("%.1f", median_from(0, run.partition_us)),
                         repetitions_text(run.probe_us), run.memory == "direct" ? "-" : repetitions_text(run.free_us)});
    }
    return text + detail::in_columns(lines, "lrrr") + "\n";
}

/// Returns the members of the document, without the checks.
ordered_json members(const join_arguments& a, const join_report& r) {
    ordered_json runs = ordered_json::array();
    for (const join_run& run : r.runs) {
        runs.push_back({{"memory", run.memory},
                        {"matches", run.totals.matches},
                        {"pages", run.pages},
                        {"incomplete", run.incomplete},
                        {"passed", r.is_right(run)},
                        {"partition_us", run.partition_us},
                        {"probe_us", run.probe_us},
                        {"free_us", run.free_us}});
    }
    return {{"tuples", a.join.tuples}, {"page_bytes", a.join.page_bytes},
            {"seed", a.join.seed},     {"matches", r.right.matches},
            {"pages", r.pages},        {"capacity_bytes", a.join.heap.capacity},
            {"runs", std::move(runs)}};
}

/// Returns what is wrong with the arguments that CLI11 cannot tell.
absl::Status check_arguments(const join_arguments& a) {
    const auto names = join_memories();
    if (a.memory != "all" && std::ranges::find(names, a.memory) == names.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("--memory \"", a.memory, "\": give direct, queue, rw, rw_bm64, corw, orchard or all"));
    }
    if (!std::has_single_bit(a.join.page_bytes)) {
        return absl::InvalidArgumentError(absl::StrFormat("--page-bytes %d is no power of two; give %d",
                                                          a.join.page_bytes, std::bit_ceil(a.join.page_bytes)));
    }
    return absl::OkStatus();
}

void declare(CLI::App& app, join_arguments& a) {
    app.add_option("--tuples", a.join.tuples, "Tuples of each table (1 to 268,435,456)")
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 28).description(""));
    app.add_option("--page-bytes", a.join.page_bytes, "Size of a page: a power of two (32 to 4,096)")
        ->type_name("BYTES")
        ->capture_default_str()
        ->check(CLI::Range(std::uint64_t{32}, std::uint64_t{4096}).description(""));
    app.add_option("--memory", a.memory, "Where pages come from: direct, queue, rw, rw_bm64, corw, orchard or all")
        ->type_name("NAME")
        ->capture_default_str();
    app.add_option("--repeats", a.join.repeats, "Joins with each (1 to 10,000)")
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(1, 10'000).description(""));
    app.add_option("--seed", a.join.seed, "Seed of the tables")->type_name("N")->capture_default_str();
    command_line::add_json(app, a.json, "Write the result");
    app.add_flag("--quiet", a.quiet, "Print the checks alone, and no progress bar");
    add_to(app, a.join.heap);
    app.footer("Unless given, the capacity is twice what the result takes, and 64 MiB at least.");
    app.parse_complete_callback([&app, &a] { a.capacity_given = given_options(app).contains("capacity"); });
}

command_line::subcommand join_command() {
    const auto a = std::make_shared<join_arguments>();
    return {"join", "A hash join whose result goes to pages, with each way to get one", "Examples",
            [a](CLI::App& app) { declare(app, *a); },
            [a] {
                const absl::Status arguments = check_arguments(*a);
                return arguments.ok() ? run_checked(*a, execute, to_text, members) : command_line::exit_code(arguments);
            }};
}

const command_line::registrar join_command_registered{join_command};

}  // namespace
}  // namespace orchard::examples
