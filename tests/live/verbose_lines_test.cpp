// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/heap/verbose_lines.hpp"

namespace orchard {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

live_state state() {
    live_state s;
    s.counts.capacity_bytes = 1 << 30;
    s.counts.committed_bytes = 64 << 20;
    s.counts.released_bytes = 8 << 20;
    return s;
}

TEST(verbose_lines, are_none_without_a_change) { EXPECT_THAT(verbose_lines(state(), state(), ""), IsEmpty()); }

TEST(verbose_lines, name_memory_that_came_and_went_between_two_looks) {
    live_state now = state();
    now.counts.committed_bytes = 100 << 20;
    EXPECT_THAT(verbose_lines(state(), now, ""), ElementsAre("growth: 36 MiB more, 100 MiB committed now, of 1 GiB"));
    now.counts.released_bytes += 4 << 20;
    EXPECT_THAT(verbose_lines(state(), now, ""),
                ElementsAre("growth: 40 MiB more, 100 MiB committed now, of 1 GiB",
                            "growth: 4 MiB given back, 100 MiB committed now, of 1 GiB"));
}

TEST(verbose_lines, name_commits_that_failed_and_moves) {
    live_state now = state();
    now.failed_commits = 2;
    now.counts.moved_to_device_bytes = 2 << 20;
    EXPECT_THAT(verbose_lines(state(), now, "no memory"),
                ElementsAre("growth: 2 commits failed, the last one: no memory",
                            "moves: 2 MiB to the device, 0 B to the host"));
}

TEST(verbose_lines, have_one_for_each_reason_of_new_failures) {
    live_state before = state();
    before.failures[3] = device::recorded_failure{5, failure_reason::fragmented, 64, 0, {}, 0};
    live_state now = before;
    EXPECT_THAT(verbose_lines(before, now, ""), IsEmpty());
    now.failures[3]->number = 9;
    now.failures[4] = device::recorded_failure{1, failure_reason::too_large, 4096, chunk_class, {}, 0};
    EXPECT_THAT(verbose_lines(before, now, ""),
                ElementsAre(HasSubstr("shortage: a request of 64 bytes"), HasSubstr("too_large")));
}

}  // namespace
}  // namespace orchard
