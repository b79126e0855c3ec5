// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The programs that README.md and docs/programs.md show, run as `orchard programs` runs them. Most need a GPU.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/cli/command_line.hpp"
#include "runtime/machine/machine_info.hpp"

namespace orchard {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct outcome {
    int code;
    std::string out;
    std::string error;
};

outcome run(const std::vector<const char*>& names) {
    std::vector<const char*> argv{"orchard", "programs"};
    argv.insert(argv.end(), names.begin(), names.end());
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int code = command_line::run(static_cast<int>(argv.size()), argv.data());
    std::string out = ::testing::internal::GetCapturedStdout();
    return {code, std::move(out), ::testing::internal::GetCapturedStderr()};
}

bool has_gpu() { return choose_device(device_option::cuda).ok(); }

TEST(programs, both_devices) {
    const outcome o = run({"both_devices"});
    EXPECT_EQ(o.code, 0) << o.error;
    EXPECT_EQ(o.out, "passed    both_devices\n");
}

class program_on_cuda : public ::testing::TestWithParam<const char*> {};
std::string name_of(const ::testing::TestParamInfo<const char*>& program) {
    return std::string("cuda_") + program.param;
}
INSTANTIATE_TEST_SUITE_P(all, program_on_cuda,
                         ::testing::Values("kernel", "streams", "objects", "graph", "side_by_side", "failures",
                                           "two_heaps"),
                         name_of);

TEST_P(program_on_cuda, ends_well) {
    if (!has_gpu()) {
        GTEST_SKIP() << "needs a GPU: " << choose_device(device_option::cuda).status().message();
    }
    const outcome o = run({GetParam()});
    EXPECT_EQ(o.code, 0) << o.error << o.out;
    EXPECT_THAT(o.out, EndsWith(std::string("passed    ") + GetParam() + "\n"));
}

TEST(programs, without_a_gpu_say_what_is_missing) {
    if (has_gpu()) {
        GTEST_SKIP() << "there is a GPU";
    }
    const outcome one = run({"streams"});
    EXPECT_EQ(one.code, 2);
    EXPECT_EQ(one.out, "");
    EXPECT_THAT(one.error, StartsWith("orchard: device cuda: "));
    const outcome all = run({});
    EXPECT_EQ(all.code, 0) << all.error;
    EXPECT_THAT(all.out, HasSubstr("passed    both_devices\n"));
    for (const char* name : {"kernel", "streams", "objects", "graph", "side_by_side", "failures", "two_heaps"}) {
        EXPECT_THAT(all.out, HasSubstr(std::string("left out  ") + name + ": device cuda: "));
    }
}

TEST(programs, that_do_not_exist_are_named) {
    const outcome o = run({"both_devices", "stream"});
    EXPECT_EQ(o.code, 2);
    EXPECT_EQ(o.out, "") << "nothing is run";
    EXPECT_THAT(o.error, HasSubstr("\"stream\""));
    EXPECT_THAT(o.error, HasSubstr("streams"));
}

}  // namespace
}  // namespace orchard
