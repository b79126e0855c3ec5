// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The report of a fault names the tag that the program gave to the block.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "device/heap_ref.cuh"
#include "runtime/heap/block_fault.hpp"
#include "tests/support/hardened_fixture.hpp"

namespace orchard::test {
namespace {

using testing::HasSubstr;

class heap_tags : public on_each_device {};
INSTANTIATE_TEST_SUITE_P(all, heap_tags, testing::Values(device_option::emulated, device_option::cuda), name_of_device);

/// Each thread allocates a block with a tag, moves it by `realloc`, and writes the byte behind it.
struct tagged_misuse {
    heap_ref heap;
    std::uint32_t first_tag;
    std::uint64_t bytes;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        void* p = heap.malloc(bytes, first_tag + at.thread);
        p = heap.realloc(p, 3 * bytes);
        if (p != nullptr) {
            static_cast<char*>(p)[3 * bytes] = 1;
        }
        heap.free(p);
    }
};

TEST_P(heap_tags, names_the_tag_of_a_block) {
    for (const std::uint32_t first_tag : {0u, 7u, max_block_tag - 3}) {
        for (const std::uint64_t bytes : {100u, 300'000u}) {
            heap h = make_heap(GetParam(), hardening::detect);
            const auto result = simt::launch(h.executor(), simt::grid{1, 4}, tagged_misuse{h.ref(), first_tag, bytes});
            ASSERT_TRUE(result.ok) << result.error;
            const auto faults = h.block_faults();
            ASSERT_EQ(faults.size(), 4u);
            for (const block_fault& f : faults) {
                EXPECT_EQ(f.kind, block_fault_kind::overflow) << to_text(f);
                EXPECT_EQ(f.bytes, 3 * bytes) << to_text(f);
                EXPECT_EQ(f.tag, first_tag + f.allocated_by.thread) << to_text(f);
                EXPECT_EQ(f.allocated_by, f.found_by) << to_text(f);
            }
        }
    }
}

/// A tag of more than 22 bits must not change the thread that the report names.
TEST_P(heap_tags, keeps_the_lower_bits_of_a_large_tag) {
    heap h = make_heap(GetParam(), hardening::detect);
    const auto result = simt::launch(h.executor(), simt::grid{2, 4}, tagged_misuse{h.ref(), 0xffc00005u, 100});
    ASSERT_TRUE(result.ok) << result.error;
    const auto faults = h.block_faults();
    ASSERT_EQ(faults.size(), 8u);
    for (const block_fault& f : faults) {
        EXPECT_EQ(f.tag, 5 + f.allocated_by.thread) << to_text(f);
        EXPECT_EQ(f.allocated_by, f.found_by) << to_text(f);
    }
}

/// A heap that is not hardened serves requests with a tag as any others. The byte behind the 300 B is in the page.
TEST_P(heap_tags, change_nothing_in_a_heap_that_is_not_hardened) {
    heap h = make_heap(GetParam(), hardening::off);
    const auto result = simt::launch(h.executor(), simt::grid{1, 4}, tagged_misuse{h.ref(), 7, 100});
    ASSERT_TRUE(result.ok) << result.error;
    auto s = h.stats();
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_EQ(s->frees, 8u);
    EXPECT_EQ(s->pages_in_use, 0u);
    EXPECT_TRUE(h.block_faults().empty());
}

TEST(block_fault, has_a_line_that_names_block_and_threads) {
    const block_fault f{block_fault_kind::use_after_free, 0x7f0000001000, 64, {3, 17}, {9, 1}, 1'500'000'000};
    EXPECT_EQ(to_text(f),
              "use_after_free: the block of 64 bytes at 0x7f0000001000, allocated by block 3, thread 17, was written "
              "after it was freed; found by block 9, thread 1 at device time 1.500000000 s; look for a pointer that is "
              "kept after the free");
    block_fault tagged = f;
    tagged.tag = 12;
    EXPECT_THAT(to_text(tagged), HasSubstr("the block of 64 bytes with the tag 12 at 0x7f0000001000, allocated by"));
    EXPECT_EQ(name_of(static_cast<block_fault_kind>(99)), "unknown");
}

}  // namespace
}  // namespace orchard::test
