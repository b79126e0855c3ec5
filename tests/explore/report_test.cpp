// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "tests/explore/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/explore/planted.hpp"

namespace orchard::explore {
namespace {

using simt::explore::strategy;
using testing::HasSubstr;
using testing::Not;
using testing_support::lost_update;
using testing_support::right;

TEST(parse_blocks, reads_what_text_of_writes) {
    for (const char* text : {"1", "3+2,3", "32,32,32", "1+1+1+1"}) {
        const auto blocks = parse_blocks(text);
        ASSERT_TRUE(blocks.ok()) << blocks.status();
        EXPECT_EQ(text_of(*blocks), text);
    }
    EXPECT_EQ(*parse_blocks("3+2,4"), (std::vector<simt::explore::block_shape>{{3, 2}, {4}}));
}

TEST(parse_blocks, refuses_what_is_none) {
    for (const char* text : {"", ",", "3+", "3,,3", "0", "33", "-1", "x", "3x", "3 2", "99999999999"}) {
        EXPECT_TRUE(absl::IsInvalidArgument(parse_blocks(text).status())) << text;
    }
    std::string many = "1";
    for (int i = 0; i < 64; ++i) {
        many += "+1";
    }
    EXPECT_THAT(std::string(parse_blocks(many).status().message()), HasSubstr("more than 64 warps"));
}

TEST(replay_command, names_the_scale_only_where_it_is_another) {
    EXPECT_EQ(replay_command({&right, right.size}, 7, strategy::priority),
              "./orchard explore --scenario planted_right --seed 7 --strategy priority");
    EXPECT_EQ(replay_command({&right, {{{2}}, 2}}, 8, strategy::uniform),
              "./orchard explore --scenario planted_right --blocks 2 --seed 8 --strategy uniform");
    EXPECT_EQ(replay_command({&right, {right.size.blocks, 1}}, 8, strategy::uniform),
              "./orchard explore --scenario planted_right --operations 1 --seed 8 --strategy uniform");
}

class report : public testing::Test {
protected:
    report() {
        plan_.scenarios = {{&lost_update, lost_update.size}, {&right, right.size}};
        plan_.seeds = 40;
        all_ = run_plan(plan_);
    }
    plan plan_;
    std::vector<tally> all_;
};

TEST_F(report, text_has_a_line_for_each_scenario_and_what_was_found) {
    const std::string text = text_of(plan_, all_, 2.0);
    EXPECT_THAT(text, HasSubstr("\nplanted_lost_update"));
    EXPECT_THAT(text, HasSubstr("\nplanted_right"));
    EXPECT_THAT(text, HasSubstr("80 runs in 2.0 s, 40 a second"));
    const finding f = all_[0].findings().front();
    EXPECT_THAT(text, HasSubstr("planted_lost_update: " + std::to_string(f.count)));
    EXPECT_THAT(text, HasSubstr(f.text));
    EXPECT_THAT(text, HasSubstr(replay_command(plan_.scenarios[0], f.seed, f.how) + " --trace\n"));
    EXPECT_THAT(text, Not(HasSubstr("planted_right: ")));
}

TEST_F(report, json_has_the_same) {
    const nlohmann::ordered_json json = json_of(plan_, all_, 2.0);
    EXPECT_EQ(json["runs"], 80);
    EXPECT_EQ(json["violations"], all_[0].violations());
    EXPECT_EQ(json["scenarios"].size(), 2u);
    const auto& lost = json["scenarios"][0];
    EXPECT_EQ(lost["scenario"], "planted_lost_update");
    EXPECT_EQ(lost["blocks"], "3+2,3");
    EXPECT_EQ(lost["points"]["median"], all_[0].median_points());
    EXPECT_EQ(lost["found"][0]["seed"], all_[0].findings().front().seed);
    EXPECT_EQ(json["scenarios"][1]["found"].size(), 0u);
}

TEST(list_of, has_name_scale_and_sentence) {
    EXPECT_THAT(list_of({right}), testing::ContainsRegex("^planted_right +3\\+2,3 x 2 +Counts\\.\n$"));
}

}  // namespace
}  // namespace orchard::explore
