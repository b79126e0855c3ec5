// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "host/heap_thread.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace orchard {
namespace {

std::atomic<bool> is_asked{false};
std::atomic<bool> is_over{false};

/// Ends the process: 0 if the thread was over when this was called, 1 if not.
void report() { _exit(is_over ? 0 : 1); }

/// Returns a thread, as of a heap that is not destroyed, that runs until it is asked, and then for `rest`.
heap_thread* start(absl::Duration rest) {
    is_asked = false;
    is_over = false;
    return new heap_thread(
        [rest] {
            while (!is_asked) {
                absl::SleepFor(absl::Microseconds(20));
            }
            absl::SleepFor(rest);
            is_over = true;
        },
        [] { is_asked = true; });
}

/// Ends the process by its exit, beside a thread that needs `rest` to end. `report` runs after the thread was to end,
/// as a driver's handler does.
void exit_beside_a_thread(absl::Duration rest) {
    std::atexit(report);
    start(rest);
    std::exit(2);
}

// The thread sanitizer ends a forked process that starts a thread. In the address sanitizer, such a thread waits for
// ever if another thread of the parent was being created at the fork: the sanitizer's own lock was held then.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
/// Ends a forked process by its exit, and this one with its status. The fork happens while a thread of this process
/// creates and destroys threads.
void exit_of_a_child() {
    std::atexit(report);
    std::atomic<bool> is_forked{false};
    std::thread other([&] {
        while (!is_forked) {
            heap_thread([] {}, [] {});
        }
    });
    const pid_t child = fork();
    if (child == 0) {
        start(absl::Milliseconds(50));
        std::exit(2);
    }
    int status = 0;
    waitpid(child, &status, 0);
    is_forked = true;
    other.join();
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
}
#endif

/// Each test runs in a process of its own, in which `report` is the first handler.
class heap_thread_DeathTest : public ::testing::Test {
protected:
    void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(heap_thread_DeathTest, ends_at_the_exit_before_what_it_uses) {
    EXPECT_EXIT(exit_beside_a_thread(absl::Milliseconds(50)), ::testing::ExitedWithCode(0), "");
}

TEST_F(heap_thread_DeathTest, keeps_no_process_from_its_exit) {
    EXPECT_EXIT(exit_beside_a_thread(absl::InfiniteDuration()), ::testing::ExitedWithCode(1), "");
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
TEST_F(heap_thread_DeathTest, of_a_forked_process_ends_at_its_exit) {
    EXPECT_EXIT(exit_of_a_child(), ::testing::ExitedWithCode(0), "");
}
#endif

TEST(heap_thread, may_be_stopped_twice) {
    heap_thread* const made = start(absl::ZeroDuration());
    made->stop();
    EXPECT_TRUE(is_over);
    made->stop();
    delete made;
}

}  // namespace
}  // namespace orchard
