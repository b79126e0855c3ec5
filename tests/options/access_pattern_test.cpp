// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The option for the access pattern of lanes, and the layout of a heap with such options.

#include <gtest/gtest.h>

#include <string>

#include "runtime/heap/automatic_layout.hpp"
#include "runtime/options/options.hpp"

namespace orchard {
namespace {

TEST(AccessPatternOption, IsUnknownUnlessNamed) {
    EXPECT_EQ(options{}.access_pattern, access_pattern::unknown);
    EXPECT_NE(to_text(options{}).find("access_pattern = unknown\n"), std::string::npos);
}

TEST(AccessPatternOption, EveryNameIsReadAndPrintedTheSame) {
    for (std::size_t i = 0; i < access_pattern_names.size(); ++i) {
        const std::string name(access_pattern_names[i]);
        options values;
        ASSERT_TRUE(set(values, "access_pattern", name).ok()) << name;
        EXPECT_EQ(static_cast<std::size_t>(values.access_pattern), i);
        EXPECT_EQ(name_of(values.access_pattern), name);
        EXPECT_TRUE(validate(values).ok());
        EXPECT_NE(to_text(values).find("access_pattern = " + name + "\n"), std::string::npos);
    }
}

TEST(AccessPatternOption, AnyOtherNameIsRefusedWithTheNamesThereAre) {
    const std::string names =
        "is not an access pattern; give unknown, same-index, random, sequential, strided, growth or graph-walk";
    for (const std::string text : {"", "same_index", "Random", "random ", "gemm", "0"}) {
        options values;
        const absl::Status s = set(values, "access-pattern", text);
        EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument) << text;
        EXPECT_EQ(s.message(), "access-pattern: \"" + text + "\" " + names);
        EXPECT_EQ(values, options{});
    }
    options values;
    values.access_pattern = static_cast<access_pattern>(7);
    EXPECT_EQ(validate(values).message(), "access_pattern: 7 " + names);
}

// A heap's portions follow the option and not the table, so the option's default must match the table.
TEST(RecommendedLayouts, ArePlacedAsHeapsAreByDefault) {
    for (const recommendation& r : recommended_layouts) {
        EXPECT_EQ(r.fits.portions, options{}.portions);
        EXPECT_EQ(r.oversubscribed.portions, options{}.portions);
    }
}

TEST(AutomaticLayout, IsTheTablesWhereTheDriverMovesMemory) {
    for (std::size_t i = 0; i < access_pattern_names.size(); ++i) {
        options values;
        values.backing = backing_option::managed;
        values.access_pattern = static_cast<access_pattern>(i);
        EXPECT_EQ(automatic_layout(values), recommended_layouts[i].fits.arrays) << access_pattern_names[i];
        values.allow_oversubscription = true;
        EXPECT_EQ(automatic_layout(values), recommended_layouts[i].oversubscribed.arrays) << access_pattern_names[i];
        values.advice = managed_advice::none;
        EXPECT_EQ(automatic_layout(values), recommended_layouts[i].oversubscribed.arrays) << access_pattern_names[i];
    }
}

TEST(AutomaticLayout, IsAutomaticWhereNothingMoves) {
    for (const backing_option backing : {backing_option::elastic, backing_option::fixed, backing_option::managed}) {
        for (std::size_t i = 0; i < access_pattern_names.size(); ++i) {
            options values;
            values.backing = backing;
            values.allow_oversubscription = true;  // concerns managed memory only
            values.host_budget = std::uint64_t{1} << 30;
            values.advice = managed_advice::cpu_resident;
            values.access_pattern = static_cast<access_pattern>(i);
            EXPECT_EQ(automatic_layout(values), layout::automatic()) << access_pattern_names[i];
        }
    }
}

TEST(AutomaticLayout, IsWhateverWasNamed) {
    for (const layout named : {layout::linear(), layout::interleaved(tile::b16), layout::interleaved(tile::k64)}) {
        options values;
        values.backing = backing_option::managed;
        values.allow_oversubscription = true;
        values.layout = named;
        EXPECT_EQ(automatic_layout(values), named);
    }
}

}  // namespace
}  // namespace orchard
