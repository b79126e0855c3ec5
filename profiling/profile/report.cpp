// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The tables and the JSON of `orchard profile`; report.hpp has the interface.

#include "profiling/profile/report.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "runtime/options/byte_size.hpp"
#include "runtime/text/text_table.hpp"

namespace orchard::profiling {
namespace {

using nlohmann::ordered_json;
using lines = std::vector<std::vector<std::string>>;

std::string us(std::uint64_t ns) { return absl::StrFormat("%.1f", static_cast<double>(ns) * 1e-3); }
std::string ms(std::uint64_t ns) { return absl::StrFormat("%.3f", static_cast<double>(ns) * 1e-6); }
std::string mib(std::uint64_t bytes) { return absl::StrFormat("%.3f", static_cast<double>(bytes) / 1048576); }
std::string share(std::uint64_t part, std::uint64_t all) {
    return all == 0 ? "-" : absl::StrFormat("%.1f", 100.0 * static_cast<double>(part) / static_cast<double>(all));
}

std::string extent(const std::uint32_t (&e)[3]) {
    if (e[2] > 1) {
        return absl::StrCat(e[0], "x", e[1], "x", e[2]);
    }
    return e[1] > 1 ? absl::StrCat(e[0], "x", e[1]) : absl::StrCat(e[0]);
}

/// Returns the beginning of `arguments`, the text behind the `<` of a template, up to its `>`; all of it without one.
std::string first_argument(std::string_view arguments) {
    int open = 0;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        open += arguments[i] == '<' ? 1 : arguments[i] == '>' ? -1 : 0;
        if (open < 0) {
            arguments = arguments.substr(0, i);
            break;
        }
    }
    while (arguments.ends_with(' ')) {
        arguments.remove_suffix(1);
    }
    return std::string(arguments);
}

/// Returns a name that fits a terminal; the JSON has all of it.
std::string shortened(std::string name) {
    constexpr std::size_t longest = 72;
    // Words that say nothing of a kernel: its result, and Orchard's own functions around the code of each launch.
    constexpr std::string_view result = "void ";
    if (name.starts_with(result)) {
        name.erase(0, result.size());
    }
    for (const std::string_view wrapper :
         {"orchard::simt::detail::plain_entry<", "orchard::simt::detail::bounded_entry<"}) {
        if (name.starts_with(wrapper)) {
            name = first_argument(name.substr(wrapper.size()));
        }
    }
    return name.size() <= longest ? name : absl::StrCat(name.substr(0, longest - 3), "...");
}

std::string table(std::string_view title, const lines& rows, std::string_view alignment) {
    return absl::StrCat("\n", absl::string_view(title.data(), title.size()), "\n", detail::in_columns(rows, alignment));
}

std::string kernels_text(const summary& all, std::size_t most) {
    if (all.kernels.empty()) {
        return "";
    }
    std::uint64_t total = 0;
    for (const kernel_row& k : all.kernels) {
        total += k.total_ns;
    }
    lines rows{{"launches", "total ms", "%", "median us", "max us", "grid", "block", "registers", "kernel"}};
    kernel_row rest;
    for (std::size_t i = 0; i < all.kernels.size(); ++i) {
        const kernel_row& k = all.kernels[i];
        if (i >= most) {
            rest.launches += k.launches;
            rest.total_ns += k.total_ns;
            continue;
        }
        rows.push_back({absl::StrCat(k.launches), ms(k.total_ns), share(k.total_ns, total), us(k.median_ns),
                        us(k.most_ns), k.same_shape ? extent(k.last.grid) : "various",
                        k.same_shape ? extent(k.last.block) : "various", absl::StrCat(k.last.registers),
                        shortened(k.name)});
    }
    if (rest.launches != 0) {
        rows.push_back({absl::StrCat(rest.launches), ms(rest.total_ns), share(rest.total_ns, total), "", "", "", "", "",
                        absl::StrFormat("%d other kernels", all.kernels.size() - most)});
    }
    return table("kernels", rows, "rrrrrrrrl");
}

std::string unified_text(const summary& all) {
    if (all.unified.empty()) {
        return "";
    }
    lines rows{{"records", "MiB", "groups", "ms", "what", "cause"}};
    for (const unified_row& u : all.unified) {
        const bool faults = u.kind == unified_kind::device_fault;
        const bool has_bytes = u.kind != unified_kind::host_fault && u.kind != unified_kind::throttling && !faults;
        rows.push_back({absl::StrCat(u.records), has_bytes ? mib(u.bytes) : "-", faults ? absl::StrCat(u.groups) : "-",
                        u.time_ns == 0 ? "-" : ms(u.time_ns), std::string(name_of(u.kind)), u.cause});
    }
    std::string text = table("unified memory", rows, "rrrrll");
    lines owners{{"MiB to device", "MiB to host", "MiB evicted", "fault groups", "host faults", "memory"}};
    for (const owner_row& o : all.owners) {
        owners.push_back({mib(o.to_device_bytes), mib(o.to_host_bytes), mib(o.evicted_bytes),
                          absl::StrCat(o.device_fault_groups), absl::StrCat(o.host_faults), o.owner});
    }
    return text + table("unified memory by use of the segment when its heap ended", owners, "rrrrrl");
}

std::string memory_text(const summary& all) {
    if (all.memory.empty()) {
        return "";
    }
    lines rows{{"count", "MiB", "ms", "operation"}};
    for (const memory_row& m : all.memory) {
        rows.push_back({absl::StrCat(m.count), mib(m.bytes), ms(m.time_ns), m.what});
    }
    return table("copies, fills and pools", rows, "rrrl");
}

std::string samples_text(const summary& all, const run_facts& run) {
    if (!run.samples_asked && all.samples.empty()) {
        return "";
    }
    if (all.samples.empty()) {
        return "\ntime in functions of the allocator: not available here; use ncu\n";
    }
    std::uint64_t in_functions = 0;
    for (const sample_row& s : all.samples) {
        in_functions += s.samples;
    }
    lines rows{{"samples", "%", "allocator", "function"}};
    for (std::size_t i = 0; i < std::min(run.rows, all.samples.size()); ++i) {
        const sample_row& s = all.samples[i];
        rows.push_back({absl::StrCat(s.samples), share(s.samples, in_functions), s.is_allocator ? "yes" : "-",
                        shortened(s.function)});
    }
    return table("samples of the program counter", rows, "rrll") +
           absl::StrFormat(
               "functions of the allocator: %s %% of %d samples; what the compiler has inlined into a kernel counts as "
               "the kernel\n",
               share(all.allocator_samples(), in_functions), in_functions);
}

/// Returns the sentences on missing records.
std::vector<std::string> losses(const summary& all) {
    std::vector<std::string> result;
    if (all.dropped_records != 0) {
        result.push_back(absl::StrFormat("CUPTI has dropped %d records", all.dropped_records));
    }
    if (all.left_out_records != 0) {
        result.push_back(absl::StrFormat("%d records are beyond --limit and were left out", all.left_out_records));
    }
    if (all.unread_bytes != 0) {
        result.push_back(absl::StrFormat("%d bytes of CUPTI's buffers could not be read", all.unread_bytes));
    }
    if (all.unfinished != 0) {
        result.push_back(absl::StrFormat(
            "%d of %d processes did not end by exit: the records of their last second, and how many were dropped, are "
            "not known",
            all.unfinished, all.pids.size()));
    }
    if (all.pages.missing_to_host != 0) {
        result.push_back(absl::StrFormat(
            "unified memory: %s MiB came to the device twice without a record of the way back: that record is missing, "
            "or the memory is read-mostly or was allocated again",
            mib(all.pages.missing_to_host)));
    }
    if (all.pages.missing_to_device != 0) {
        result.push_back(absl::StrFormat(
            "unified memory: %s MiB came to the host twice without a record of the way to the device: that record is "
            "missing, or the device touched the memory first",
            mib(all.pages.missing_to_device)));
    }
    if (all.dropped_samples != 0) {
        result.push_back(
            absl::StrFormat("the hardware has dropped %d of %d samples", all.dropped_samples, all.all_samples));
    }
    return result;
}

std::string loss_text(const summary& all) {
    std::string text;
    for (const std::string& one : losses(all)) {
        absl::StrAppend(&text, "lost: ", one, "\n");
    }
    if (!all.unified.empty()) {
        absl::StrAppend(&text,
                        "CUPTI loses records of unified memory without a word; these bytes are a lower bound. Pages "
                        "counted one by one (orchard bench managed) are exact.\n");
    }
    return text.empty() ? text : "\n" + text;
}

std::string problems_text(const summary& all) {
    std::string text;
    for (const problem_row& p : all.problems) {
        absl::StrAppend(&text, p.code == problem_code::note ? "note: " : "not recorded: ", readable_name(p.text), "\n");
    }
    return text.empty() ? text : "\n" + text;
}

}  // namespace

