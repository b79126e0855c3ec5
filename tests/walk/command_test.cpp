// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// `orchard walk` and `orchard demo` as a user calls them: exit codes, output, and the JSON file.

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <absl/strings/match.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <checkout.hpp>
#include <nlohmann/json.hpp>

#include "tests/graph/temporary_file.hpp"

namespace orchard::examples {
namespace {

using test::temporary_file;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

struct outcome {
    int code = -1;
    std::string text;
};

/// Runs `orchard <arguments>` by the shell and returns what it wrote to `stream` ("1" or "2") alone.
/// @param variable  set in its environment, as the shell has it: NAME=value
outcome orchard(const std::string& arguments, const char* stream, const char* variable = "") {
    const std::string to = *stream == '1' ? " 2>/dev/null" : " 2>&1 >/dev/null";
    const std::string command = std::string(variable) + " " + ORCHARD_PROGRAM + " " + arguments + to;
    outcome result;
    FILE* pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) {
        return result;
    }
    std::array<char, 4096> buffer;
    while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
        result.text.append(buffer.data(), n);
    }
    const int status = pclose(pipe);
    result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return result;
}

/// Exit code 2 and one line on standard error; returns the line.
std::string refusal(const std::string& arguments) {
    const outcome result = orchard(arguments, "2");
    EXPECT_EQ(result.code, 2) << arguments << ": " << result.text;
    EXPECT_EQ(std::count(result.text.begin(), result.text.end(), '\n'), 1) << result.text;
    EXPECT_EQ(orchard(arguments, "1").text, "") << arguments;
    return result.text;
}

