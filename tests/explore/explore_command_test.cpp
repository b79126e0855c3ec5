// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "tests/explore/explore_command.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/explore/planted.hpp"

namespace orchard::explore {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

const registrar wrong{testing_support::lost_update};
const registrar good{testing_support::right};

struct outcome {
    int code;
    std::string out;
    std::string err;
};

outcome run_with(std::vector<std::string> arguments) {
    std::vector<const char*> argv = {"orchard", "explore"};
    for (const std::string& argument : arguments) {
        argv.push_back(argument.c_str());
    }
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = command_line::run(static_cast<int>(argv.size()), argv.data());
    std::string out = testing::internal::GetCapturedStdout();
    return {code, std::move(out), testing::internal::GetCapturedStderr()};
}

/// Runs the scenario that counts wrongly, at its own scale.
outcome run_wrong(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--scenario", "planted_lost_update"});
    return run_with(std::move(arguments));
}

/// Expects exit code 2, and one line on standard error with these words.
void expect_refused(const std::vector<std::string>& arguments, const std::string& words) {
    const outcome o = run_with(arguments);
    EXPECT_EQ(o.code, 2) << words;
    EXPECT_EQ(o.out, "") << words;
    EXPECT_THAT(o.err, HasSubstr(words));
    EXPECT_EQ(std::ranges::count(o.err, '\n'), 1) << o.err;
}

class explore_files : public testing::Test {
protected:
    explore_files() { std::filesystem::create_directories(folder_); }
    ~explore_files() override { std::filesystem::remove_all(folder_); }
    [[nodiscard]] std::string path(const char* name) const { return (folder_ / name).string(); }
    static std::string text_in(const std::string& file) {
        std::ostringstream text;
        text << std::ifstream(file).rdbuf();
        return text.str();
    }

private:
    std::filesystem::path folder_ =
        std::filesystem::path(testing::TempDir()) /
        (std::string("explore_") + testing::UnitTest::GetInstance()->current_test_info()->name());
};

/// The first seed of the scenario that shows its fault.
std::string failing_seed() {
    plan p;
    p.scenarios = {{&testing_support::lost_update, testing_support::lost_update.size}};
    p.how = simt::explore::strategy::uniform;
    p.seeds = 100;
    return std::to_string(run_plan(p).front().findings().front().seed);
}

TEST(explore_command, runs_seeds_and_says_what_was_found) {
    const outcome bad = run_wrong({"--seeds", "50", "--threads", "2"});
    EXPECT_EQ(bad.code, 1);
    EXPECT_THAT(bad.out, HasSubstr("were not counted"));
    EXPECT_THAT(bad.out, HasSubstr("  ./orchard explore --scenario planted_lost_update --seed "));
    EXPECT_EQ(bad.err, "") << "no progress where standard error is no terminal";
    const outcome ok = run_with({"--scenario", "planted_right", "--seeds", "50"});
    EXPECT_EQ(ok.code, 0);
    EXPECT_THAT(ok.out, HasSubstr("50 runs in "));
}

TEST(explore_command, takes_several_scenarios_and_a_scale) {
    const outcome o = run_with({"--scenario", "planted_right", "--scenario", "planted_lost_update", "--seeds", "10",
                                "--blocks", "1", "--operations", "1"});
    EXPECT_EQ(o.code, 0) << "one lane loses no update\n" << o.out;
    EXPECT_THAT(o.out, HasSubstr("planted_lost_update"));
}

TEST(explore_command, lists_scenarios) {
    const outcome o = run_with({"--list"});
    EXPECT_EQ(o.code, 0);
    EXPECT_THAT(o.out, HasSubstr("planted_right"));
    EXPECT_THAT(o.out, HasSubstr("page_claim"));
}

TEST(explore_command, runs_for_some_time) {
    const outcome o = run_with({"--scenario", "planted_right", "--minutes", "0.0001"});
    EXPECT_EQ(o.code, 0);
    EXPECT_THAT(o.out, HasSubstr(" runs in "));
}

TEST(explore_command, repeats_a_seed) {
    const std::string seed = failing_seed();
    const outcome o = run_wrong({"--seed", seed, "--strategy", "uniform"});
    EXPECT_EQ(o.code, 1);
    EXPECT_THAT(o.out, HasSubstr("violation: "));
    EXPECT_THAT(o.out, EndsWith("--seed " + seed + " --strategy uniform --trace\n"));
    EXPECT_EQ(run_wrong({"--seed", seed, "--strategy", "uniform"}).out, o.out);
}

TEST(explore_command, writes_a_trace_that_ends_with_the_verdict) {
    const outcome bad = run_wrong({"--seed", failing_seed(), "--strategy", "uniform", "--trace"});
    EXPECT_EQ(bad.code, 1);
    EXPECT_THAT(bad.out, testing::ContainsRegex("store relaxed device +counter"));
    EXPECT_THAT(bad.out,
                testing::ContainsRegex("\nviolation: [0-9]+ of 16 were not counted\n.* points, trace 0x.*\n$"));
    const outcome ok = run_with({"--scenario", "planted_right", "--seed", "1", "--trace"});
    EXPECT_EQ(ok.code, 0);
    EXPECT_THAT(ok.out, testing::ContainsRegex("\nok: [0-9]+ points, trace 0x[0-9a-f]+\n$"));
}

TEST_F(explore_files, a_trace_goes_to_a_file) {
    const mode_t before = ::umask(0);
    const outcome o = run_with({"--scenario", "planted_right", "--seed", "1", "--trace", path("trace")});
    ::umask(before);
    EXPECT_EQ(o.code, 0);
    EXPECT_EQ(std::filesystem::status(path("trace")).permissions(), std::filesystem::perms{0600});
    EXPECT_THAT(o.out, Not(HasSubstr("fetch_add")));
    const std::string text = text_in(path("trace"));
    EXPECT_THAT(text, HasSubstr("fetch_add"));
    EXPECT_THAT(text, EndsWith("\n" + o.out));
}

TEST_F(explore_files, shrinks_and_writes_the_smallest_trace) {
    const outcome o =
        run_wrong({"--seed", failing_seed(), "--strategy", "uniform", "--shrink", "--trace", path("trace")});
    EXPECT_EQ(o.code, 1);
    EXPECT_THAT(o.out, HasSubstr("shrank from 3+2,3 x 2 to 2 x 1\n"));
    EXPECT_THAT(o.out, HasSubstr(" and 1 surprise\n"));
    EXPECT_THAT(text_in(path("trace")), HasSubstr("violation: 1 of 2 were not counted"));
}

TEST_F(explore_files, json) {
    EXPECT_EQ(run_wrong({"--seeds", "20", "--json", path("json")}).code, 1);
    const auto json = nlohmann::json::parse(text_in(path("json")));
    EXPECT_EQ(json["runs"], 20);
    EXPECT_EQ(json["scenarios"][0]["scenario"], "planted_lost_update");
    EXPECT_EQ(json["device"]["kind"], "simulated");
    // On standard output without the table.
    const outcome alone = run_wrong({"--seeds", "20", "--json"});
    EXPECT_EQ(alone.code, 1);
    EXPECT_EQ(nlohmann::json::parse(alone.out)["runs"], 20);
    expect_refused({"--scenario", "planted_right", "--json", path("none/json")}, "cannot be written");
    expect_refused({"--scenario", "planted_lost_update", "--seed", failing_seed(), "--strategy", "uniform", "--trace",
                    path("none/trace")},
                   "cannot be written");
}

TEST(explore_command, searches_exhaustively) {
    const outcome bad = run_wrong({"--exhaustive", "1"});
    EXPECT_EQ(bad.code, 1);
    EXPECT_THAT(bad.out, HasSubstr("planted_lost_update at 1,1 x 1, at most 1 surprise: "));
    const outcome ok = run_with({"--scenario", "planted_right", "--exhaustive", "1"});
    EXPECT_EQ(ok.code, 0);
    EXPECT_THAT(ok.out, HasSubstr("all there are: no violation\n"));
    const outcome limited =
        run_with({"--scenario", "planted_right", "--exhaustive", "3", "--blocks", "3+2,3", "--most-runs", "10"});
    EXPECT_EQ(limited.code, 0);
    EXPECT_THAT(limited.out, HasSubstr(" 10 runs "));
    EXPECT_THAT(limited.out, HasSubstr("not all there are"));
}

TEST(explore_command, refuses_wrong_values) {
    expect_refused({"--scenario", "planted_wright"},
                   "there is no scenario \"planted_wright\" (nearest: planted_right); `explore --list` lists all");
    expect_refused({"--seeds", "0"}, "--seeds");
    expect_refused({"--seeds", "many"}, "--seeds");
    expect_refused({"--first", "-1"}, "--first");
    expect_refused({"--minutes", "-2"}, "--minutes");
    expect_refused({"--strategy", "fair"}, "--strategy: fair not in {uniform,priority}");
    expect_refused({"--threads", "0"}, "--threads");
    expect_refused({"--operations", "0"}, "--operations");
    expect_refused({"--blocks", "3+,2"}, "--blocks: \"3+,2\" has \"\" where 1 to 32 lanes should stand");
    expect_refused({"--scenario"}, "--scenario");
    expect_refused({"--seedz", "1"}, "unknown option --seedz");
}

TEST(explore_command, refuses_what_does_not_go_together) {
    const std::string named = "--scenario=planted_right";
    expect_refused({"--seed", "1"}, "--seed runs one seed of one scenario");
    expect_refused({named, "--seed", "1", "--seeds", "2"}, "--seed does not go with --seeds");
    expect_refused({named, "--seed", "1", "--exhaustive", "2"}, "--seed does not go with --exhaustive");
    expect_refused({named, "--shrink"}, "--shrink needs the --seed");
    expect_refused({named, "--trace"}, "--trace needs the --seed");
    expect_refused({named, "--seeds", "3", "--minutes", "1"}, "--seeds does not go with --minutes");
    expect_refused({named, "--exhaustive", "1", "--first", "4"}, "--exhaustive takes no seeds");
    expect_refused({"--exhaustive", "1"}, "--exhaustive needs a --scenario");
    expect_refused({named, "--most-runs", "4"}, "--most-runs limits --exhaustive");
    expect_refused({named, "--seed", "4", "--json", "x"}, "--json is for runs of many seeds");
    expect_refused({"--list", "--json"}, "--json is for runs of many seeds");
}

}  // namespace
}  // namespace orchard::explore