std::string to_text(const summary& all, const run_facts& run) {
    std::string text;
    if (!run.program.empty()) {
        text = absl::StrFormat("%s: exit code %d; ", run.program, run.exit_code);
    }
    absl::StrAppend(&text, all.pids.size(), all.pids.size() == 1 ? " process with CUDA" : " processes with CUDA", ", ",
                    all.heaps, all.heaps == 1 ? " heap of Orchard\n" : " heaps of Orchard\n");
    return absl::StrCat(text, kernels_text(all, run.rows), unified_text(all), memory_text(all), samples_text(all, run),
                        problems_text(all), loss_text(all));
}

ordered_json to_json(const summary& all, const run_facts& run) {
    ordered_json kernels = ordered_json::array();
    for (const kernel_row& k : all.kernels) {
        kernels.push_back({{"kernel", k.name},
                           {"launches", k.launches},
                           {"without_time", k.without_time},
                           {"total_ns", k.total_ns},
                           {"least_ns", k.least_ns},
                           {"median_ns", k.median_ns},
                           {"most_ns", k.most_ns},
                           {"grid", k.last.grid},
                           {"block", k.last.block},
                           {"same_shape", k.same_shape},
                           {"registers", k.last.registers},
                           {"shared_bytes", k.last.shared_bytes},
                           {"local_bytes", k.last.local_bytes}});
    }
    ordered_json unified = ordered_json::array();
    for (const unified_row& u : all.unified) {
        unified.push_back({{"what", std::string(name_of(u.kind))},
                           {"cause", u.cause},
                           {"records", u.records},
                           {"bytes", u.bytes},
                           {"groups", u.groups},
                           {"time_ns", u.time_ns}});
    }
    ordered_json owners = ordered_json::array();
    for (const owner_row& o : all.owners) {
        owners.push_back({{"owner", o.owner},
                          {"to_device_bytes", o.to_device_bytes},
                          {"to_host_bytes", o.to_host_bytes},
                          {"evicted_bytes", o.evicted_bytes},
                          {"device_fault_groups", o.device_fault_groups},
                          {"host_faults", o.host_faults},
                          {"thrashing_bytes", o.thrashing_bytes}});
    }
    ordered_json memory = ordered_json::array();
    for (const memory_row& m : all.memory) {
        memory.push_back({{"operation", m.what}, {"count", m.count}, {"bytes", m.bytes}, {"time_ns", m.time_ns}});
    }
    ordered_json functions = ordered_json::array();
    for (const sample_row& s : all.samples) {
        functions.push_back({{"function", s.function}, {"samples", s.samples}, {"allocator", s.is_allocator}});
    }
    ordered_json problems = ordered_json::array();
    for (const problem_row& p : all.problems) {
        problems.push_back(
            {{"note", p.code == problem_code::note}, {"text", readable_name(p.text)}, {"processes", p.processes}});
    }
    return {{"program", run.program},
            {"exit_code", run.exit_code},
            {"processes", all.pids},
            {"heaps", all.heaps},
            {"rows", kernels},
            {"unified_memory", unified},
            {"owners", owners},
            {"memory_operations", memory},
            {"samples",
             {{"asked", run.samples_asked},
              {"all", all.all_samples},
              {"dropped", all.dropped_samples},
              {"allocator", all.allocator_samples()},
              {"functions", functions}}},
            {"loss",
             {{"known", all.has_loss()},
              {"dropped_records", all.dropped_records},
              {"left_out_records", all.left_out_records},
              {"unread_bytes", all.unread_bytes},
              {"unfinished_processes", all.unfinished},
              {"missing_to_host_bytes", all.pages.missing_to_host},
              {"missing_to_device_bytes", all.pages.missing_to_device},
              {"on_device_at_end_bytes", all.pages.on_device_at_end},
              {"text", losses(all)}}},
            {"problems", problems}};
}

}  // namespace orchard::profiling
