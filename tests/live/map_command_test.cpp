// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// `orchard map --pid`: the map of a heap of another process.

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "runtime/cli/command_line.hpp"
#include "runtime/cli/map/read_map.hpp"
#include "tests/live/pages.hpp"

namespace orchard::live_test {
namespace {

using testing::HasSubstr;

class map_of_process : public testing::Test {
protected:
    ~map_of_process() override { std::filesystem::remove_all(folder_); }
    /// Runs `orchard map` with the words, and `-o` with `output()`. Returns the exit code.
    int run_map(std::vector<std::string> words) {
        words.insert(words.end(), {"-o", output()});
        std::vector<const char*> argv = {"orchard", "map"};
        for (const std::string& word : words) {
            argv.push_back(word.c_str());
        }
        testing::internal::CaptureStdout();
        testing::internal::CaptureStderr();
        const int code = command_line::run(static_cast<int>(argv.size()), argv.data(), "unknown");
        (void)testing::internal::GetCapturedStdout();
        error_ = testing::internal::GetCapturedStderr();
        return code;
    }
    [[nodiscard]] std::string output() const { return folder_ + "/map.json"; }

    testing_support::clean_environment environment_;
    std::string folder_ = [] {
        std::string folder = testing::TempDir() + "map_of_process_" + std::to_string(::getpid());
        std::filesystem::create_directory(folder);
        return folder;
    }();
    std::string error_;
};

TEST_F(map_of_process, is_that_of_its_heap) {
    child_process owner([](const auto& ready) { return own_heaps(1, ready); });
    ASSERT_TRUE(owner.is_ready());
    EXPECT_EQ(run_map({"--pid", std::to_string(owner.pid())}), 0) << error_;
    const absl::StatusOr<heap_map> map = command_line::read_map(output());
    ASSERT_TRUE(map.ok()) << map.status();
    EXPECT_EQ(map->pid, owner.pid());
    EXPECT_TRUE(map->is_exact);
    EXPECT_THAT(map->options, testing::Contains(testing::Pair("live_page", "true")));
}

TEST_F(map_of_process, names_one_of_several_heaps) {
    child_process owner([](const auto& ready) { return own_heaps(2, ready); });
    ASSERT_TRUE(owner.is_ready());
    const auto names = pages_of(owner.pid());
    ASSERT_EQ(names.size(), 2u);
    const std::string pid = std::to_string(owner.pid());
    EXPECT_EQ(run_map({"--pid", pid}), 2);
    EXPECT_THAT(error_, HasSubstr("has 2 heaps; name one with --heap N: "));
    EXPECT_EQ(run_map({"--pid", pid, "--heap", std::to_string(names[1].heap)}), 0) << error_;
    EXPECT_NE(run_map({"--pid", pid, "--heap", "4000000000"}), 0);
    EXPECT_THAT(error_, HasSubstr("has no such heap with a live page"));
}

TEST_F(map_of_process, needs_a_live_page) {
    EXPECT_NE(run_map({"--pid", "1"}), 0);
    EXPECT_THAT(error_, HasSubstr("process 1 has no such heap with a live page; start it with ORCHARD_LIVE_PAGE=1"));
    EXPECT_FALSE(std::filesystem::exists(output()));
}

}  // namespace
}  // namespace orchard::live_test
