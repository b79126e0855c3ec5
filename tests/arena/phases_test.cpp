// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The arena's worker marks the phases of its kernels: it runs under the recorder of tests/nvtx.
#ifdef ORCHARD_NVTX_RECORDER

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "profiling/arena/worker.hpp"
#include "tests/nvtx/record.hpp"

namespace orchard::arena {
namespace {

TEST(arena_phases, are_marked_by_the_worker) {
    const auto& all = all_cases();
    const auto chosen = std::ranges::find(all, "winter_9a/64", &arena_case::name);
    ASSERT_NE(chosen, all.end());
    // For the worker alone: this process makes no call of NVTX.
    ::setenv("NVTX_INJECTION64_PATH", ORCHARD_NVTX_RECORDER, 1);
    ::setenv("NVTX_RECORD_FILE", test::record_path().c_str(), 1);
    const conditions with{simt::device_kind::emulated, 2, 32 << 20, 2, absl::Seconds(100), true};
    run_in_workers("orchard", {*chosen}, with, [](const arena_case&, const outcome& o) {
        EXPECT_EQ(o.ended, verdict::ok) << o.detail;
        return true;
    });
    ::unsetenv("NVTX_INJECTION64_PATH");
    ::unsetenv("NVTX_RECORD_FILE");
    const test::nvtx_record record;
    ::unlink(test::record_path().c_str());
    EXPECT_TRUE(record.errors.empty()) << record.errors.front();
    for (const char* const phase : {"allocate", "free"}) {
        EXPECT_TRUE(record.ranges.contains(phase)) << phase;
    }
}

}  // namespace
}  // namespace orchard::arena

#endif
