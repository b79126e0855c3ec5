// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The host's functions of orchard/orchard.h, on the emulated device.

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "device/heap_ref.cuh"
#include "runtime/include/orchard/orchard.h"
#include "runtime/machine/version.hpp"

namespace {

using nlohmann::json;

constexpr const char* emulated = "device=emulated capacity=64MiB";

/// A heap for one test, destroyed at its end.
class c_heap : public ::testing::Test {
protected:
    void SetUp() override { ASSERT_EQ(orchard_heap_create(emulated, &heap_), ORCHARD_OK) << orchard_last_error(); }
    void TearDown() override { orchard_heap_destroy(heap_); }

    orchard_heap* heap_ = nullptr;
};

TEST(c_api, the_version_is_the_librarys) { EXPECT_EQ(orchard_version(), orchard::version_text); }

TEST_F(c_heap, a_block_is_allocated_freed_and_counted) {
    void* const block = orchard_heap_allocate(heap_, 1000);
    ASSERT_NE(block, nullptr) << orchard_last_error();
    EXPECT_EQ(json::parse(orchard_heap_stats(heap_))["allocations"], 1);
    EXPECT_EQ(orchard_heap_free(heap_, block), ORCHARD_OK);
    EXPECT_EQ(orchard_heap_validate(heap_), ORCHARD_OK) << orchard_last_error();
    EXPECT_EQ(json::parse(orchard_heap_stats(heap_))["frees"], 1);
}

TEST_F(c_heap, its_map_is_written_to_a_file) {
    const std::string path = testing::TempDir() + "c_heap_map_" + std::to_string(::getpid()) + ".json";
    ASSERT_EQ(orchard_heap_dump(heap_, path.c_str()), ORCHARD_OK) << orchard_last_error();
    std::ifstream file(path);
    EXPECT_EQ(json::parse(file)["format"], "orchard heap map");
    ::unlink(path.c_str());
    EXPECT_EQ(orchard_heap_dump(heap_, nullptr), ORCHARD_INVALID_ARGUMENT);
    EXPECT_EQ(orchard_heap_dump(heap_, ""), ORCHARD_INVALID_ARGUMENT);
    EXPECT_EQ(orchard_heap_dump(heap_, "/proc/none/map.json"), ORCHARD_INVALID_ARGUMENT);
    EXPECT_NE(std::string(orchard_last_error()).find("/proc/none/map.json"), std::string::npos) << orchard_last_error();
}

TEST_F(c_heap, without_a_failure_has_an_empty_text) { EXPECT_STREQ(orchard_heap_last_failure(heap_), ""); }

TEST_F(c_heap, the_device_is_described) {
    const json device = json::parse(orchard_heap_device(heap_));
    EXPECT_EQ(device["kind"], "emulated");
    EXPECT_EQ(device["gpu"], -1);
    EXPECT_FALSE(device["reason"].get<std::string>().empty());
    EXPECT_TRUE(device["warnings"].is_array());
}

TEST_F(c_heap, a_heap_of_the_host_has_no_view_for_kernels) {
    unsigned char view[1024];
    EXPECT_EQ(orchard_heap_ref(heap_, view, 1), ORCHARD_INVALID_ARGUMENT);
    EXPECT_NE(std::string(orchard_last_error()).find("1 bytes"), std::string::npos) << orchard_last_error();
    EXPECT_EQ(orchard_heap_ref(heap_, nullptr, sizeof(orchard::heap_ref)), ORCHARD_INVALID_ARGUMENT);
    EXPECT_EQ(orchard_heap_ref(nullptr, view, sizeof(orchard::heap_ref)), ORCHARD_INVALID_ARGUMENT);
    EXPECT_EQ(orchard_heap_ref(heap_, view, sizeof(orchard::heap_ref)), ORCHARD_FAILED_PRECONDITION);
}

TEST_F(c_heap, memory_is_reserved_and_trimmed) {
    EXPECT_EQ(orchard_heap_reserve(heap_, 16 << 20), ORCHARD_OK) << orchard_last_error();
    EXPECT_GE(json::parse(orchard_heap_stats(heap_))["committed_bytes"], 16 << 20);
    EXPECT_EQ(orchard_heap_trim(heap_), ORCHARD_OK) << orchard_last_error();
    EXPECT_EQ(orchard_heap_reserve(heap_, std::size_t{1} << 40), ORCHARD_RESOURCE_EXHAUSTED);
}

TEST_F(c_heap, no_block_is_marked_where_no_tool_listens) {
    size_t count = 7;
    EXPECT_EQ(orchard_heap_mark_live_blocks(heap_, &count), ORCHARD_OK) << orchard_last_error();
    EXPECT_EQ(count, 0u);
    EXPECT_EQ(orchard_heap_mark_live_blocks(heap_, nullptr), ORCHARD_OK) << orchard_last_error();
    EXPECT_EQ(orchard_heap_unmark_live_blocks(heap_), ORCHARD_OK) << orchard_last_error();
}

TEST_F(c_heap, its_budget_changes_if_it_is_elastic) {
    orchard_heap* elastic = nullptr;
    ASSERT_EQ(orchard_heap_create("device=emulated backing=elastic capacity=16MiB", &elastic), ORCHARD_OK)
        << orchard_last_error();
    EXPECT_EQ(orchard_heap_set_device_budget(elastic, 32 << 20), ORCHARD_OUT_OF_RANGE);
    EXPECT_EQ(orchard_heap_set_device_budget(elastic, 8 << 20), ORCHARD_OK) << orchard_last_error();
    EXPECT_EQ(orchard_heap_reserve(elastic, 16 << 20), ORCHARD_RESOURCE_EXHAUSTED);
    EXPECT_EQ(orchard_heap_set_device_budget(elastic, 16 << 20), ORCHARD_OK) << orchard_last_error();
    EXPECT_EQ(orchard_heap_reserve(elastic, 16 << 20), ORCHARD_OK) << orchard_last_error();
    orchard_heap_destroy(elastic);
}

TEST_F(c_heap, memory_moves_if_the_options_say_so) {
    EXPECT_EQ(orchard_heap_migrate(heap_, nullptr), ORCHARD_FAILED_PRECONDITION);
    EXPECT_NE(std::string(orchard_last_error()).find("move_unit"), std::string::npos) << orchard_last_error();
    orchard_heap* tiers = nullptr;
    ASSERT_EQ(
        orchard_heap_create("device=emulated backing=elastic capacity=8MiB host_budget=8MiB move_unit=2MiB", &tiers),
        ORCHARD_OK)
        << orchard_last_error();
    void* const block = orchard_heap_allocate(tiers, 3 << 20);
    ASSERT_NE(block, nullptr) << orchard_last_error();
    const auto moved = [&](const char* which) { return json::parse(orchard_heap_stats(tiers))[which]; };
    EXPECT_EQ(orchard_heap_demote(tiers, block, 3 << 20), ORCHARD_OK) << orchard_last_error();
    EXPECT_EQ(moved("moved_to_host_bytes"), 4 << 20);
    EXPECT_EQ(orchard_heap_prefetch(tiers, block, 1), ORCHARD_OK) << orchard_last_error();
    EXPECT_EQ(moved("moved_to_device_bytes"), 2 << 20);
    EXPECT_EQ(orchard_heap_migrate(tiers, nullptr), ORCHARD_OK) << orchard_last_error();
    EXPECT_EQ(orchard_heap_demote(tiers, &tiers, 1), ORCHARD_OUT_OF_RANGE);
    EXPECT_EQ(orchard_heap_free(tiers, block), ORCHARD_OK);
    EXPECT_EQ(orchard_heap_validate(tiers), ORCHARD_OK) << orchard_last_error();
    orchard_heap_destroy(tiers);
}

TEST_F(c_heap, calls_of_several_threads_wait_for_each_other) {
    std::atomic<int> failed{0};
    std::vector<std::thread> threads;
    for (const auto call : {orchard_heap_trim, orchard_heap_validate}) {
        threads.emplace_back([&, call] {
            for (int i = 0; i < 20; ++i) {
                failed += call(heap_) == ORCHARD_OK ? 0 : 1;
            }
        });
    }
    for (std::thread& t : threads) {
        t.join();
    }
    EXPECT_EQ(failed, 0);
}

TEST_F(c_heap, null_is_freed_and_no_bytes_are_null_without_an_error) {
    EXPECT_EQ(orchard_heap_free(heap_, nullptr), ORCHARD_OK);
    EXPECT_EQ(orchard_heap_allocate(heap_, 0), nullptr);
}

TEST_F(c_heap, an_address_outside_is_an_error_that_names_it) {
    int outside = 0;
    EXPECT_EQ(orchard_heap_free(heap_, &outside), ORCHARD_INVALID_ARGUMENT);
    EXPECT_NE(std::string(orchard_last_error()).find("cannot free 0x"), std::string::npos) << orchard_last_error();
}

TEST_F(c_heap, a_heap_of_the_emulated_device_is_bound_to_no_module) {
    int root = 0;
    EXPECT_NE(orchard_heap_bind(heap_, &root, sizeof(root)), ORCHARD_OK);
    EXPECT_STRNE(orchard_last_error(), "");
}

/// Memory with exactly four whole segments, wherever it begins.
std::vector<char> room() { return std::vector<char>((std::size_t{10} << 20) - 1); }

TEST(c_api, a_heap_lies_in_memory_of_the_callers) {
    std::vector<char> memory = room();
    orchard_heap* heap = nullptr;
    ASSERT_EQ(orchard_heap_create_in(memory.data(), memory.size(), "device=emulated", &heap), ORCHARD_OK)
        << orchard_last_error();
    auto* const block = static_cast<char*>(orchard_heap_allocate(heap, 1000));
    ASSERT_NE(block, nullptr) << orchard_last_error();
    EXPECT_GE(block, memory.data());
    EXPECT_LE(block + 1000, memory.data() + memory.size());
    EXPECT_EQ(orchard_heap_free(heap, block), ORCHARD_OK) << orchard_last_error();
    EXPECT_EQ(orchard_heap_validate(heap), ORCHARD_OK) << orchard_last_error();
    EXPECT_EQ(json::parse(orchard_heap_stats(heap))["capacity_bytes"], 8 << 20);
    orchard_heap_destroy(heap);
}

TEST(c_api, memory_that_is_none_is_an_error_and_leaves_null) {
    std::vector<char> memory = room();
    auto* heap = reinterpret_cast<orchard_heap*>(1);
    EXPECT_EQ(orchard_heap_create_in(nullptr, memory.size(), "device=emulated", &heap), ORCHARD_INVALID_ARGUMENT);
    EXPECT_EQ(heap, nullptr);
    EXPECT_EQ(orchard_heap_create_in(memory.data(), 1 << 20, "device=emulated", &heap), ORCHARD_INVALID_ARGUMENT);
    EXPECT_EQ(orchard_heap_create_in(memory.data(), memory.size(), "device=emulated capacty=1", &heap),
              ORCHARD_NOT_FOUND);
    EXPECT_EQ(orchard_heap_create_in(memory.data(), memory.size(), "device=emulated", nullptr),
              ORCHARD_INVALID_ARGUMENT);
}

TEST(c_api, options_come_in_any_separators) {
    orchard_heap* heap = nullptr;
    ASSERT_EQ(orchard_heap_create(" device=emulated,capacity=64MiB;request_timeout=2s\n", &heap), ORCHARD_OK)
        << orchard_last_error();
    orchard_heap_destroy(heap);
}

TEST(c_api, wrong_options_are_errors_and_leave_null) {
    auto* heap = reinterpret_cast<orchard_heap*>(1);
    EXPECT_EQ(orchard_heap_create("device=emulated capacty=64MiB", &heap), ORCHARD_NOT_FOUND);
    EXPECT_EQ(heap, nullptr);
    EXPECT_NE(std::string(orchard_last_error()).find("nearest: capacity"), std::string::npos) << orchard_last_error();
    EXPECT_EQ(orchard_heap_create("capacity", &heap), ORCHARD_INVALID_ARGUMENT);
    EXPECT_NE(std::string(orchard_last_error()).find("'capacity'"), std::string::npos) << orchard_last_error();
    EXPECT_EQ(orchard_heap_create("device=emulated capacity=3", &heap), ORCHARD_OUT_OF_RANGE);
    EXPECT_EQ(orchard_heap_create("device=emulated", nullptr), ORCHARD_INVALID_ARGUMENT);
}

TEST(c_api, a_null_heap_is_an_error_everywhere) {
    EXPECT_EQ(orchard_heap_trim(nullptr), ORCHARD_INVALID_ARGUMENT);
    EXPECT_EQ(orchard_heap_reserve(nullptr, 1), ORCHARD_INVALID_ARGUMENT);
    EXPECT_EQ(orchard_heap_set_device_budget(nullptr, 1), ORCHARD_INVALID_ARGUMENT);
    EXPECT_EQ(orchard_heap_mark_live_blocks(nullptr, nullptr), ORCHARD_INVALID_ARGUMENT);
    EXPECT_EQ(orchard_heap_unmark_live_blocks(nullptr), ORCHARD_INVALID_ARGUMENT);
    EXPECT_EQ(orchard_heap_validate(nullptr), ORCHARD_INVALID_ARGUMENT);
    EXPECT_EQ(orchard_heap_allocate(nullptr, 1), nullptr);
    EXPECT_EQ(orchard_heap_free(nullptr, nullptr), ORCHARD_INVALID_ARGUMENT);
    EXPECT_EQ(orchard_heap_stats(nullptr), nullptr);
    EXPECT_EQ(orchard_heap_device(nullptr), nullptr);
    EXPECT_EQ(orchard_heap_last_failure(nullptr), nullptr);
    EXPECT_EQ(orchard_heap_dump(nullptr, "map.json"), ORCHARD_INVALID_ARGUMENT);
    orchard_heap_destroy(nullptr);
}

TEST(c_api, an_error_is_the_calling_threads) {
    EXPECT_EQ(orchard_heap_trim(nullptr), ORCHARD_INVALID_ARGUMENT);
    std::string seen = "not set";
    std::thread([&] { seen = orchard_last_error(); }).join();
    EXPECT_EQ(seen, "");
    EXPECT_STRNE(orchard_last_error(), "");
}

}  // namespace
