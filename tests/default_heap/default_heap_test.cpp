// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The default heap of a process, on the emulated device: when it is made, what it is made of, and its end. Kernels of
/// a GPU are in tests/programs.

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "runtime/default_heap/default_heap.hpp"
#include "runtime/include/orchard/orchard.h"

namespace {

/// Set in a forked process. The leak checker finds there what other threads of the parent held: they do not exist.
bool is_fork = false;

}  // namespace

/// Called by the address sanitizer's leak checker at the exit.
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off();
extern "C" int __lsan_is_turned_off() { return is_fork ? 1 : 0; }

namespace {

constexpr const char* emulated = "device=emulated capacity=64MiB";

/// Each test begins and ends without a default heap.
class default_heap_test : public ::testing::Test {
protected:
    void SetUp() override { ASSERT_EQ(orchard_shutdown(), ORCHARD_OK); }
    void TearDown() override {
        EXPECT_EQ(orchard_shutdown(), ORCHARD_OK);
        ::unsetenv("ORCHARD_INIT");
    }
};

TEST_F(default_heap_test, is_not_there_before_it_is_asked_for) {
    EXPECT_EQ(orchard_default_heap(), nullptr);
    EXPECT_NE(std::string(orchard_last_error()).find("no default heap"), std::string::npos) << orchard_last_error();
}

TEST_F(default_heap_test, is_made_once_and_keeps_its_options) {
    ASSERT_EQ(orchard_init(emulated), ORCHARD_OK) << orchard_last_error();
    orchard_heap* const heap = orchard_default_heap();
    ASSERT_NE(heap, nullptr) << orchard_last_error();
    EXPECT_EQ(orchard_init(nullptr), ORCHARD_OK) << orchard_last_error();
    EXPECT_EQ(orchard_init(""), ORCHARD_OK) << orchard_last_error();
    EXPECT_EQ(orchard_default_heap(), heap);
    EXPECT_EQ(orchard_init(emulated), ORCHARD_FAILED_PRECONDITION);
    EXPECT_NE(orchard_heap_stats(heap), nullptr) << orchard_last_error();
}

TEST_F(default_heap_test, is_not_ended_by_destroy) {
    ASSERT_EQ(orchard_init(emulated), ORCHARD_OK) << orchard_last_error();
    orchard_heap_destroy(orchard_default_heap());
    ASSERT_NE(orchard_default_heap(), nullptr);
    EXPECT_EQ(orchard_heap_validate(orchard_default_heap()), ORCHARD_OK) << orchard_last_error();
}

TEST_F(default_heap_test, can_be_made_again_after_its_end) {
    ASSERT_EQ(orchard_init(emulated), ORCHARD_OK) << orchard_last_error();
    ASSERT_EQ(orchard_shutdown(), ORCHARD_OK) << orchard_last_error();
    EXPECT_EQ(orchard_default_heap(), nullptr);
    ASSERT_EQ(orchard_init(emulated), ORCHARD_OK) << orchard_last_error();
    EXPECT_NE(orchard_default_heap(), nullptr) << orchard_last_error();
}

TEST_F(default_heap_test, wrong_options_make_none_and_right_ones_do_afterwards) {
    EXPECT_EQ(orchard_init("device=emulated capacity=3"), ORCHARD_OUT_OF_RANGE);
    EXPECT_EQ(orchard_default_heap(), nullptr);
    EXPECT_EQ(orchard_init(emulated), ORCHARD_OK) << orchard_last_error();
}

TEST_F(default_heap_test, is_the_same_for_threads_that_ask_at_once) {
    ASSERT_EQ(orchard_init(emulated), ORCHARD_OK) << orchard_last_error();
    std::vector<orchard_heap*> seen(8);
    std::vector<std::thread> threads;
    for (orchard_heap*& mine : seen) {
        threads.emplace_back([&mine] { mine = orchard_default_heap(); });
    }
    for (std::thread& t : threads) {
        t.join();
    }
    for (orchard_heap* const heap : seen) {
        EXPECT_EQ(heap, orchard_default_heap());
    }
}

TEST_F(default_heap_test, says_that_the_program_must_make_it_if_it_is_manual) {
    ::setenv("ORCHARD_INIT", "manual", 1);
    EXPECT_EQ(orchard_default_heap(), nullptr);
    EXPECT_NE(std::string(orchard_last_error()).find("ORCHARD_INIT is manual"), std::string::npos)
        << orchard_last_error();
    EXPECT_EQ(orchard_init(emulated), ORCHARD_OK) << orchard_last_error();
}

TEST_F(default_heap_test, a_launch_makes_none_where_there_is_no_gpu) {
    if (const auto gpu = orchard::choose_device(orchard::device_option::cuda); gpu.ok()) {
        GTEST_SKIP() << "there is a GPU";
    }
    orchard::detail::before_launch(nullptr);
    EXPECT_EQ(orchard_default_heap(), nullptr);
}

TEST_F(default_heap_test, is_made_once_by_threads_that_ask_together) {
    ::setenv("ORCHARD_DEVICE", "emulated", 1);
    ::setenv("ORCHARD_CAPACITY", "64MiB", 1);
    for (int round = 0; round < 20; ++round) {
        std::vector<std::thread> threads;
        std::atomic<int> failed{0};
        for (int i = 0; i < 4; ++i) {
            threads.emplace_back([&failed] { failed += orchard_init(nullptr) == ORCHARD_OK ? 0 : 1; });
        }
        for (std::thread& t : threads) {
            t.join();
        }
        EXPECT_EQ(failed, 0);
        EXPECT_EQ(orchard_shutdown(), ORCHARD_OK);
    }
    ::unsetenv("ORCHARD_DEVICE");
    ::unsetenv("ORCHARD_CAPACITY");
}

TEST_F(default_heap_test, leaves_a_handle_without_a_heap_when_it_ends) {
    ASSERT_EQ(orchard_init(emulated), ORCHARD_OK) << orchard_last_error();
    orchard_heap* const heap = orchard_default_heap();
    ASSERT_EQ(orchard_shutdown(), ORCHARD_OK);
    EXPECT_EQ(orchard_heap_trim(heap), ORCHARD_INVALID_ARGUMENT);
    EXPECT_EQ(orchard_heap_stats(heap), nullptr);
}

// The exit of a forked process takes the lock of the default heaps, which another thread of the parent may have held.
TEST_F(default_heap_test, a_forked_process_exits_while_another_thread_makes_heaps) {
    std::atomic<bool> stop{false};
    std::thread other([&stop] {
        while (!stop) {
            (void)orchard_init(emulated);
            (void)orchard_shutdown();
        }
    });
    for (int i = 0; i < 20; ++i) {
        const pid_t child = ::fork();
        if (child == 0) {
            is_fork = true;
            (void)orchard_default_heap();
            std::exit(0);
        }
        int status = -1;
        // A process that hangs makes the test run into its time limit.
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    }
    stop = true;
    other.join();
}

class default_heap_exit : public default_heap_test {
protected:
    void SetUp() override {
        default_heap_test::SetUp();
        // In a process of its own, which is not forked from this one: heaps start threads.
        ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    }
};

/// Asks for more memory than the heap has.
struct too_large {
    orchard::heap_ref heap;
    void operator()(orchard::simt::thread_position) const { heap.free(heap.malloc(1 << 30)); }
};

TEST_F(default_heap_exit, statistics_can_be_asked_for_by_a_handler_of_the_exit) {
    const auto run = [] {
        if (orchard_init(emulated) != ORCHARD_OK || orchard_heap_stats(orchard_default_heap()) == nullptr) {
            std::exit(1);
        }
        std::atexit([] {
            if (orchard_heap_stats(orchard_default_heap()) == nullptr) {
                std::_Exit(2);
            }
        });
        std::exit(0);
    };
    EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), "");
}

TEST_F(default_heap_exit, a_report_of_a_failure_may_end_the_process) {
    const auto run = [] {
        if (orchard_init(emulated) != ORCHARD_OK) {
            std::exit(1);
        }
        orchard::heap* const heap = *orchard::default_heap();
        (void)heap->on_failure([](const orchard::failure&) { std::exit(3); });
        (void)orchard::simt::launch(heap->executor(), {1, 1}, too_large{heap->ref()});
        // The report comes on another thread, which ends the process.
        std::this_thread::sleep_for(std::chrono::seconds(30));
    };
    EXPECT_EXIT(run(), ::testing::ExitedWithCode(3), "");
}

}  // namespace
