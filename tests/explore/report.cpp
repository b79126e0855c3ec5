// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "tests/explore/report.hpp"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_replace.h>
#include <absl/strings/str_split.h>

#include <algorithm>

#include "runtime/text/text_table.hpp"

namespace orchard::explore {

namespace ex = simt::explore;

namespace {

constexpr std::size_t max_warps = 64;
constexpr std::size_t max_findings_shown = 5;

std::string indented(std::string_view text) {
    while (text.ends_with("\n")) {
        text.remove_suffix(1);
    }
    return absl::StrReplaceAll(absl::string_view(text.data(), text.size()), {{"\n", "\n    "}});
}

double percent(std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

double per(double amount, double of) { return of > 0 ? amount / of : 0; }

/// Returns the options that repeat the scale of a run, if it is not the scenario's own.
std::string scale_options(const sized_scenario& what) {
    std::string options;
    if (what.size.blocks != what.what->size.blocks) {
        absl::StrAppend(&options, " --blocks ", text_of(what.size.blocks));
    }
    if (what.size.operations != what.what->size.operations) {
        absl::StrAppend(&options, " --operations ", what.size.operations);
    }
    return options;
}

std::string findings_of(const sized_scenario& what, const tally& t) {
    std::string text;
    const std::vector<finding> found = t.findings();
    for (std::size_t i = 0; i < found.size() && i < max_findings_shown; ++i) {
        const finding& f = found[i];
        absl::StrAppend(&text, "\n", what.what->name, ": ", f.count, f.count == 1 ? " run" : " runs", ", first seed ",
                        f.seed, "\n    ", indented(f.text), "\n  ", replay_command(what, f.seed, f.how), " --trace\n");
    }
    if (found.size() > max_findings_shown) {
        absl::StrAppend(&text, "\n", what.what->name, ": and ", found.size() - max_findings_shown, " kinds more\n");
    }
    return text;
}

nlohmann::ordered_json json_of(const sized_scenario& what, const tally& t) {
    auto findings = nlohmann::ordered_json::array();
    for (const finding& f : t.findings()) {
        findings.push_back({{"kind", f.kind},
                            {"runs", f.count},
                            {"seed", f.seed},
                            {"strategy", ex::name_of(f.how)},
                            {"text", f.text},
                            {"replay", replay_command(what, f.seed, f.how)}});
    }
    return {{"scenario", what.what->name},
            {"blocks", text_of(what.size.blocks)},
            {"operations", what.size.operations},
            {"runs", t.runs()},
            {"points", {{"least", t.least_points()}, {"median", t.median_points()}, {"most", t.most_points()}}},
            {"distinct_traces", t.distinct()},
            {"thread_seconds", t.seconds()},
            {"digest", absl::StrFormat("0x%016x", t.digest())},
            {"violations", t.violations()},
            {"found", findings}};
}

}  // namespace

std::string text_of(const std::vector<ex::block_shape>& blocks) {
    return absl::StrJoin(blocks, ",",
                         [](std::string* out, const ex::block_shape& b) { *out += absl::StrJoin(b, "+"); });
}

std::string text_of(const scale& s) { return absl::StrCat(text_of(s.blocks), " x ", s.operations); }

absl::StatusOr<std::vector<ex::block_shape>> parse_blocks(std::string_view text) {
    const absl::string_view whole(text.data(), text.size());
    const auto refuse = [&](absl::string_view why) {
        return absl::InvalidArgumentError(
            absl::StrCat("--blocks: \"", whole, "\" ", why,
                         "; give the lanes of each warp, warps by plus, blocks by comma, such as 3+2,3"));
    };
    std::vector<ex::block_shape> blocks;
    std::size_t warps = 0;
    for (const absl::string_view block : absl::StrSplit(whole, ',')) {
        blocks.emplace_back();
        for (const absl::string_view warp : absl::StrSplit(block, '+')) {
            int lanes = 0;
            if (!absl::SimpleAtoi(warp, &lanes) || lanes < 1 || lanes > simt::warp_size) {
                return refuse(absl::StrCat("has \"", warp, "\" where 1 to ", static_cast<int>(simt::warp_size),
                                           " lanes should stand"));
            }
            blocks.back().push_back(lanes);
            ++warps;
        }
    }
    if (warps > max_warps) {
        return refuse(absl::StrCat("has more than ", max_warps, " warps"));
    }
    return blocks;
}

std::string replay_command(const sized_scenario& what, std::uint64_t seed, ex::strategy how) {
    return absl::StrCat("./orchard explore --scenario ", what.what->name, scale_options(what), " --seed ", seed,
                        " --strategy ", ex::name_of(how));
}

std::string list_of(const std::vector<scenario>& scenarios) {
    std::vector<std::vector<std::string>> lines;
    for (const scenario& s : scenarios) {
        lines.push_back({s.name, text_of(s.size), s.help});
    }
    return orchard::detail::in_columns(lines, "l");
}

std::string text_of(const plan& p, const std::vector<tally>& all, double seconds) {
    std::vector<std::vector<std::string>> lines{
        {"scenario", "runs", "points least/med/most", "distinct", "us/run", "failed", "digest"}};
    std::string found;
    std::uint64_t runs = 0;
    std::uint64_t violations = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
        const tally& t = all[i];
        lines.push_back({p.scenarios[i].what->name, absl::StrCat(t.runs()),
                         absl::StrCat(t.least_points(), "/", t.median_points(), "/", t.most_points()),
                         absl::StrFormat("%.2f%%", percent(t.distinct(), t.runs())),
                         absl::StrFormat("%.0f", per(t.seconds() * 1e6, static_cast<double>(t.runs()))),
                         absl::StrCat(t.violations()), absl::StrFormat("%016x", t.digest())});
        found += findings_of(p.scenarios[i], t);
        runs += t.runs();
        violations += t.violations();
    }
    lines.push_back(
        {"all", absl::StrCat(runs), "", "", "", absl::StrCat(violations), absl::StrFormat("%016x", digest_of(all))});
    std::string text = orchard::detail::in_columns(lines, "lr");
    absl::StrAppendFormat(&text, "%d runs in %.1f s, %.0f a second\n", runs, seconds,
                          per(static_cast<double>(runs), seconds));
    return text + found;
}

nlohmann::ordered_json json_of(const plan& p, const std::vector<tally>& all, double seconds) {
    auto scenarios = nlohmann::ordered_json::array();
    std::uint64_t runs = 0;
    std::uint64_t violations = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
        scenarios.push_back(json_of(p.scenarios[i], all[i]));
        runs += all[i].runs();
        violations += all[i].violations();
    }
    return {{"first_seed", p.first},
            {"strategy", p.how ? ex::name_of(*p.how) : "both"},
            {"runs", runs},
            {"violations", violations},
            {"seconds", seconds},
            {"runs_per_second", per(static_cast<double>(runs), seconds)},
            {"digest", absl::StrFormat("0x%016x", digest_of(all))},
            {"scenarios", scenarios}};
}

std::string text_of(const sized_scenario& from, const shrunk& s) {
    const sized_scenario small{from.what, s.size};
    return absl::StrCat("shrank from ", text_of(from.size), " to ", text_of(s.size), "\n  ",
                        replay_command(small, s.seed, s.how), "\nsimplified from ", s.points_of_seed, " points and ",
                        s.surprises_of_seed, " surprises to ", s.result.points, " points and ", s.surprises,
                        s.surprises == 1 ? " surprise\n" : " surprises\n");
}

std::string text_of(const sized_scenario& what, std::uint32_t surprises, const exhaustive_result& r) {
    std::string text = absl::StrCat(what.what->name, " at ", text_of(what.size), ", at most ", surprises,
                                    surprises == 1 ? " surprise: " : " surprises: ", r.runs, " runs of up to ",
                                    r.most_points, " points, ");
    if (!r.violation.empty()) {
        return absl::StrCat(text, "a violation\n    ", indented(r.violation), "\n");
    }
    return absl::StrCat(text,
                        r.finished ? "all there are: no violation\n" : "not all there are: no violation so far\n");
}

}  // namespace orchard::explore
