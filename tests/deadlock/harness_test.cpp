// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The harness of the rows, without a GPU: children that end or do not end, and the conversion of a measurement.

#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "tests/deadlock/child_process.hpp"
#include "tests/deadlock/row.hpp"

namespace orchard::test {
namespace {

row measured(std::uint64_t nulls, std::uint64_t begun_mib) {
    row result;
    result.call = "cudaFree";
    result.block_bytes = 2048;
    result.loading = "LAZY";
    result.nulls = nulls;
    result.begun_mib = begun_mib;
    return result;
}

TEST(child_process, exit_code_and_environment_are_passed_on) {
    const auto ended = run_child("/bin/sh", {"-c", "exit $CODE"}, {{"CODE", "7"}}, absl::Seconds(30));
    ASSERT_TRUE(ended.ok()) << ended.status();
    EXPECT_EQ(ended->exit_code, 7);
    EXPECT_EQ(ended->signal, 0);
    EXPECT_FALSE(ended->timed_out);
}

TEST(child_process, is_killed_at_its_deadline) {
    const auto ended = run_child("/bin/sleep", {"1000"}, {}, absl::Milliseconds(50));
    ASSERT_TRUE(ended.ok()) << ended.status();
    EXPECT_TRUE(ended->timed_out);
    EXPECT_NE(ended->signal, 0);
}

TEST(child_process, a_program_that_is_not_there_is_an_error) {
    EXPECT_FALSE(run_child("/no/such/program", {}, {}, absl::Seconds(1)).ok());
}

TEST(verdict, says_what_a_row_shows) {
    EXPECT_EQ(verdict_of(measured(0, 512)), verdicts::through);
    EXPECT_EQ(verdict_of(measured(1, 512)), verdicts::null);
    EXPECT_EQ(verdict_of(measured(1, 0)), verdicts::null);
    EXPECT_EQ(verdict_of(measured(0, 0)), verdicts::not_tested);
    row damaged = measured(0, 512);
    damaged.error = "1 blocks do not hold what was written to them";
    EXPECT_EQ(verdict_of(damaged), verdicts::failed);
}

TEST(row_of_a_call, is_read_as_it_was_written) {
    row written = measured(3, 64);
    written.longest_request_us = 12.5;
    written.reason = "commit_blocked";
    written.verdict = verdict_of(written);
    const auto read = row_from_json(to_json(written) + "   ");
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(to_json(*read), to_json(written));
    EXPECT_FALSE(read->longest_call_us.has_value());
    EXPECT_FALSE(row_from_json("{}").ok());
    EXPECT_FALSE(row_from_json("").ok());
}

}  // namespace
}  // namespace orchard::test
