// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "profiling/arena/results.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "runtime/options/byte_size.hpp"
#include "runtime/text/text_table.hpp"

namespace orchard::arena {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view ok = word_of(verdict::ok);

/// Returns the value below which the share `q` of the sorted values lies; one of the values.
double quantile(const std::vector<double>& sorted, double q) {
    return sorted[static_cast<std::size_t>(std::lround(q * static_cast<double>(sorted.size() - 1)))];
}

/// Returns a text member; empty if there is none.
std::string text_of(const ordered_json& row, const char* key) {
    const auto found = row.find(key);
    return found != row.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// Returns a number; none if the member is missing or null.
std::optional<double> number_of(const ordered_json& row, const char* key) {
    const auto found = row.find(key);
    return found != row.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

/// Returns how many times worse `a` is than `b`, both of one unit; none with a fault or without values.
std::optional<double> times_worse(const ordered_json& a, const ordered_json& b) {
    const auto x = number_of(a, "value");
    const auto y = number_of(b, "value");
    const bool both_ok = text_of(a, "verdict") == ok && text_of(b, "verdict") == ok;
    if (!both_ok || !x || !y || text_of(a, "unit") != text_of(b, "unit") || *x <= 0 || *y <= 0) {
        return std::nullopt;
    }
    return text_of(a, "unit") == "percent" ? *y / *x : *x / *y;
}

/// Returns the different values of a member, in the order in which they come.
std::vector<std::string> names_of(const rows& all, const char* key) {
    std::vector<std::string> names;
    for (const auto& row : all) {
        if (std::find(names.begin(), names.end(), text_of(row, key)) == names.end()) {
            names.push_back(text_of(row, key));
        }
    }
    return names;
}

/// Returns a line for each case and a cell for each allocator, below a line of names.
template <class Cell>
std::vector<std::vector<std::string>> matrix(const rows& all, Cell cell) {
    const auto allocators = names_of(all, "allocator");
    std::map<std::pair<std::string, std::string>, const ordered_json*> found;
    for (const auto& row : all) {
        found[{text_of(row, "case"), text_of(row, "allocator")}] = &row;
    }
    std::vector<std::vector<std::string>> lines{{"case", "unit"}};
    lines[0].insert(lines[0].end(), allocators.begin(), allocators.end());
    for (const std::string& name : names_of(all, "case")) {
        std::vector<std::string> line{name, ""};
        for (const std::string& allocator : allocators) {
            const auto row = found.find({name, allocator});
            line.push_back(row == found.end() ? "" : cell(*row->second));
            if (row != found.end() && line[1].empty()) {
                line[1] = text_of(*row->second, "unit");
            }
        }
        lines.push_back(std::move(line));
    }
    return lines;
}

std::string markdown_table(const std::vector<std::vector<std::string>>& lines) {
    std::string text;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        absl::StrAppend(&text, "| ", absl::StrJoin(lines[i], " | "), " |\n");
        if (i == 0) {
            text += "|---|---|";
            for (std::size_t k = 2; k < lines[0].size(); ++k) {
                text += "---:|";
            }
            text += "\n";
        }
    }
    return text;
}

/// Returns a CSV field, quoted where it must be.
std::string csv_field(const ordered_json& value) {
    std::string text = value.is_null() ? "" : value.is_string() ? value.get<std::string>() : value.dump();
    if (text.find_first_of(",\"\n\r") != std::string::npos) {
        text = absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
    }
    return text;
}

std::string ratio_of(const ordered_json& row) {
    const auto ratio = number_of(row, "ratio_to_floor");
    return text_of(row, "verdict") != ok ? text_of(row, "verdict") : ratio ? absl::StrFormat("%.3g", *ratio) : "-";
}

/// Returns a row's median and its quartiles, "12.3 (12.1 to 12.9)"; one number where they are equal.
std::string cell_with_quartiles(const ordered_json& row) {
    const auto low = number_of(row, "low");
    const auto high = number_of(row, "high");
    const bool spread = text_of(row, "verdict") == ok && low && high && *low < *high;
    return absl::StrCat(cell_of(row), spread ? absl::StrFormat(" (%.4g to %.4g)", *low, *high) : "");
}

/// Returns a version of CUDA, 13000, as "13.0"; "unknown" for another value.
std::string cuda_version(const ordered_json& cuda, const char* key) {
    const int version = static_cast<int>(std::clamp(number_of(cuda, key).value_or(0), 0.0, 1e6));
    return version == 0 ? "unknown" : absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

/// Returns the machine in words; empty if the document does not name one.
std::string machine_line(const ordered_json& document) {
    const ordered_json machine = document.value("machine", ordered_json::object());
    std::vector<std::string> parts;
    if (!machine.is_object()) {
        return "";
    }
    if (machine.contains("host") && machine["host"].is_object()) {
        parts.push_back(text_of(machine["host"], "cpu"));
    }
    if (machine.contains("gpus") && machine["gpus"].is_array()) {
        for (const auto& gpu : machine["gpus"]) {
            parts.push_back(absl::StrFormat("%s (compute capability %s, %.4g GiB, %g multiprocessors)",
                                            text_of(gpu, "name"), text_of(gpu, "compute_capability"),
                                            number_of(gpu, "memory_bytes").value_or(0) / static_cast<double>(gib),
                                            number_of(gpu, "multiprocessors").value_or(0)));
        }
    }
    const ordered_json cuda = machine.value("cuda", ordered_json::object());
    if (number_of(cuda, "driver_version").value_or(0) != 0) {
        const std::string driver = text_of(cuda, "driver");
        parts.push_back(absl::StrCat("driver ", driver.empty() ? "" : driver + " ", "for CUDA ",
                                     cuda_version(cuda, "driver_version"), ", built with CUDA ",
                                     cuda_version(cuda, "runtime_version")));
    }
    return absl::StrJoin(parts, "; ");
}

/// Returns the values of a member and the allocators whose rows have each: "`0123abc` (orchard, kma), `89abcde`
/// (gallatin)"; empty if no row has the member, or all have the value `usual`.
/// @param none  the word for rows without it; empty: they are left out
std::string allocators_by(const rows& all, const char* key, const std::string& none, const std::string& usual) {
    std::map<std::string, std::vector<std::string>> found;
    for (const auto& row : all) {
        auto& names = found[text_of(row, key)];
        if (names.empty() || names.back() != text_of(row, "allocator")) {
            names.push_back(text_of(row, "allocator"));
        }
    }
    auto without = found.extract("");
    if (found.empty()) {
        return "";
    }
    if (!without.empty() && !none.empty()) {
        without.key() = none;
        found.insert(std::move(without));
    }
    if (found.size() == 1 && found.begin()->first == usual) {
        return "";
    }
    std::vector<std::string> parts;
    for (auto& [value, names] : found) {
        std::sort(names.begin(), names.end());
        names.erase(std::unique(names.begin(), names.end()), names.end());
        parts.push_back(absl::StrCat("`", value, "` (", absl::StrJoin(names, ", "), ")"));
    }
    return absl::StrJoin(parts, ", ");
}

}  // namespace

ordered_json row_of(const std::string& allocator, const arena_case& c, std::uint64_t memory, int repeats,
                    const outcome& o) {
    ordered_json row{{"allocator", allocator},   {"case", c.name},     {"source", c.source},
                     {"threads", c.threads},     {"bytes", c.least},   {"bytes_to", c.most},
                     {"memory_bytes", memory},   {"repeats", repeats}, {"verdict", word_of(o.ended)},
                     {"detail", o.detail},       {"unit", o.unit},     {"value", nullptr},
                     {"low", nullptr},           {"high", nullptr},    {"first", nullptr},
                     {"third", nullptr},         {"tenth", nullptr},   {"hundredth", nullptr},
                     {"ratio_to_floor", nullptr}};
    if (o.values.empty()) {
        return row;
    }
    std::vector<double> settled(o.values.begin() + static_cast<std::ptrdiff_t>(o.values.size() / 2), o.values.end());
    std::sort(settled.begin(), settled.end());
    row["value"] = quantile(settled, 0.5);
    row["low"] = quantile(settled, 0.25);
    row["high"] = quantile(settled, 0.75);
    constexpr std::pair<const char*, std::size_t> shown[] = {
        {"first", 1}, {"third", 3}, {"tenth", 10}, {"hundredth", 100}};
    for (const auto& [name, number] : shown) {
        if (o.values.size() >= number) {
            row[name] = o.values[number - 1];
        }
    }
    return row;
}

void add_ratios(rows& all, const std::string& floor) {
    std::map<std::string, const ordered_json*> of_floor;
    for (const auto& row : all) {
        if (text_of(row, "allocator") == floor) {
            of_floor[text_of(row, "case")] = &row;
        }
    }
    for (auto& row : all) {
        const auto least = of_floor.find(text_of(row, "case"));
        const auto ratio = least == of_floor.end() ? std::nullopt : times_worse(row, *least->second);
        row["ratio_to_floor"] = ratio ? ordered_json(*ratio) : ordered_json(nullptr);
    }
}

bool has_row(const rows& all, const std::string& allocator, const arena_case& c, std::uint64_t memory, int repeats) {
    const ordered_json wanted = row_of(allocator, c, memory, repeats, {});
    constexpr const char* axes[] = {"allocator", "case", "threads", "memory_bytes", "repeats"};
    return std::any_of(all.begin(), all.end(), [&](const ordered_json& row) {
        return std::all_of(std::begin(axes), std::end(axes),
                           [&](const char* key) { return row.value(key, ordered_json()) == wanted[key]; });
    });
}

rows without_not_run(rows all) {
    rows kept = rows::array();
    for (auto& row : all) {
        if (text_of(row, "verdict") != word_of(verdict::not_run)) {
            kept.push_back(std::move(row));
        }
    }
    return kept;
}

std::string cell_of(const ordered_json& row) {
    const auto value = number_of(row, "value");
    if (text_of(row, "verdict") != ok) {
        return text_of(row, "verdict");
    }
    return value ? absl::StrFormat("%.4g", *value) : "-";
}

std::string to_text(const rows& all) { return detail::in_columns(matrix(all, cell_of), "llr"); }

std::string to_csv(const rows& all) {
    // Rows of an earlier version may have fewer members.
    std::vector<std::string> names;
    for (const auto& row : all) {
        for (const auto& [key, value] : row.items()) {
            if (std::find(names.begin(), names.end(), key) == names.end()) {
                names.push_back(key);
            }
        }
    }
    std::string text = names.empty() ? "" : absl::StrCat(absl::StrJoin(names, ","), "\n");
    for (const auto& row : all) {
        std::vector<std::string> fields;
        for (const std::string& name : names) {
            fields.push_back(csv_field(row.value(name, ordered_json())));
        }
        absl::StrAppend(&text, absl::StrJoin(fields, ","), "\n");
    }
    return text;
}

std::string to_markdown(const ordered_json& document) {
    const rows all = document.value("rows", rows::array());
    std::string text = "# Arena\n\n";
    absl::StrAppend(&text, "- machine: ", machine_line(document), "\n");
    const ordered_json device = document.value("device", ordered_json::object());
    absl::StrAppend(&text, "- device: ", text_of(device, "kind"), " (", text_of(device, "reason"), ")\n");
    absl::StrAppend(&text, "- commit: ", text_of(document, "commit"), "\n");
    const std::string commits = allocators_by(all, "commit", "not recorded", text_of(document, "commit"));
    const std::string code = allocators_by(all, "code", "", "");
    absl::StrAppend(&text, commits.empty() ? "" : absl::StrCat("- commits of the rows: ", commits, "\n"),
                    code.empty() ? "" : absl::StrCat("- code of others: ", code, "\n"));
    absl::StrAppend(&text, "- command: `", text_of(document, "command"), "`\n");
    absl::StrAppend(&text, "- options: `", document.value("options", ordered_json::object()).dump(), "`\n");
    if (text_of(device, "kind") == "emulated") {
        text += "\nTimes of the emulated device are times of this processor, and say nothing of a GPU.\n";
    }
    absl::StrAppend(&text, "\n## Medians, with their quartiles\n\n", markdown_table(matrix(all, cell_with_quartiles)));
    absl::StrAppend(&text, "\n## Times as much as the floor\n\n", markdown_table(matrix(all, ratio_of)));
    text += "\n## Faults\n\n";
    bool any = false;
    for (const auto& row : all) {
        const std::string ended = text_of(row, "verdict");
        if (ended != ok && ended != word_of(verdict::not_offered) && ended != word_of(verdict::not_run)) {
            absl::StrAppend(&text, "- `", text_of(row, "allocator"), "`, `", text_of(row, "case"), "`: ", ended, ": ",
                            text_of(row, "detail"), "\n");
            any = true;
        }
    }
    return any ? text : text + "None.\n";
}

comparison compare(const rows& before, const rows& now, double threshold) {
    std::map<std::pair<std::string, std::string>, const ordered_json*> old;
    for (const auto& row : before) {
        old[{text_of(row, "allocator"), text_of(row, "case")}] = &row;
    }
    comparison result;
    for (const auto& row : now) {
        const auto found = old.find({text_of(row, "allocator"), text_of(row, "case")});
        const auto lacked_time = [](const ordered_json& r) {
            return text_of(r, "verdict") == word_of(verdict::not_run);
        };
        if (found == old.end() || lacked_time(row) || lacked_time(*found->second)) {
            continue;
        }
        ++result.compared;
        const bool was_ok = text_of(*found->second, "verdict") == ok;
        const bool is_ok = text_of(row, "verdict") == ok;
        const double ratio = times_worse(row, *found->second).value_or(1);
        const std::string line =
            absl::StrCat(text_of(row, "allocator"), "  ", text_of(row, "case"), "  ", cell_of(*found->second), " -> ",
                         cell_of(row), was_ok && is_ok ? absl::StrFormat(" (%.3g times)", ratio) : "");
        if ((was_ok && !is_ok) || ratio > threshold) {
            result.worse.push_back(line);
        } else if ((!was_ok && is_ok) || ratio < 1 / threshold) {
            result.better.push_back(line);
        }
    }
    return result;
}

}  // namespace orchard::arena