std::string read_all(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

std::string temporary_path(const char* name) {
    return (std::filesystem::temp_directory_path() / (std::string("orchard_command_test.") + name)).string();
}

constexpr char small_rmat[] = "walk --rmat 10 --edge-factor 8 --device emulated --capacity 256MiB";

TEST(walk_command, a_good_run_prints_a_table_and_exits_with_0) {
    const outcome result = orchard(small_rmat, "1");
    EXPECT_EQ(result.code, 0);
    for (const char* part :
         {"rmat scale 10", "insert", "host_requests", "passed  visits equal", "all checks passed\n"}) {
        EXPECT_TRUE(absl::StrContains(result.text, part)) << part << "\n" << result.text;
    }
    EXPECT_EQ(orchard(small_rmat, "2").text, "");  // no progress bar without a terminal
}

TEST(walk_command, quiet_prints_the_checks_alone) {
    const outcome result = orchard(std::string(small_rmat) + " --quiet", "1");
    EXPECT_TRUE(absl::StartsWith(result.text, "checks\n")) << result.text;
}

TEST(walk_command, json_holds_what_was_run_and_found) {
    const std::string path = temporary_path("good.json");
    EXPECT_EQ(orchard(std::string(small_rmat) + " --walkers 50 --steps 7 --dead-ends restart --json " + path, "1").code,
              0);
    const nlohmann::json result = nlohmann::json::parse(read_all(path));
    std::filesystem::remove(path);
    EXPECT_EQ(result["version"], "0.1.0");
    EXPECT_EQ(result["device"]["kind"], "emulated");
    EXPECT_EQ(result["passed"], true);
    EXPECT_EQ(result["walk"]["walkers"], 50);
    EXPECT_EQ(result["walk"]["dead_ends"], "restart");
    EXPECT_EQ(result["graph"]["vertices"], 1024);
    EXPECT_EQ(result["heap_options"]["capacity"], "256 MiB");
    EXPECT_EQ(result["statistics"]["allocations"], result["statistics"]["frees"]);
    EXPECT_GT(result["statistics_before_freeing"]["pages_in_use"], 0);
    EXPECT_EQ(result["phases"][1]["name"], "walk");
    EXPECT_EQ(result["phases"][1]["items"], 50 * 8);
}

TEST(walk_command, prints_statistics_if_the_environment_asks_for_them) {
    EXPECT_EQ(orchard(small_rmat, "2").text, "");
    const outcome result = orchard(small_rmat, "2", "ORCHARD_SHOW_STATS=1");
    EXPECT_EQ(result.code, 0);
    EXPECT_THAT(result.text, StartsWith("orchard: statistics of heap 0:\nversion 2\nallocations "));
    EXPECT_THAT(result.text, ContainsRegex("\nslabs_published +[1-9][0-9]* +slabs +segments made slabs so far\n"));
    EXPECT_THAT(result.text, ContainsRegex("\nfailed_allocations +0 +count "));
}

TEST(walk_command, prints_growth_and_shortages_if_the_environment_asks_for_them) {
    const std::string too_small =
        "walk --rmat 10 --edge-factor 64 --device emulated --backing elastic --capacity 8MiB --commit-ahead 0";
    EXPECT_THAT(orchard(too_small, "2").text, Not(HasSubstr("orchard: heap")));
    const outcome result = orchard(too_small, "2", "ORCHARD_VERBOSE=1");
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(result.text,
                ContainsRegex("orchard: heap 0: growth: [0-9]+ MiB more, [0-9]+ MiB committed now, of [0-9]+ MiB\n"));
    EXPECT_THAT(result.text, ContainsRegex("orchard: heap 0: shortage: a request of [0-9]+ bytes"));
}

TEST(walk_command, json_on_standard_output_is_all_that_is_there) {
    for (const char* option : {" --json", " --json -"}) {
        const outcome document = orchard(std::string(small_rmat) + option, "1");
        EXPECT_EQ(document.code, 0);
        EXPECT_EQ(nlohmann::json::parse(document.text).at("passed"), true) << option;
    }
    EXPECT_EQ(orchard(std::string(small_rmat) + " --json", "2").text, "");
    // The program, and not only its tests, says which commit it is.
    EXPECT_NE(nlohmann::json::parse(orchard("info --json", "1").text).at("commit"), "");
}

TEST(walk_command, a_tiny_graph_passes_and_says_what_it_did_not_use) {
    const temporary_file file("path", "0 1\n1 2\n");
    const outcome result = orchard("walk --device emulated " + file.path(), "1");
    EXPECT_EQ(result.code, 0);
    EXPECT_TRUE(absl::StrContains(result.text, "unused  lists moved")) << result.text;
    EXPECT_TRUE(absl::StrContains(result.text, "all checks passed; this run did not use every path")) << result.text;
}

TEST(walk_command, bad_input_exits_with_2_and_one_line) {
    const temporary_file bad("bad", "0 1\n1 x\n");
    EXPECT_TRUE(absl::StrContains(refusal("walk " + bad.path()), bad.path() + ":2: 'x'"));
    EXPECT_TRUE(absl::StrContains(refusal("walk /nonexistent/g.mtx"), "/nonexistent/g.mtx: no such file"));
    EXPECT_TRUE(absl::StrContains(refusal("walk /"), "is a folder"));
    EXPECT_TRUE(absl::StrContains(refusal("walk"), "--rmat SCALE"));
    EXPECT_TRUE(absl::StrContains(refusal("walk --rmat 5 --allocator kma"), "this program has no 'kma', only orchard"));
    EXPECT_TRUE(absl::StrContains(refusal("tree --allocator kma"), "this program has no 'kma', only orchard"));
    EXPECT_TRUE(absl::StrContains(refusal("walk --rmat 5 " + bad.path()), "give one of them"));
    EXPECT_TRUE(absl::StrContains(refusal("walk --rmat 99"), "99"));
    EXPECT_TRUE(absl::StrContains(refusal("walk --rmat 5 --walkers 0"), "--walkers"));
    EXPECT_TRUE(absl::StrContains(refusal("walk --rmat 5 --steps -1"), "-1"));
    EXPECT_TRUE(absl::StrContains(refusal("walk --rmat 5 --dead-ends jump"), "jump"));
    EXPECT_TRUE(absl::StrContains(refusal("walk --rmat 5 --capacity lots"), "lots"));
    EXPECT_TRUE(absl::StrContains(refusal("walk --rmat 5 --walker 3"), "--walker"));
    EXPECT_TRUE(absl::StrContains(refusal("demo --bogus"), "--bogus"));
}

TEST(walk_command, nothing_is_half_written) {
    const temporary_file bad("bad", "0 1\n1 x\n");
    const std::string folder = temporary_path("folder");
    std::filesystem::create_directory(folder);
    const std::string old = folder + "/old.json";
    std::ofstream(old) << "as it was";
    refusal("walk " + bad.path() + " --json " + old);
    refusal("walk " + bad.path() + " --json " + folder + "/new.json");
    EXPECT_EQ(read_all(old), "as it was");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);  // no new.json, no temporary file
    EXPECT_TRUE(absl::StrContains(refusal("walk --rmat 5 --json " + folder), "is a folder"));
    EXPECT_TRUE(absl::StrContains(refusal("walk --rmat 5 --json /nonexistent/a.json"), "No such file"));
    std::filesystem::remove_all(folder);
}

TEST(demo_command, explains_and_passes) {
    const outcome result = orchard("demo --device emulated --walkers 100", "1");
    EXPECT_EQ(result.code, 0) << result.text;
    EXPECT_TRUE(absl::StrContains(result.text, "dependency graph of Debian 12"));
    EXPECT_TRUE(absl::StrContains(result.text, "all checks passed\n"));
}

}  // namespace
}  // namespace orchard::examples
