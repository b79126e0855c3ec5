// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The examples of docs/layouts.md, run on each device there is. They compare their results with known ones themselves.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "examples/layout/examples.hpp"
#include "runtime/cli/command_line.hpp"
#include "runtime/machine/machine_info.hpp"
#include "runtime/options/byte_size.hpp"

namespace orchard::examples {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

struct device_case {
    const char* name;
    device_option device;

    friend std::ostream& operator<<(std::ostream& out, const device_case& c) { return out << c.name; }
};

std::string name_of_case(const ::testing::TestParamInfo<device_case>& of) { return of.param.name; }

class layout_examples : public ::testing::TestWithParam<device_case> {
protected:
    void SetUp() override {
        const auto choice = choose_device(GetParam().device);
        if (!choice.ok()) {
            GTEST_SKIP() << "needs a GPU: " << choice.status().message();
        }
    }
    [[nodiscard]] static options values(std::uint64_t capacity = 256 * mib) {
        options o;
        o.device = GetParam().device;
        o.capacity = capacity;
        o.emulated_workers = 2;
        return o;
    }
    /// Expects right results, interleaved arrays, and that everything was freed.
    static void expect_passes(const absl::StatusOr<statistics>& counted, std::uint64_t allocations) {
        ASSERT_TRUE(counted.ok()) << counted.status();
        EXPECT_EQ(counted->allocations, allocations);
        EXPECT_EQ(counted->frees, allocations);
        EXPECT_EQ(counted->invalid_frees, 0u);
        EXPECT_GT(counted->chunk_allocations, 0u) << "all arrays were linear";
    }
};
INSTANTIATE_TEST_SUITE_P(all, layout_examples,
                         ::testing::Values(device_case{"emulated", device_option::emulated},
                                           device_case{"cuda", device_option::cuda}),
                         name_of_case);

TEST_P(layout_examples, per_thread_arrays) { expect_passes(per_thread_arrays(values()), 2 * 1'000); }

// Of the 100 ways to put two queens into two rows, 72 are allowed.
TEST_P(layout_examples, lane_stack) { expect_passes(lane_stack(values()), 72); }

TEST_P(layout_examples, hand_over) { expect_passes(hand_over(values()), 2'048); }

TEST_P(layout_examples, row_matrix) { expect_passes(row_matrix(values()), 2'200); }

TEST_P(layout_examples, say_why_where_the_heap_is_too_small) {
    // Each warp's rows take at least a leaf of 64 KiB: 69 leaves, although there are 64.
    const absl::StatusOr<statistics> counted = row_matrix(values(4 * mib));
    EXPECT_EQ(counted.status().code(), absl::StatusCode::kResourceExhausted) << counted.status();
    EXPECT_THAT(counted.status().message(), HasSubstr("raise the option capacity"));
}

TEST(layouts_command, runs_all_examples) {
    const char* const arguments[] = {"orchard", "layouts", "--device", "emulated", "--capacity", "256MiB"};
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int code = command_line::run(6, arguments);
    const std::string out = ::testing::internal::GetCapturedStdout();
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
    EXPECT_EQ(code, 0);
    EXPECT_THAT(out, MatchesRegex("device   emulated .*\npassed  per_thread_arrays .*\npassed  lane_stack .*\n"
                                  "passed  hand_over .*\npassed  row_matrix .*\n"));
}

}  // namespace
}  // namespace orchard::examples
