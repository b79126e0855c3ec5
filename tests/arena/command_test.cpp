// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "profiling/arena/task.hpp"
#include "tests/support/run_command.hpp"

namespace orchard::arena {
namespace {

using nlohmann::ordered_json;
using test::run_emulated;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class arena_command : public testing::Test {
protected:
    void SetUp() override { std::filesystem::create_directory(folder_); }
    ~arena_command() override { std::filesystem::remove_all(folder_); }

    [[nodiscard]] std::string file(const std::string& name) const { return folder_ + "/" + name; }
    static std::string text_of(const std::string& path) {
        std::stringstream text;
        text << std::ifstream(path).rdbuf();
        return text.str();
    }
    static ordered_json document_of(const std::string& path) { return ordered_json::parse(text_of(path)); }
    void write(const std::string& name, const ordered_json& document) const {
        std::ofstream(file(name)) << document.dump();
    }

    std::string folder_ = testing::TempDir() + "arena_command_" + std::to_string(::getpid());
};

TEST(arena_cases, names_differ_and_ten_are_quick) {
    std::set<std::string> names;
    int quick = 0;
    for (const arena_case& c : all_cases()) {
        EXPECT_TRUE(names.insert(c.name).second) << c.name;
        EXPECT_FALSE(c.source.empty());
        EXPECT_LE(for_device(c, simt::device_kind::emulated).threads, 512u);
        quick += c.quick;
    }
    EXPECT_EQ(quick, 10);
}

TEST_F(arena_command, writes_all_its_files) {
    const auto [code, text] = run_emulated(
        "arena", {"--quick", "--allocator", "orchard,test_null", "--only", "winter_9a,winter_9d", "--limit", "100",
                  "--budget", "1000", "--json", file("a.json"), "--csv", file("a.csv"), "--markdown", file("a.md")});
    EXPECT_EQ(code, 0) << text;
    EXPECT_THAT(text,
                AllOf(HasSubstr("winter_9a/64"), HasSubstr("requests gave null"), HasSubstr("say nothing of a GPU")));
    const ordered_json document = document_of(file("a.json"));
    EXPECT_EQ(document.at("commit"), "0123abc");
    EXPECT_EQ(document.at("options").at("cases"), "quick");
    EXPECT_TRUE(document.at("machine").contains("host"));
    ASSERT_EQ(document.at("rows").size(), 6u);  // the floor, too
    EXPECT_EQ(document.at("rows")[0].at("allocator"), "bump");
    EXPECT_EQ(document.at("rows")[0].at("ratio_to_floor"), 1.0);
    EXPECT_EQ(document.at("rows")[0].at("commit"), "0123abc");
    EXPECT_EQ(document.at("rows")[0].at("code"), "");
    EXPECT_TRUE(document.at("rows")[2].at("ratio_to_floor").is_number());
    EXPECT_EQ(document.at("rows")[4].at("verdict"), "null");
    EXPECT_THAT(text_of(file("a.csv")), HasSubstr("\norchard,winter_9d/4096,"));
    EXPECT_THAT(text_of(file("a.md")), HasSubstr("- `test_null`, `winter_9a/64`: null"));
}

TEST_F(arena_command, goes_on_where_it_was) {
    const std::vector<std::string> words = {
        "--full", "--allocator",  "test_sound", "--only",      "winter_init,winter_11e/2^10", "--repeats", "2",
        "--json", file("a.json"), "--resume",   file("a.json")};
    ASSERT_EQ(run_emulated("arena", words).first, 0);
    ordered_json document = document_of(file("a.json"));
    ASSERT_EQ(document.at("rows").size(), 4u);
    // One row is lost, and another one marked: the first is measured again, the second is kept.
    const std::string lost = document["rows"][3].at("case");
    document["rows"].erase(3);
    document["rows"][2]["value"] = 12345.0;
    write("a.json", document);
    const auto [code, text] = run_emulated("arena", words);
    EXPECT_EQ(code, 0) << text;
    const ordered_json again = document_of(file("a.json"));
    ASSERT_EQ(again.at("rows").size(), 4u);
    EXPECT_EQ(again["rows"][2]["value"], 12345.0);
    EXPECT_EQ(again["rows"][3]["case"], lost);
}

TEST_F(arena_command, ends_with_its_budget_and_runs_the_rest_later) {
    const std::vector<std::string> words = {"--quick",      "--allocator", "test_hang", "--only",       "winter_9a",
                                            "--repeats",    "2",           "--json",    file("a.json"), "--resume",
                                            file("a.json"), "--limit",     "100"};
    auto short_of_time = words;
    short_of_time.insert(short_of_time.end(), {"--budget", "0.1"});
    const auto [code, text] = run_emulated("arena", short_of_time);
    EXPECT_EQ(code, 0) << text;
    EXPECT_THAT(text, HasSubstr("not run"));
    const ordered_json first = document_of(file("a.json"));
    ASSERT_EQ(first.at("rows").size(), 2u);
    EXPECT_EQ(first["rows"][1].at("verdict"), "not run");
    auto later = words;
    later.back() = "0.5";
    ASSERT_EQ(run_emulated("arena", later).first, 0);
    const ordered_json second = document_of(file("a.json"));
    ASSERT_EQ(second.at("rows").size(), 2u);
    EXPECT_EQ(second["rows"][1].at("verdict"), "hang");
}

TEST_F(arena_command, a_comparison_that_is_worse_exits_with_1) {
    const auto one = [](double value) {
        return ordered_json{
            {"rows", {{{"allocator", "a"}, {"case", "c"}, {"verdict", "ok"}, {"unit", "us"}, {"value", value}}}}};
    };
    write("old.json", one(10));
    write("new.json", one(12));
    const std::vector<std::string> words = {"--read", file("new.json"), "--compare", file("old.json")};
    const auto [code, text] = run_emulated("arena", words);
    EXPECT_EQ(code, 1);
    EXPECT_THAT(text, HasSubstr("1 rows, 1 worse by more than 1.1, 0 better\n  worse   a  c  10 -> 12 (1.2 times)"));
    auto lenient = words;
    lenient.insert(lenient.end(), {"--threshold", "1.3"});
    EXPECT_EQ(run_emulated("arena", lenient).first, 0);
}

TEST_F(arena_command, lists_what_there_is) {
    const auto [code, text] = run_emulated("arena", {"--list"});
    EXPECT_EQ(code, 0);
    EXPECT_THAT(text, AllOf(HasSubstr("\norchard "), HasSubstr("\nbump "), HasSubstr("\nscan "),
                            HasSubstr("Winter et al., PPoPP 2021, Fig. 9a"), Not(HasSubstr("cuda_malloc"))));
}

TEST_F(arena_command, one_line_says_what_is_wrong) {
    write("other.json", {{"rows", {{{"x", 1}}}}});
    const std::string quick = "--quick";
    test::expect_refused("arena", {{},
                                   {quick, "--full"},
                                   {quick, "--allocator", "none"},
                                   {quick, "--allocator", "cuda_malloc"},
                                   {quick, "--only", "none"},
                                   {quick, "--only", "winter_10"},
                                   {quick, "--memory", "1MiB"},
                                   {quick, "--memory", "much"},
                                   {quick, "--repeats", "0"},
                                   {quick, "--limit", "0"},
                                   {quick, "--budget", "0"},
                                   {quick, "--threshold", "0.5"},
                                   {"--read", file("none.json")},
                                   {"--read", file("other.json")},
                                   {quick, "--compare", file("other.json")},
                                   {quick, "--resume", file("other.json")},
                                   {quick, "--json", "/nonexistent/a.json"},
                                   {quick, "--csv", "/nonexistent/a.csv"}});
}

}  // namespace
}  // namespace orchard::arena
