// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "runtime/statistics/statistics.hpp"

namespace orchard {
namespace {

using testing::HasSubstr;

// The names that programs read. Removing a name requires a new version.
constexpr const char* totals_of_version_2[] = {"allocations",
                                               "frees",
                                               "allocated_bytes",
                                               "failed_allocations",
                                               "groups",
                                               "multi_lane_groups",
                                               "chunk_allocations",
                                               "reallocs",
                                               "reallocs_moved",
                                               "slabs_published",
                                               "slabs_retired",
                                               "slabs_in_use",
                                               "pages_in_use",
                                               "live_chunks",
                                               "host_requests",
                                               "grants",
                                               "returns",
                                               "pings",
                                               "abandoned",
                                               "late_responses",
                                               "refills",
                                               "segments_committed",
                                               "segments_granted",
                                               "segments_free",
                                               "segments_in_cache",
                                               "peak_segments_granted",
                                               "committed_bytes",
                                               "peak_committed_bytes",
                                               "capacity_bytes",
                                               "metadata_bytes",
                                               "invalid_frees",
                                               "block_faults",
                                               "service_polls",
                                               "service_sleeps"};

/// Each field has its index plus one million, so that a mix-up shows.
statistics distinct() {
    statistics values;
    std::uint64_t next = 1'000'000;
    for (const statistic_info& info : statistic_table()) {
        values.*info.field = next++;
    }
    return values;
}

TEST(statistics_table, starts_at_zero) {
    const statistics values;
    for (const statistic_info& info : statistic_table()) {
        EXPECT_EQ(values.*info.field, 0u) << info.name;
    }
}

TEST(statistics_table, has_every_name_of_version_2) {
    ASSERT_EQ(statistics::version, 2);
    std::set<std::string_view> found;
    for (const statistic_info& info : statistic_table()) {
        found.insert(info.name);
    }
    EXPECT_EQ(found.size(), statistic_table().size()) << "a name stands twice";
    for (const char* name : totals_of_version_2) {
        EXPECT_TRUE(found.contains(name)) << name;
    }
}

TEST(statistics_table, covers_the_whole_struct) {
    EXPECT_EQ(statistic_table().size() * sizeof(std::uint64_t) + sizeof(statistics::classes), sizeof(statistics));
    EXPECT_EQ(distinct().allocations, 1'000'000u);
    EXPECT_EQ(distinct().frees, 1'000'001u);
}

TEST(statistics_table, units_are_known_and_help_is_there) {
    const std::set<std::string_view> units = {"count", "bytes", "segments", "slabs", "pages"};
    for (const statistic_info& info : statistic_table()) {
        EXPECT_TRUE(units.contains(info.unit)) << info.name << ": " << info.unit;
        EXPECT_GE(info.help.size(), 9u) << info.name;
        EXPECT_EQ(info.name.find("bytes") != std::string_view::npos, info.unit == "bytes") << info.name;
    }
}

TEST(statistics_json, has_the_version_and_every_value) {
    const auto json = nlohmann::ordered_json::parse(to_json(distinct()));
    EXPECT_EQ(json.size(), statistic_table().size() + 2);
    EXPECT_EQ(json.at("classes").size(), 0u);
    EXPECT_EQ(json.at("version"), 2);
    EXPECT_EQ(json.begin().key(), "version");
    std::uint64_t next = 1'000'000;
    auto member = std::next(json.begin());
    for (const statistic_info& info : statistic_table()) {
        EXPECT_EQ(member.key(), info.name);
        EXPECT_EQ(member.value().get<std::uint64_t>(), next++) << info.name;
        ++member;
    }
}

TEST(statistics_json, keeps_all_64_bits) {
    statistics values;
    values.host_requests = std::numeric_limits<std::uint64_t>::max();
    EXPECT_THAT(to_json(values), HasSubstr("\"host_requests\": 18446744073709551615"));
}

/// Returns the lines of the table, which stand below the version.
std::vector<std::string> table_lines(const statistics& values) {
    std::vector<std::string> lines = absl::StrSplit(to_text(values), '\n');
    EXPECT_EQ(lines.front(), "version 2");
    EXPECT_TRUE(lines.back().empty());
    return {lines.begin() + 1, lines.end() - 1};
}

TEST(statistics_text, has_one_line_for_each_value_below_the_version) {
    const std::vector<std::string> lines = table_lines(distinct());
    ASSERT_EQ(lines.size(), statistic_table().size());
    std::uint64_t next = 1'000'000;
    for (std::size_t i = 0; i < statistic_table().size(); ++i) {
        const statistic_info& info = statistic_table()[i];
        EXPECT_TRUE(lines[i].starts_with(std::string(info.name) + " ")) << lines[i];
        EXPECT_THAT(lines[i], HasSubstr(absl::StrCat(" ", next++)));
        EXPECT_THAT(lines[i], HasSubstr(absl::StrFormat(" %s", info.unit)));
        EXPECT_TRUE(lines[i].ends_with(info.help)) << lines[i];
    }
}

TEST(statistics_text, shows_bytes_in_binary_units_too) {
    statistics values;
    values.committed_bytes = 64ull << 20;
    values.metadata_bytes = 1000;
    EXPECT_THAT(to_text(values), HasSubstr("67108864 (64 MiB)"));
    EXPECT_THAT(to_text(values), HasSubstr(" 1000  bytes"));
}

TEST(statistics_text, columns_line_up) {
    statistics values;
    values.capacity_bytes = std::numeric_limits<std::uint64_t>::max();
    const std::vector<std::string> lines = table_lines(values);
    ASSERT_EQ(lines.size(), statistic_table().size());
    std::set<std::size_t> columns;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        columns.insert(lines[i].size() - statistic_table()[i].help.size());
    }
    EXPECT_EQ(columns.size(), 1u) << to_text(values);
}

}  // namespace
}  // namespace orchard
