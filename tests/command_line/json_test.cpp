// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <checkout.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/str_split.h"
#include "runtime/cli/command_line.hpp"
#include "runtime/cli/json_output.hpp"
#include "tests/options/clean_environment.hpp"
#include "tests/support/run_command.hpp"

namespace orchard::command_line {
namespace {

using nlohmann::ordered_json;
using test::outcome;
using test::run_with;
using testing::HasSubstr;

/// A subcommand that has results: a small run of it, and a member of its document.
struct one_command {
    const char* words;
    const char* member;
};
std::ostream& operator<<(std::ostream& to, const one_command& c) { return to << c.words; }

class json_of_commands : public testing::TestWithParam<one_command> {
protected:
    ~json_of_commands() override { std::filesystem::remove(file_); }

    /// Runs the command with more words behind it.
    static outcome run_command(const std::vector<std::string>& more) {
        std::vector<std::string> words = absl::StrSplit(GetParam().words, ' ');
        words.insert(words.end(), more.begin(), more.end());
        return run_with(words, "0123abc");
    }
    static void expect_document(const std::string& text) {
        const auto document = ordered_json::parse(text);
        auto member = document.begin();
        for (const char* name : {"version", "commit", "device", "command"}) {
            EXPECT_EQ(member.key(), name);
            ++member;
        }
        EXPECT_EQ(document.at("version"), ORCHARD_VERSION);
        EXPECT_EQ(document.at("commit"), "0123abc");
        EXPECT_TRUE(document.at("device").at("kind").is_string());
        EXPECT_TRUE(document.at("device").at("reason").is_string());
        EXPECT_TRUE(document.at("command").is_string());
        EXPECT_TRUE(document.contains(GetParam().member)) << text;
    }

    testing_support::clean_environment environment_;
    std::string file_ = testing::TempDir() + "json_test_" + std::to_string(::getpid());
};

TEST_P(json_of_commands, is_alone_on_standard_output) {
    for (const std::vector<std::string>& option : {std::vector<std::string>{"--json"}, {"--json", "-"}, {"--json=-"}}) {
        const outcome result = run_command(option);
        EXPECT_EQ(result.code, 0) << result.err;
        EXPECT_EQ(result.err, "");
        expect_document(result.out);
    }
}

TEST_P(json_of_commands, goes_to_a_file_beside_the_text) {
    const outcome result = run_command({"--json", file_});
    EXPECT_EQ(result.code, 0) << result.err;
    std::stringstream text;
    text << std::ifstream(file_).rdbuf();
    expect_document(text.str());
    EXPECT_NE(result.out, "");
    EXPECT_NE(result.out.front(), '{');
}

TEST_P(json_of_commands, names_a_file_that_cannot_be_written) {
    const outcome result = run_command({"--json", "/nonexistent/a.json"});
    EXPECT_EQ(result.code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr("/nonexistent/a.json: cannot be written"));
}

INSTANTIATE_TEST_SUITE_P(
    all, json_of_commands,
    testing::Values(
        one_command{"info", "gpus"}, one_command{"options", "options"},
        one_command{"quickstart --device emulated", "statistics"}, one_command{"layouts --device emulated", "rows"},
        one_command{"walk --rmat 6 --device emulated", "statistics"},
        one_command{"demo --walkers 10 --device emulated", "statistics"},
        one_command{"apps gemm --bytes 1MiB --threads 64 --passes 1 --device emulated", "rows"},
        one_command{"profile --read " ORCHARD_SOURCE_DIR "/tests/fuzz/corpus/profile/records", "rows"},
        one_command{"bench shortage --quick --repeats 1 --device emulated", "rows"}, one_command{"top --list", "heaps"},
        one_command{"trace " ORCHARD_SOURCE_DIR "/tests/fuzz/corpus/event_trace/walk", "kinds"},
        one_command{"replay " ORCHARD_SOURCE_DIR "/tests/fuzz/corpus/event_trace/walk --device emulated", "statistics"},
        one_command{"uvm --pattern same-index --threads 64 --bytes-per-thread 4KiB", "rows"}),
    [](const testing::TestParamInfo<one_command>& about) {
        const std::string words = about.param.words;
        return words.substr(0, words.find(' '));
    });

TEST(json_option, may_stand_before_another_option) {
    const outcome result =
        run_with({"uvm", "--json", "--threads", "64", "--bytes-per-thread", "4KiB", "--pattern", "same-index"});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(ordered_json::parse(result.out).at("threads"), 64);
}

TEST(json_option, does_not_go_with_the_documentation_of_options) {
    const outcome result = run_with({"options", "--markdown", "--json"});
    EXPECT_EQ(result.code, 2);
    EXPECT_EQ(result.out, "");
}

TEST(json_document, has_four_members_and_then_its_own) {
    const ordered_json document =
        json_document(device_json({simt::device_kind::emulated, "it was asked for"}), {{"rows", {1, 2}}});
    EXPECT_EQ(document.at("device"), (ordered_json{{"kind", "emulated"}, {"reason", "it was asked for"}}));
    EXPECT_EQ(document.at("rows"), (ordered_json{1, 2}));
    EXPECT_EQ(document.size(), 5u);
}

TEST(json_of_statistics, has_every_statistic) {
    statistics values;
    values.allocations = 18'446'744'073'709'551'615u;
    const ordered_json json = json_of(values);
    EXPECT_EQ(json.at("version"), statistics::version);
    EXPECT_EQ(json.at("allocations").get<std::uint64_t>(), values.allocations);
    for (const statistic_info& info : statistic_table()) {
        EXPECT_TRUE(json.contains(std::string(info.name))) << info.name;
    }
}

TEST(json_output, replaces_what_is_no_utf8) {
    absl::StatusOr<json_output> out = json_output::open({true, ""});
    ASSERT_TRUE(out.ok());
    testing::internal::CaptureStdout();
    EXPECT_TRUE(out->commit(device_json("none", "a test"), {{"path", "a\xff"}}).ok());
    EXPECT_EQ(ordered_json::parse(testing::internal::GetCapturedStdout()).at("path"), "a\uFFFD");
}

}  // namespace
}  // namespace orchard::command_line
