// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profiling/arena/child.hpp"

namespace orchard::arena {
namespace {

using how = child_end::how;

struct run_result {
    child_end end;
    std::vector<std::string> lines;
};

run_result shell(const std::string& script, absl::Duration limit = absl::Seconds(100)) {
    run_result r;
    r.end = run_child({"/bin/sh", "-c", script}, limit, [&](std::string_view line) { r.lines.emplace_back(line); });
    return r;
}

TEST(arena_child, lines_come_one_by_one) {
    const run_result r = shell("printf 'a\nb'; sleep 0.01; printf 'c\n\n'; printf rest");
    EXPECT_EQ(r.end.ended, how::exited_0);
    EXPECT_EQ(r.end.detail, "");
    EXPECT_THAT(r.lines, testing::ElementsAre("a", "bc", ""));
}

TEST(arena_child, much_output_on_both_pipes_does_not_block) {
    const run_result r = shell(
        "i=0; while [ $i -lt 3000 ]; do echo $i; echo 0123456789012345678901234567890 >&2; "
        "i=$((i+1)); done");
    EXPECT_EQ(r.end.ended, how::exited_0);
    EXPECT_EQ(r.lines.size(), 3000u);
}

TEST(arena_child, a_failure_has_its_code_and_last_line) {
    const run_result r = shell("echo first >&2; echo last >&2; exit 3");
    EXPECT_EQ(r.end.ended, how::failed);
    EXPECT_EQ(r.end.detail, "exit code 3: last");
}

TEST(arena_child, a_signal_has_its_name) {
    const run_result r = shell("kill -9 $$");
    EXPECT_EQ(r.end.ended, how::failed);
    EXPECT_THAT(r.end.detail, testing::HasSubstr("signal 9"));
}

TEST(arena_child, one_that_is_late_is_killed) {
    const run_result r = shell("echo begun; exec sleep 1000", absl::Milliseconds(300));
    EXPECT_EQ(r.end.ended, how::late);
    EXPECT_EQ(r.end.detail, "no result within 0.3 s");
}

TEST(arena_child, one_that_is_told_to_stop_is_killed) {
    std::atomic<bool> stop{false};
    std::vector<std::string> lines;
    const child_end end = run_child(
        {"/bin/sh", "-c", "echo begun; exec sleep 1000"}, absl::Seconds(100),
        [&](std::string_view line) {
            lines.emplace_back(line);
            stop = true;
        },
        &stop);
    EXPECT_EQ(end.ended, how::stopped);
    EXPECT_THAT(lines, testing::ElementsAre("begun"));
}

TEST(arena_child, one_that_closes_its_output_is_late_too) {
    const run_result r = shell("exec sleep 1000 >&- 2>&-", absl::Milliseconds(300));
    EXPECT_EQ(r.end.ended, how::late);
}

TEST(arena_child, a_program_that_there_is_not_is_named) {
    const child_end end = run_child({"/nonexistent/program"}, absl::Seconds(100), [](std::string_view) {});
    EXPECT_EQ(end.ended, how::failed);
    EXPECT_THAT(end.detail, testing::HasSubstr("/nonexistent/program"));
}

}  // namespace
}  // namespace orchard::arena
