// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Chunks of a heap at the level `guard` that lie between segments without memory.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "device/heap_ref.cuh"
#include "tests/support/hardened_fixture.hpp"

namespace orchard::test {
namespace {

constexpr std::uint32_t blocks_asked = 4;

class heap_guard_sample : public on_each_device {
protected:
    void SetUp() override {
        GTEST_FLAG_SET(death_test_style, "threadsafe");  // a child without a GPU context
        on_each_device::SetUp();
    }
};
INSTANTIATE_TEST_SUITE_P(all, heap_guard_sample, testing::Values(device_option::emulated, device_option::cuda),
                         name_of_device);

/// An elastic heap that commits 64 MiB at once, of which one of `rate` chunks is guarded.
heap make_sampled(device_option device, int rate) {
    options o = hardened_options(device, hardening::guard);
    o.backing = backing_option::elastic;
    o.range = segments(512);
    o.extent = o.max_extent = segments(32);
    o.capacity = segments(128);
    o.cached_segments = 0;
    o.guard_sample_rate = rate;
    auto h = heap::create(o);
    EXPECT_TRUE(h.ok()) << h.status();
    return *std::move(h);
}

/// One thread allocates blocks of `bytes`, and writes the first and the last byte of each.
struct make_in_turn {
    heap_ref heap;
    char** blocks;
    std::uint64_t bytes;
    ORCHARD_FN void operator()(simt::thread_position) const {
        for (std::uint32_t i = 0; i < blocks_asked; ++i) {
            blocks[i] = static_cast<char*>(heap.malloc(bytes));
            if (blocks[i] != nullptr) {
                blocks[i][0] = blocks[i][bytes - 1] = 1;
            }
        }
    }
};

struct write_byte {
    volatile char* at;
    ORCHARD_FN void operator()(simt::thread_position) const { *at = 1; }
};

/// The addresses of the blocks, each of two segments with its guard.
std::vector<char*> make_blocks_of(const heap& h) {
    std::vector<char*> at(blocks_asked);
    auto blocks = device_array<char*>::create(h.executor(), blocks_asked);
    EXPECT_TRUE(blocks.ok()) << blocks.status();
    const make_in_turn make{h.ref(), blocks->data(), segments(2) - device::guard_bytes};
    EXPECT_TRUE(simt::launch(h.executor(), simt::grid{1, 1}, make).ok);
    EXPECT_TRUE(copy_to_host(h.executor(), at.data(), blocks->data(), at.size() * sizeof(char*)).ok());
    for (const char* p : at) {
        EXPECT_NE(p, nullptr);
    }
    return at;
}

/// Ends the process with 0 if a kernel can write to `at`; otherwise with another code, or by a signal.
[[noreturn]] void exit_after_write(const heap& h, char* at) {
    std::exit(simt::launch(h.executor(), simt::grid{1, 1}, write_byte{at}).ok ? 0 : 1);
}
bool has_failed(int status) { return status != 0; }

TEST_P(heap_guard_sample, lies_between_segments_without_memory) {
    heap h = make_sampled(GetParam(), 1);
    for (char* const p : make_blocks_of(h)) {
        EXPECT_EXIT(exit_after_write(h, p - 1), has_failed, "");
        EXPECT_EXIT(exit_after_write(h, p + segments(2)), has_failed, "");
    }
}

TEST_P(heap_guard_sample, lies_beside_others_if_it_is_not_chosen) {
    heap h = make_sampled(GetParam(), 0);
    const auto at = make_blocks_of(h);
    for (std::uint32_t i = 1; i < blocks_asked; ++i) {
        EXPECT_EQ(at[i], at[i - 1] + segments(2));
    }
    EXPECT_EXIT(exit_after_write(h, at[2] - 1), testing::ExitedWithCode(0), "");
}

TEST_P(heap_guard_sample, is_one_of_so_many) {
    heap h = make_sampled(GetParam(), 4);
    const auto at = make_blocks_of(h);
    EXPECT_EQ(at[1], at[0] + segments(2));
    EXPECT_EQ(at[2], at[1] + segments(2));
    EXPECT_NE(at[3], at[2] + segments(2));
    EXPECT_EXIT(exit_after_write(h, at[3] - 1), has_failed, "");
}

/// Guarded chunks are freed, given back and found again like others.
TEST_P(heap_guard_sample, comes_back_with_the_memory) {
    heap h = make_sampled(GetParam(), 1);
    (void)make_blocks_of(h);
    const auto before = h.stats();
    ASSERT_TRUE(before.ok()) << before.status();
    const auto at = make_blocks_of(h);
    for (char* const p : at) {
        ASSERT_TRUE(h.free_on_host(p).ok());
    }
    ASSERT_TRUE(h.trim().ok());
    const auto after = h.stats();
    ASSERT_TRUE(after.ok()) << after.status();
    EXPECT_EQ(after->segments_granted, before->segments_granted);
    EXPECT_TRUE(h.validate().ok());
}

}  // namespace
}  // namespace orchard::test
