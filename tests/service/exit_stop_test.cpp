// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "host/exit_stop.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "absl/time/clock.h"

namespace orchard {
namespace {

std::atomic<bool> is_asked{false};
std::atomic<bool> is_over{false};

/// Ends the process: 0 if the thread was over when this was called, 1 if not.
void report() { _exit(is_over ? 0 : 1); }

/// Exits while a thread runs that ends only if it is asked. `report` runs after the threads were to end, as a driver's
/// handler does.
void exit_beside_a_thread() {
    std::atexit(report);
    auto* const stop = new exit_stop([] { is_asked = true; });  // as of a heap that is not destroyed
    std::thread([stop] {
        while (!is_asked) {
            absl::SleepFor(absl::Microseconds(20));
        }
        absl::SleepFor(absl::Milliseconds(50));  // the call under way
        is_over = true;
        stop->ended();
    }).detach();
    std::exit(2);
}

TEST(exit_stop, threads_end_before_what_they_use) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process of its own, in which `report` is the first handler
    EXPECT_EXIT(exit_beside_a_thread(), ::testing::ExitedWithCode(0), "");
}

TEST(exit_stop, a_thread_that_does_not_end_does_not_keep_the_process) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            std::atexit(report);
            new exit_stop([] {});
            std::exit(2);
        },
        ::testing::ExitedWithCode(1), "");
}

}  // namespace
}  // namespace orchard
