// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "runtime/cli/run_program.hpp"

#include <gtest/gtest.h>

namespace orchard::command_line {
namespace {

TEST(run_program, passes_each_word_as_it_is) {
    // A shell would end the quoted word, and would run `exit 1`.
    EXPECT_TRUE(run_program({"test", "a'; exit 1; '$HOME", "=", "a'; exit 1; '$HOME"}).ok());
    EXPECT_FALSE(run_program({"test", "a", "=", "b"}).ok());
}

TEST(run_program, tells_how_the_program_failed) {
    EXPECT_EQ(run_program({"sh", "-c", "exit 3"}).message(), "sh failed with status 3");
    EXPECT_EQ(run_program({"sh", "-c", "kill -9 $$"}).message(), "sh was ended by signal 9");
    const absl::Status missing = run_program({"no-such-program-anywhere"});
    EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound) << missing;
}

TEST(run_program, leaves_standard_output_alone) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    EXPECT_TRUE(run_program({"echo", "a"}, child_output::standard_error).ok());
    EXPECT_TRUE(run_program({"echo", "b"}).ok());
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "a\n");
    EXPECT_EQ(testing::internal::GetCapturedStdout(), "b\n");
}

TEST(run_program, shows_words_that_a_shell_reads_back) {
    const std::vector<std::string> words{"test", "it's $HOME", "=", "it's $HOME"};
    EXPECT_EQ(as_shell_line(words), "'test' 'it'\\''s $HOME' '=' 'it'\\''s $HOME'");
    EXPECT_TRUE(run_program({"sh", "-c", as_shell_line(words)}).ok());
}

}  // namespace
}  // namespace orchard::command_line
