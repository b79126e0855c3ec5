// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// `orchard replay`, `orchard bench replay`, `orchard trace` and `orchard trace convert` as commands: exit codes and
// messages.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <checkout.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/trace/trace_writer.hpp"
#include "tests/support/run_command.hpp"
#include "tests/trace/trace_file.hpp"

namespace orchard::command_line {
namespace {

using test::outcome;
using test::run_with;
using testing::HasSubstr;

/// A complete trace of a small walk.
const std::string walk = ORCHARD_SOURCE_DIR "/tests/fuzz/corpus/event_trace/walk";

TEST(replay_command, passes_where_there_is_memory) {
    const outcome result = run_with({"replay", walk, "--device", "emulated"});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("failed: 0 in the record, 0 in the replay"));
}

TEST(replay_command, fails_where_a_request_fails_that_the_record_served) {
    const outcome result = run_with({"replay", walk, "--device", "emulated", "--capacity", "4MiB"});
    EXPECT_EQ(result.code, 1) << result.err;
    EXPECT_THAT(result.out, HasSubstr("failed: 0 in the record, "));
    EXPECT_THAT(result.out, testing::Not(HasSubstr("failed: 0 in the record, 0 in the replay")));
}

TEST(replay_command, names_what_cannot_be_replayed) {
    const test::trace_file cut;
    {
        std::ifstream whole(walk, std::ios::binary);
        std::string bytes{std::istreambuf_iterator<char>(whole), {}};
        bytes.resize(bytes.size() / 2);
        std::ofstream(cut.path(), std::ios::binary) << bytes;
    }
    const outcome half = run_with({"replay", cut.path(), "--device", "emulated"});
    EXPECT_EQ(half.code, 2);
    EXPECT_THAT(half.err, HasSubstr(cut.path() + ": at byte "));
    EXPECT_THAT(half.err, HasSubstr("; record it again\n"));
    const test::trace_file sampled;
    EXPECT_EQ(run_with({"walk", "--rmat", "6", "--device", "emulated", "--quiet", "--trace", sampled.path(),
                        "--trace-mode", "sampled"})
                  .code,
              0);
    const outcome result = run_with({"replay", sampled.path(), "--device", "emulated"});
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr("it is sampled and has no blocks"));
}

TEST(replay_command, is_a_benchmark_too) {
    const outcome result =
        run_with({"bench", "replay", "--from", walk, "--device", "emulated", "--repeats", "2", "--json", "-"});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_FALSE(nlohmann::json::parse(result.out).at("rows").empty());
}

/// The summary of a trace as JSON.
nlohmann::json summary_of(const std::string& trace) {
    const outcome result = run_with({"trace", trace, "--json", "-"});
    EXPECT_EQ(result.code, 0) << result.err;
    return nlohmann::json::parse(result.out);
}

TEST(trace_command, says_what_waited) {
    const test::trace_file file;
    {
        trace_info of_heap;
        of_heap.mode = event_mode::complete;
        auto writer = trace_writer::open(file.path(), of_heap, 1 << 20);
        ASSERT_TRUE(writer.ok()) << writer.status();
        ASSERT_TRUE((*writer)->finish(0, {{3, 2'500'000}, {1, 40'000}}, {}).ok());
    }
    EXPECT_THAT(run_with({"trace", file.path()}).out,
                HasSubstr("\nwaits for the trace: 3 of groups of a kernel, 2.500 ms in all; 1 of threads of the host, "
                          "0.040 ms in all\n"));
    const auto waits = summary_of(file.path()).at("waits");
    EXPECT_EQ(waits.at("kernels").at("count"), 3);
    EXPECT_DOUBLE_EQ(waits.at("kernels").at("seconds"), 0.0025);
    EXPECT_EQ(waits.at("host").at("count"), 1);
    EXPECT_DOUBLE_EQ(waits.at("host").at("seconds"), 0.00004);
}

TEST(trace_command, says_that_nothing_waited_where_the_trace_tells) {
    const test::trace_file file;
    ASSERT_EQ(run_with({"walk", "--rmat", "6", "--device", "emulated", "--quiet", "--trace", file.path()}).code, 0);
    EXPECT_THAT(run_with({"trace", file.path()}).out, HasSubstr("\nnothing waited for the trace\n"));
    EXPECT_EQ(summary_of(file.path()).at("waits").at("kernels").at("count"), 0);
    // A trace of version 2.
    EXPECT_THAT(run_with({"trace", walk + "_of_version_2"}).out, testing::Not(HasSubstr("waited")));
    EXPECT_TRUE(summary_of(walk + "_of_version_2").at("waits").is_null());
}

TEST(trace_command, converts_to_each_format) {
    for (const char* const format : {"rmm", "perfetto", "pytorch"}) {
        const test::trace_file to;
        const outcome result = run_with({"trace", "convert", walk, "--to", format, "-o", to.path()});
        EXPECT_EQ(result.code, 0) << format << ": " << result.err;
        EXPECT_GT(std::filesystem::file_size(to.path()), 1000u) << format;
    }
    const test::trace_file to;
    const outcome unknown = run_with({"trace", "convert", walk, "--to", "svg", "-o", to.path()});
    EXPECT_EQ(unknown.code, 2);
    EXPECT_THAT(unknown.err, HasSubstr("svg"));
}

}  // namespace
}  // namespace orchard::command_line
