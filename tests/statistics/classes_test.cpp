// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The statistics of classes of pages, as text and as JSON.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/statistics/statistics.hpp"

namespace orchard {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* names_of_version_2[] = {"page_bytes",  "slabs", "pages_in_use", "pages_free",
                                              "allocations", "nulls", "groups",       "multi_lane_groups"};

/// Returns two classes in use, with values that distinguish the fields, and a third class that is not in use.
statistics two_classes() {
    statistics values;
    for (const std::size_t c : {3, 55}) {
        std::uint64_t next = 1000 * c;
        for (const class_statistic_info& info : class_statistic_table()) {
            values.classes[c].*info.field = ++next;
        }
    }
    values.classes[7].page_bytes = 77'777;
    return values;
}

std::vector<std::string> lines_of_classes(const statistics& values) {
    const std::vector<std::string> parts = absl::StrSplit(to_text(values), "\n\n");
    return parts.size() == 2 ? std::vector<std::string>(absl::StrSplit(parts[1], '\n', absl::SkipEmpty()))
                             : std::vector<std::string>();
}

TEST(class_statistics_table, has_every_name_of_version_2_once) {
    ASSERT_EQ(statistics::version, 2);
    std::set<std::string_view> found;
    for (const class_statistic_info& info : class_statistic_table()) {
        found.insert(info.name);
    }
    EXPECT_EQ(found.size(), class_statistic_table().size()) << "a name stands twice";
    for (const char* name : names_of_version_2) {
        EXPECT_TRUE(found.contains(name)) << name;
    }
}

TEST(class_statistics_table, covers_the_whole_struct) {
    EXPECT_EQ(class_statistic_table().size() * sizeof(std::uint64_t), sizeof(class_statistics));
}

TEST(class_statistics_table, units_are_known_and_help_is_there) {
    const std::set<std::string_view> units = {"count", "bytes", "slabs", "pages"};
    for (const class_statistic_info& info : class_statistic_table()) {
        EXPECT_TRUE(units.contains(info.unit)) << info.name << ": " << info.unit;
        EXPECT_GE(info.help.size(), 9u) << info.name;
        EXPECT_EQ(info.name.find("bytes") != std::string_view::npos, info.unit == "bytes") << info.name;
    }
}

TEST(class_statistics, are_in_use_once_asked_for_or_with_slabs) {
    EXPECT_FALSE(class_statistics{}.in_use());
    for (const auto field : {&class_statistics::slabs, &class_statistics::groups, &class_statistics::nulls}) {
        class_statistics one;
        one.*field = 1;
        EXPECT_TRUE(one.in_use());
    }
}

TEST(class_statistics_json, has_an_object_for_each_class_in_use) {
    const auto classes = nlohmann::ordered_json::parse(to_json(two_classes())).at("classes");
    ASSERT_EQ(classes.size(), 2u);
    for (const std::size_t i : {0, 1}) {
        std::uint64_t next = i == 0 ? 3000 : 55'000;
        auto member = classes[i].begin();
        for (const class_statistic_info& info : class_statistic_table()) {
            EXPECT_EQ(member.key(), info.name);
            EXPECT_EQ(member.value().get<std::uint64_t>(), ++next) << info.name;
            ++member;
        }
        EXPECT_EQ(member, classes[i].end());
    }
}

TEST(class_statistics_text, has_a_line_of_names_and_one_for_each_class_in_use) {
    const std::vector<std::string> lines = lines_of_classes(two_classes());
    ASSERT_EQ(lines.size(), 3u) << to_text(two_classes());
    EXPECT_THAT(to_text(two_classes()), Not(HasSubstr("77777")));
    for (const std::size_t i : {1, 2}) {
        const std::vector<std::string> cells = absl::StrSplit(lines[i], ' ', absl::SkipEmpty());
        ASSERT_EQ(cells.size(), class_statistic_table().size()) << lines[i];
        std::uint64_t next = i == 1 ? 3000 : 55'000;
        for (const std::string& cell : cells) {
            EXPECT_EQ(cell, absl::StrCat(++next));
        }
    }
    const std::vector<std::string> names = absl::StrSplit(lines[0], ' ', absl::SkipEmpty());
    ASSERT_EQ(names.size(), class_statistic_table().size());
    for (std::size_t i = 0; i < names.size(); ++i) {
        EXPECT_EQ(names[i], class_statistic_table()[i].name);
    }
}

TEST(class_statistics_text, columns_line_up) {
    const std::vector<std::string> lines = lines_of_classes(two_classes());
    ASSERT_EQ(lines.size(), 3u);
    EXPECT_EQ(lines[0].size(), lines[1].size());
    EXPECT_EQ(lines[0].size(), lines[2].size());
}

TEST(class_statistics_text, is_left_out_where_no_class_is_in_use) {
    EXPECT_THAT(to_text(statistics{}), Not(HasSubstr("\n\n")));
    EXPECT_THAT(to_text(statistics{}), Not(HasSubstr("page_bytes")));
}

}  // namespace
}  // namespace orchard
