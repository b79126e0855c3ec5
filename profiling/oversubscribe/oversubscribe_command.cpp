// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard oversubscribe`: reads the arguments, prints a row after each run, and writes rows as they come.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "profiling/oversubscribe/runs.hpp"
#include "profiling/uvm/study.hpp"
#include "runtime/cli/command_line.hpp"
#include "runtime/cli/json_output.hpp"
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
    std::string rows;
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
    a.what.patterns = *patterns;
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

/// Rows in a file, one JSON object on each line, so that a command that was interrupted goes on where it was.
class row_file {
public:
    /// Reads the rows that are there. Errors: InvalidArgument for a line that is no row; those of the file.
    static absl::StatusOr<row_file> open(const std::string& path) {
        row_file f;
        f.path_ = path;
        std::ifstream in(path);
        int number = 0;
        for (std::string line; !path.empty() && std::getline(in, line);) {
            ++number;
            const row r = row::parse(line, nullptr, false);
            if (!r.is_object()) {
                return absl::InvalidArgumentError(
                    absl::StrFormat("--rows: line %d of %s is no row; give another file", number, path));
            }
            f.rows_.push_back(r);
            f.known_.insert(axes(r));
        }
        return f;
    }
    [[nodiscard]] bool has(const row& r) const { return known_.contains(axes(r)); }
    absl::Status add(const row& r) {
        rows_.push_back(r);
        if (path_.empty()) {
            return absl::OkStatus();
        }
        std::ofstream out(path_, std::ios::app);
        out << r.dump() << '\n' << std::flush;
        return out ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("--rows: cannot write to ", path_));
    }
    [[nodiscard]] const std::vector<row>& rows() const { return rows_; }

private:
    static std::string axes(const row& r) {
        std::string all;
        for (const std::string_view key : row_axes) {
            absl::StrAppend(&all, r.value(std::string(key), row()).dump(), " ");
        }
        return all;
    }
    std::string path_;
    std::vector<row> rows_;
    std::set<std::string> known_;
};

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
    auto out = command_line::json_output::open(a.json);
    auto rows = row_file::open(a.rows);
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
            << a.what.kernel_seconds << " s\n";
    }
    out->text() << header;
    status = run(
        a.what, [&](const row& axes) { return rows->has(axes); },
        [&](const row& r) {
            out->text() << line_of(r) << std::flush;
            return rows->add(r);
        });
    if (a.what.device == simt::device_kind::emulated) {
        out->text() << "device: emulated; these are times of this processor, and say nothing of a GPU\n";
    }
    if (status.ok()) {
        status = out->commit(command_line::device_json(*choice), {{"rows", rows->rows()}});
    }
    return status;
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
    app.add_option("--rows", a.rows,
                   "Append each row to this file as it comes, a JSON object on each line; rows that it has are not run "
                   "again")
        ->type_name("FILE");
    command_line::add_json(app, a.json, "Write all rows");
    add_to(app, a.what.heap);
}

command_line::subcommand oversubscribe_command() {
    const auto a = std::make_shared<arguments>();
    return {"oversubscribe", "Read more data than the device's budget, with and without moving it", "Measurements",
            [a](CLI::App& app) { declare(app, *a); }, [a] { return command_line::exit_code(run_command(*a)); }};
}

const command_line::registrar oversubscribe_registered{oversubscribe_command()};

}  // namespace
}  // namespace orchard::oversubscribe
