// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profiling/arena/results.hpp"
#include "runtime/options/byte_size.hpp"

namespace orchard::arena {
namespace {

using nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

arena_case some_case(const std::string& name = "winter_9a/64") {
    return {.name = name, .source = "a, paper", .threads = 32, .least = 64, .most = 64};
}

outcome with_values(std::vector<double> values, const std::string& unit = "us") {
    outcome o;
    o.unit = unit;
    o.values = std::move(values);
    return o;
}

outcome with_fault(verdict v) {
    outcome o;
    o.fault(v, "found \"so\"");
    return o;
}

ordered_json row(const std::string& allocator, const outcome& o, const std::string& name = "winter_9a/64") {
    return row_of(allocator, some_case(name), 1024, 3, o);
}

TEST(arena_results, a_row_has_the_settled_median_and_single_repetitions) {
    std::vector<double> values = {90, 80, 70, 60, 50, 1, 2, 3, 4, 5};
    const ordered_json r = row("a", with_values(values));
    EXPECT_EQ(r.at("value"), 3.0);
    EXPECT_EQ(r.at("low"), 2.0);
    EXPECT_EQ(r.at("high"), 4.0);
    EXPECT_EQ(r.at("first"), 90.0);
    EXPECT_EQ(r.at("third"), 70.0);
    EXPECT_EQ(r.at("tenth"), 5.0);
    EXPECT_TRUE(r.at("hundredth").is_null());
    EXPECT_EQ(r.at("verdict"), "ok");
}

TEST(arena_results, a_fault_has_no_value) {
    const ordered_json r = row("a", with_fault(verdict::hang));
    EXPECT_TRUE(r.at("value").is_null());
    EXPECT_EQ(r.at("verdict"), "hang");
    EXPECT_EQ(cell_of(r), "hang");
}

TEST(arena_results, ratios_are_times_worse_than_the_floor) {
    rows all = {row("floor", with_values({2, 2})),
                row("a", with_values({3, 3})),
                row("floor", with_values({90}, "percent"), "fill"),
                row("a", with_values({45}, "percent"), "fill"),
                row("a", with_values({1}), "other"),
                row("b", with_fault(verdict::crash))};
    outcome with_nulls = with_values({4});
    with_nulls.fault(verdict::null, "some requests gave null");
    all.push_back(row("c", with_nulls));
    add_ratios(all, "floor");
    EXPECT_TRUE(all[6].at("ratio_to_floor").is_null()) << "the time of an allocator with a fault says nothing";
    EXPECT_EQ(all[0].at("ratio_to_floor"), 1.0);
    EXPECT_EQ(all[1].at("ratio_to_floor"), 1.5);
    EXPECT_EQ(all[3].at("ratio_to_floor"), 2.0);
    EXPECT_TRUE(all[4].at("ratio_to_floor").is_null());
    EXPECT_TRUE(all[5].at("ratio_to_floor").is_null());
}

TEST(arena_results, a_row_of_other_conditions_is_not_kept) {
    const rows all = rows::array({row("a", with_fault(verdict::crash))});
    EXPECT_TRUE(has_row(all, "a", some_case(), 1024, 3));
    EXPECT_FALSE(has_row(all, "b", some_case(), 1024, 3));
    EXPECT_FALSE(has_row(all, "a", some_case("winter_9b/64"), 1024, 3));
    EXPECT_FALSE(has_row(all, "a", some_case(), 2048, 3));
    EXPECT_FALSE(has_row(all, "a", some_case(), 1024, 4));
}

TEST(arena_results, a_table_has_a_line_for_each_case) {
    const rows all = {row("a", with_values({1.5})), row("b", with_fault(verdict::null)),
                      row("b", with_values({20}), "other")};
    EXPECT_EQ(to_text(all),
              "case          unit    a     b\nwinter_9a/64  us    1.5  null\nother         us           20\n");
}

TEST(arena_results, csv_quotes_what_must_be_quoted) {
    const std::string text = to_csv(rows::array({row("a", with_fault(verdict::null))}));
    EXPECT_THAT(text, testing::StartsWith("allocator,case,source,threads,bytes,"));
    EXPECT_THAT(text, HasSubstr("\na,winter_9a/64,\"a, paper\",32,64,64,1024,3,null,\"found \"\"so\"\"\",us,,,"));
    EXPECT_EQ(to_csv(rows::array()), "");
}

TEST(arena_results, a_page_names_the_machine_the_ratios_and_the_faults) {
    rows all = {row("floor", with_values({2})), row("a", with_values({5})), row("b", with_fault(verdict::leak))};
    add_ratios(all, "floor");
    const ordered_json document{{"commit", "0123abc"},         {"device", {{"kind", "emulated"}, {"reason", "a test"}}},
                                {"command", "orchard arena"},  {"machine", {{"host", {{"cpu", "some processor"}}}}},
                                {"options", {{"repeats", 3}}}, {"rows", all}};
    const std::string page = to_markdown(document);
    for (const char* part :
         {"- machine: some processor", "- device: emulated (a test)", "- commit: 0123abc", "`orchard arena`",
          "say nothing of a GPU", "| winter_9a/64 | us | 1 | 2.5 | leak |", "- `b`, `winter_9a/64`: leak: found"}) {
        EXPECT_THAT(page, HasSubstr(part));
    }
    EXPECT_THAT(to_markdown({{"rows", rows::array()}}), HasSubstr("None."));
}

TEST(arena_results, a_page_has_the_machine_in_words_the_spread_and_the_commits) {
    ordered_json measured = row("a", with_values({1, 1, 1, 4, 5, 6}));
    measured["commit"] = "0123abc";
    ordered_json of_others = row("b", with_values({2}));
    of_others["commit"] = "4567def";
    of_others["code"] = "1aa70ad";
    const ordered_json gpu{
        {"name", "NVIDIA H200"}, {"compute_capability", "9.0"}, {"memory_bytes", 141 * gib}, {"multiprocessors", 132}};
    const ordered_json cuda{{"driver", "580.159.04"}, {"driver_version", 13000}, {"runtime_version", 12080}};
    const std::string page =
        to_markdown({{"machine", {{"host", {{"cpu", "x"}}}, {"cuda", cuda}, {"gpus", ordered_json::array({gpu})}}},
                     {"rows", {measured, of_others, row("old", with_values({3}))}}});
    for (const char* part : {"- machine: x; NVIDIA H200 (compute capability 9.0, 141 GiB, 132 multiprocessors); driver "
                             "580.159.04 for CUDA 13.0, built with CUDA 12.8\n",
                             "- commits of the rows: `0123abc` (a), `4567def` (b), `not recorded` (old)\n",
                             "- code of others: `1aa70ad` (b)\n", "| winter_9a/64 | us | 5 (5 to 6) | 2 | 3 |"}) {
        EXPECT_THAT(page, HasSubstr(part));
    }
}

TEST(arena_results, a_page_names_the_one_commit_of_all_rows_once) {
    ordered_json measured = row("a", with_values({1}));
    measured["commit"] = "0123abc";
    EXPECT_THAT(to_markdown({{"commit", "0123abc"}, {"rows", rows::array({measured})}}),
                testing::Not(HasSubstr("commits of the rows")));
    EXPECT_THAT(to_markdown({{"commit", "4567def"}, {"rows", rows::array({measured})}}),
                HasSubstr("- commits of the rows: `0123abc` (a)\n"));
}

TEST(arena_results, csv_has_the_members_of_all_rows) {
    ordered_json of_others = row("b", with_values({2}));
    of_others["commit"] = "4567def";
    const std::string text = to_csv({row("a", with_values({1})), of_others});
    EXPECT_THAT(text, HasSubstr(",ratio_to_floor,commit\n"));
    EXPECT_THAT(text, HasSubstr(",,\nb,"));
    EXPECT_THAT(text, testing::EndsWith(",4567def\n"));
}

TEST(arena_results, what_lacked_time_is_no_fault_and_is_run_again) {
    outcome lacks;
    lacks.ended = verdict::not_run;
    const rows all = {row("a", with_values({1})), row("b", lacks)};
    EXPECT_EQ(without_not_run(all), rows::array({all[0]}));
    EXPECT_THAT(to_markdown({{"rows", all}}), HasSubstr("| 1 | not run |"));
    EXPECT_THAT(to_markdown({{"rows", all}}), HasSubstr("None."));
    EXPECT_EQ(compare(rows::array({row("b", with_values({1}))}), rows::array({all[1]}), 1.1).compared, 0);
}

TEST(arena_results, a_comparison_finds_what_is_beyond_the_threshold) {
    const rows before = {row("a", with_values({10})), row("a", with_values({50}, "percent"), "fill"),
                         row("b", with_values({10})), row("c", with_fault(verdict::hang)),
                         row("gone", with_values({1}))};
    const auto now = [&](double a, double fill, verdict b) {
        return rows{row("a", with_values({a})), row("a", with_values({fill}, "percent"), "fill"),
                    b == verdict::ok ? row("b", with_values({10})) : row("b", with_fault(b)),
                    row("c", with_fault(verdict::hang)), row("new", with_values({1}))};
    };
    const comparison same = compare(before, now(10.9, 46, verdict::ok), 1.1);
    EXPECT_EQ(same.compared, 4);
    EXPECT_THAT(same.worse, IsEmpty());
    EXPECT_THAT(same.better, IsEmpty());
    EXPECT_THAT(compare(before, now(11.1, 50, verdict::ok), 1.1).worse,
                ElementsAre("a  winter_9a/64  10 -> 11.1 (1.11 times)"));
    EXPECT_THAT(compare(before, now(10, 40, verdict::ok), 1.1).worse, ElementsAre("a  fill  50 -> 40 (1.25 times)"));
    EXPECT_THAT(compare(before, now(10, 50, verdict::crash), 1.1).worse, ElementsAre("b  winter_9a/64  10 -> crash"));
    EXPECT_THAT(compare(before, now(5, 50, verdict::ok), 1.1).better,
                ElementsAre("a  winter_9a/64  10 -> 5 (0.5 times)"));
    EXPECT_THAT(compare(now(10, 50, verdict::crash), before, 1.1).better, testing::SizeIs(1));
}

}  // namespace
}  // namespace orchard::arena
