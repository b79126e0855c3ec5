// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Heaps as objects: moved, many, several at the same time, trimmed.

#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

ORCHARD_CONTRACT_SUITE(contract_lifetime);

/// Alternating lanes allocate from one of two heaps, stamp, check and free.
struct use_two_heaps {
    heap_ref first;
    heap_ref second;
    std::uint64_t bytes;
    simt::device_word<std::uint32_t>* errors;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const bool odd = at.thread % 2 == 1;
        const heap_ref mine = odd ? second : first;
        const heap_ref other = odd ? first : second;
        void* p = mine.malloc(bytes);
        if (p == nullptr || !mine.owns(p) || other.owns(p)) {
            errors->fetch_add<simt::order::relaxed>(1);
            return;
        }
        stamp_block(p, bytes, at.global_thread());
        simt::pause(100);
        if (!has_stamp(p, bytes, at.global_thread())) {
            errors->fetch_add<simt::order::relaxed>(1);
        }
        mine.free(p);
    }
};

TEST_P(contract_lifetime, two_heaps_in_one_kernel) {
    options values = GetParam().values();
    values.capacity = segments(40);
    absl::StatusOr<heap> other = make_another(values);
    ASSERT_TRUE(other.ok()) << other.status();
    const auto errors = array<simt::device_word<std::uint32_t>>(1);
    for (const std::uint64_t bytes : {std::uint64_t{64}, std::uint64_t{1} << 19}) {
        // 512 KiB: 8 lanes of a heap are 2 segments.
        launch({1, bytes == 64 ? 96u : 16u}, use_two_heaps{h().ref(), other->ref(), bytes, errors.data()});
    }
    launch({1, 4}, use_two_heaps{h().ref(), other->ref(), segments(1) + 1, errors.data()});
    EXPECT_EQ(to_host(errors).front().load<simt::order::relaxed>(), 0u);
    EXPECT_TRUE(other->validate().ok());
    EXPECT_EQ(other->stats()->allocations, 48u + 8 + 2);
    EXPECT_EQ(settled_stats().allocations, 48u + 8 + 2);
    expect_empty();
}

TEST_P(contract_lifetime, a_heap_that_is_moved) {
    const block b = allocate_one(300);
    heap moved = std::move(h());
    EXPECT_EQ(moved.stats()->pages_in_use, 1u);
    const heap_ref ref = moved.ref();
    h() = std::move(moved);
    EXPECT_EQ(ref.view().base, device::heap_view(h().ref().view()).base);
    free_all({b});
    // Over one that lives: that one ends.
    absl::StatusOr<heap> other = make_another(GetParam().values());
    ASSERT_TRUE(other.ok()) << other.status();
    h() = *std::move(other);
    cycle({100, segments(1)});
    expect_empty();
}

TEST_P(contract_lifetime, trim_gives_everything_back) {
    const std::vector<block> small = allocate(std::vector<std::uint64_t>(200, 1000));
    const std::vector<block> large = allocate({segments(1), segments(1) + 1});
    const statistics full = settled_stats();
    EXPECT_GE(full.segments_granted, 4u);
    free_all(large);
    ASSERT_TRUE(h().trim().ok());
    const statistics between = settled_stats();
    EXPECT_EQ(between.pages_in_use, 200u);
    EXPECT_EQ(between.segments_granted, between.slabs_in_use);
    EXPECT_EQ(between.segments_in_cache, 0u);
    stamp(small);
    expect_stamped(small);
    free_all(small);
    expect_empty();
    ASSERT_TRUE(h().trim().ok());  // nothing left, which is no error
    cycle({100, segments(1)});
}

TEST_P(contract_lifetime, preload_and_configuration) {
    EXPECT_TRUE((h().preload<use_two_heaps, allocate_each>().ok()));
    EXPECT_TRUE(h().preload<>().ok());
    options expected = GetParam().values();
    const options& found = h().configuration();
    EXPECT_NE(found.backing, backing_option::automatic) << "says what was chosen";
    expected.backing = found.backing;
    expected.range = found.backing == backing_option::elastic ? expected.range : expected.capacity;
    if (found.backing == backing_option::managed) {
        // As much as is wanted, and none ahead of demand: docs/backings.md.
        expected.extent = segment_bytes;
        expected.commit_ahead = 0;
    }
    EXPECT_EQ(to_text(found), to_text(expected));
    EXPECT_EQ(settled_stats().capacity_bytes, GetParam().capacity);
    EXPECT_GT(settled_stats().metadata_bytes, 0u);
}

TEST_P(contract_lifetime, create_and_destroy_many) {
    const std::uint64_t times = scaled(GetParam().device == device_option::cuda ? 20 : 200, 20);
    for (std::uint64_t i = 0; i < times; ++i) {
        ASSERT_NO_FATAL_FAILURE(remake(GetParam().values()));
        if (i % 10 == 0) {
            const block b = allocate_one(i % 20 == 0 ? 100 : segments(2));
            EXPECT_NE(b.address, 0u);
            if (i % 30 == 0) {
                free_all({b});
            }
        }
    }
}

}  // namespace
}  // namespace orchard::test
