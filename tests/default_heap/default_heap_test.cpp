// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The default heap of a process, on the emulated device: when it is made, what it is made of, and its end. Kernels of
/// a GPU are in tests/programs.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "runtime/default_heap/default_heap.hpp"
#include "runtime/include/orchard/orchard.h"

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

}  // namespace
