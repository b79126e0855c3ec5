// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Commands that read a file, where the file is missing, a folder, empty, a device, or may not be read: one line names
// the file and a remedy, and nothing is written.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/run_without_rights.hpp"

namespace orchard::command_line {
namespace {

namespace fs = std::filesystem;
using test::outcome;
using testing::HasSubstr;

/// A command that reads the file FILE, and what it says of a file without anything in it.
struct reading_command {
    const char* name;
    std::vector<std::string> words;  ///< FILE: the file that is read, OUT: one that is written
    const char* remedy_of_content;
    const char* remedy_of_folder = "Is a directory; name a file in it";
};
void PrintTo(const reading_command& one, std::ostream* to) { *to << one.name; }

const std::vector<reading_command>& commands() {
    static const char* const trace = "this is no trace of Orchard; record one with --trace FILE";
    static const std::vector<reading_command> all{
        {"trace", {"trace", "FILE"}, trace},
        {"trace_convert", {"trace", "convert", "FILE", "--to", "rmm", "-o", "OUT"}, trace},
        {"replay", {"replay", "FILE", "--device", "emulated"}, trace},
        {"bench_replay", {"bench", "replay", "--from", "FILE", "--device", "emulated"}, trace},
        {"map", {"map", "--dump", "FILE", "-o", "OUT"}, "write one with heap::dump"},
        {"profile",
         {"profile", "--read", "FILE"},
         "name one that `orchard profile --keep` has kept",
         "name a folder that --keep has filled"}};
    return all;
}

class command_that_reads : public testing::TestWithParam<reading_command> {
protected:
    void SetUp() override {
        ASSERT_TRUE(fs::create_directory(folder_));
        fs::permissions(folder_, fs::perms::all);
    }
    void TearDown() override { fs::remove_all(folder_); }

    [[nodiscard]] std::string in(const char* name) const { return folder_ + "/" + name; }
    [[nodiscard]] std::vector<std::string> words_for(const std::string& file) const {
        std::vector<std::string> words = GetParam().words;
        for (std::string& word : words) {
            word = word == "FILE" ? file : word == "OUT" ? in("out.svg") : word;
        }
        return words;
    }
    void expect_refused(const outcome& done, const std::string& file, const std::string& remedy) const {
        EXPECT_EQ(done.code, 2);
        EXPECT_EQ(done.out, "");
        EXPECT_EQ(std::ranges::count(done.err, '\n'), 1) << done.err;
        EXPECT_THAT(done.err, HasSubstr(file));
        EXPECT_THAT(done.err, HasSubstr(remedy));
        EXPECT_FALSE(fs::exists(in("out.svg")));
    }

private:
    std::string folder_ = testing::TempDir() + "wrong_files_" + std::to_string(::getpid());
};

std::string name_of(const testing::TestParamInfo<reading_command>& one) { return one.param.name; }
INSTANTIATE_TEST_SUITE_P(all, command_that_reads, testing::ValuesIn(commands()), name_of);

TEST_P(command_that_reads, names_a_file_that_is_not_there) {
    expect_refused(test::run_with(words_for(in("none"))), in("none"),
                   "cannot be read: No such file or directory; name a file that can be read");
}

TEST_P(command_that_reads, names_a_folder) {
    fs::create_directory(in("folder"));
    expect_refused(test::run_with(words_for(in("folder"))), in("folder"), GetParam().remedy_of_folder);
}

TEST_P(command_that_reads, names_an_empty_file) {
    std::ofstream(in("empty")).close();
    expect_refused(test::run_with(words_for(in("empty"))), in("empty"), GetParam().remedy_of_content);
}

TEST_P(command_that_reads, names_a_file_of_another_kind) {
    std::ofstream(in("noise")) << "noise";
    expect_refused(test::run_with(words_for(in("noise"))), in("noise"), GetParam().remedy_of_content);
}

TEST_P(command_that_reads, names_a_device) {
    expect_refused(test::run_with(words_for("/dev/null")), "/dev/null", GetParam().remedy_of_content);
}

TEST_P(command_that_reads, names_a_file_that_it_may_not_read) {
    std::ofstream(in("locked")) << "anything";
    ASSERT_EQ(::chmod(in("locked").c_str(), 0), 0);
    const auto done = test::run_without_rights(words_for(in("locked")));
    if (!done) {
        GTEST_SKIP() << "this process may not become another user";
    }
    expect_refused(*done, in("locked"),
                   "cannot be read: Permission denied; run this as a user with the right to read it");
}

TEST(profile_read, names_a_folder_that_it_may_not_read) {
    const std::string folder = testing::TempDir() + "locked_records_" + std::to_string(::getpid());
    ASSERT_TRUE(fs::create_directory(folder));
    ASSERT_EQ(::chmod(folder.c_str(), 0), 0);
    const auto done = test::run_without_rights({"profile", "--read", folder});
    fs::remove_all(folder);
    if (!done) {
        GTEST_SKIP() << "this process may not become another user";
    }
    EXPECT_EQ(done->code, 2);
    EXPECT_EQ(done->err, "orchard: " + folder +
                             ": cannot be read: Permission denied; run this as a user with the right to read it\n");
}

}  // namespace
}  // namespace orchard::command_line
