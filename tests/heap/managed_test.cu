// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A heap in memory that the UVM driver moves. At most 256 MiB of it.

#include "absl/time/clock.h"
#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

std::vector<heap_case> managed_cases() {
    std::vector<heap_case> cases;
    for (const heap_case& c : heap_cases()) {
        if (c.backing == backing_option::managed) {
            cases.push_back(c);
        }
    }
    return cases;
}

class heap_managed : public heap_contract {
protected:
    /// Without a segment cache, so that freed segments return to the host. Memory is discarded only where the driver
    /// may have to evict it.
    void remake_bare(bool discard = true) {
        options values = GetParam().values();
        values.cached_segments = 0;
        values.allow_oversubscription = true;
        values.discard = discard;
        remake(values);
    }
    statistics stats() {
        auto s = h().stats();
        EXPECT_TRUE(s.ok()) << s.status();
        return s.ok() ? *s : statistics{};
    }
};
INSTANTIATE_TEST_SUITE_P(all, heap_managed, ::testing::ValuesIn(managed_cases()), case_name);

TEST_P(heap_managed, gives_up_what_comes_back) {
    ASSERT_NO_FATAL_FAILURE(remake_bare());
    std::uint64_t released = 0;
    for (int round = 0; round < 3; ++round) {
        const std::vector<block> blocks = allocate({segments(3), segments(5)}, 1);
        EXPECT_GE(stats().committed_bytes, segments(8));
        stamp(blocks);
        expect_stamped(blocks);
        free_all(blocks);
        // The next request returns the freed memory to the host.
        free_all({allocate_one(segments(1))});
        expect_valid();
        for (int i = 0; i < 1000 && stats().committed_bytes > segments(1); ++i) {
            absl::SleepFor(absl::Milliseconds(10));
        }
        EXPECT_LE(stats().committed_bytes, segments(1)) << "without a trim";
        EXPECT_GT(stats().released_bytes, released);
        released = stats().released_bytes;
    }
}

TEST_P(heap_managed, trim_gives_up_more_than_can_be_under_way_at_once) {
    options values = GetParam().values();
    values.capacity = segments(128);
    values.allow_oversubscription = true;
    remake(values);
    for (int round = 0; round < 3; ++round) {
        const std::vector<block> blocks = allocate(std::vector<std::uint64_t>(100, segments(1)), 1);
        stamp(blocks);
        free_all(blocks);
        ASSERT_TRUE(h().trim().ok());
        EXPECT_EQ(stats().committed_bytes, 0u) << round;
    }
}

/// Where the driver evicts nothing, a discard would save nothing: freed memory stays ready.
TEST_P(heap_managed, keeps_what_comes_back_if_nothing_is_evicted) {
    free_all(allocate({segments(3), segments(5)}, 1));
    const statistics before = stats();
    ASSERT_TRUE(h().trim().ok());
    EXPECT_EQ(stats().released_bytes, before.released_bytes);
    EXPECT_EQ(stats().committed_bytes, before.committed_bytes);
    free_all(allocate({segments(3), segments(5)}, 1));
    EXPECT_EQ(stats().released_bytes, before.released_bytes);
    expect_valid();
}

/// Memory is handed out before it has moved: a thread that writes it at once finds what it wrote, also after the
/// segments were given up, committed again and moved again.
TEST_P(heap_managed, is_written_while_it_is_moved) {
    options values = GetParam().values();
    values.capacity = segments(128);
    values.cached_segments = 0;
    for (const bool oversubscribed : {false, true}) {
        values.allow_oversubscription = oversubscribed;
        remake(values);
        for (int round = 0; round < 4; ++round) {
            const std::vector<block> blocks = allocate(std::vector<std::uint64_t>(40, segments(2)), 1);
            stamp(blocks);
            expect_stamped(blocks);
            free_all(blocks);
        }
        expect_valid();
    }
}

TEST_P(heap_managed, plain_blocks_are_linear_and_side_by_side_whatever_the_layout) {
    for (const layout option : {layout::automatic(), layout::linear(), layout::interleaved(tile::k64)}) {
        options values = GetParam().values();
        values.layout = option;
        ASSERT_NO_FATAL_FAILURE(remake(values));
        constexpr std::uint64_t bytes = 640 << 10;  // more than the largest page
        const std::vector<block> blocks = allocate(std::vector<std::uint64_t>(32, bytes), 32);
        stamp(blocks);
        expect_stamped(blocks);
        for (std::size_t lane = 0; lane < blocks.size(); ++lane) {
            EXPECT_EQ(blocks[lane].address, blocks[0].address + lane * bytes) << lane;
        }
        free_all(blocks);
    }
}

TEST_P(heap_managed, ends_while_memory_is_moved) {
    for (int round = 0; round < 5; ++round) {
        options values = GetParam().values();
        values.capacity = segments(128);
        remake(values);
        const auto block = h().allocate_on_host(segments(100));
        EXPECT_TRUE(block.ok()) << block.status();
    }
}

TEST_P(heap_managed, reserves_memory_where_it_is_to_be) {
    ASSERT_NO_FATAL_FAILURE(remake_bare());
    for (int round = 0; round < 2; ++round) {
        const absl::Status reserved = h().reserve(segments(10));
        EXPECT_TRUE(reserved.ok()) << reserved;
        EXPECT_GE(stats().committed_bytes, segments(10));
    }
    const block b = allocate_one(segments(10));
    stamp({b});
    expect_stamped({b});
    free_all({b});
}

TEST_P(heap_managed, keeps_what_is_freed_where_it_is_told_so) {
    ASSERT_NO_FATAL_FAILURE(remake_bare(false));
    free_all(allocate({segments(3)}, 1));
    expect_valid();
    EXPECT_EQ(stats().committed_bytes, segments(3));
    EXPECT_EQ(stats().released_bytes, 0u);
    EXPECT_EQ(h().configuration().backing, backing_option::managed);
}

TEST_P(heap_managed, moves_what_it_is_asked_to) {
    const block b = allocate_one(segments(2));
    auto* const p = reinterpret_cast<char*>(b.address);
    ASSERT_NE(b.address, 0u);
    stamp({b});
    for (const memory_tier to : {memory_tier::host, memory_tier::device}) {
        const absl::Status moved = h().prefetch(p, segments(2), to);
        EXPECT_TRUE(moved.ok()) << moved;
        expect_stamped({b});
    }
    EXPECT_TRUE(h().prefetch(p, 0, memory_tier::host).ok());
    for (const auto& [at, bytes] :
         {std::pair{b.address, segments(100)}, {b.address - segments(100), 1}, {b.address, ~std::uint64_t{0}}}) {
        const absl::Status refused = h().prefetch(reinterpret_cast<void*>(at), bytes, memory_tier::host);
        EXPECT_TRUE(absl::IsOutOfRange(refused)) << refused;
    }
    free_all({b});
}

TEST_P(heap_managed, keeps_its_contents_whatever_the_driver_is_advised) {
    const block b = allocate_one(segments(2));
    auto* const p = reinterpret_cast<char*>(b.address);
    ASSERT_NE(b.address, 0u);
    stamp({b});
    for (const managed_advice what : {managed_advice::read_mostly, managed_advice::cpu_resident, managed_advice::none,
                                      managed_advice::first_touch_gpu}) {
        const absl::Status advised = h().advise(p, segments(2), what);
        EXPECT_TRUE(advised.ok()) << advised;
        expect_stamped({b});
        stamp({b});
    }
    EXPECT_TRUE(h().advise(p, 0, managed_advice::none).ok());
    const absl::Status refused = h().advise(p, segments(100), managed_advice::none);
    EXPECT_TRUE(absl::IsOutOfRange(refused)) << refused;
    free_all({b});
}

TEST_P(heap_managed, may_be_read_mostly_as_a_whole) {
    options values = GetParam().values();
    values.advice = managed_advice::read_mostly;
    ASSERT_NO_FATAL_FAILURE(remake(values));
    const std::vector<block> blocks = allocate({segments(3), 100, 5000});
    stamp(blocks);
    expect_stamped(blocks);
    free_all(blocks);
}

TEST_P(heap_managed, is_not_oversubscribed_unasked) {
    options values = GetParam().values();
    values.capacity = std::uint64_t{32} << 40;  // rejected by the numbers, so that none of it is ever allocated
    const auto refused = heap::create(values);
    EXPECT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
    EXPECT_NE(refused.status().message().find("allow_oversubscription"), absl::string_view::npos) << refused.status();
}

class heap_not_managed : public heap_contract {};
INSTANTIATE_TEST_SUITE_P(all, heap_not_managed, ::testing::Values(heap_cases().front()), case_name);

TEST_P(heap_not_managed, does_not_move) {
    const block b = allocate_one(segments(1));
    const absl::Status refused = h().prefetch(reinterpret_cast<void*>(b.address), segments(1), memory_tier::host);
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    const absl::Status not_advised =
        h().advise(reinterpret_cast<void*>(b.address), segments(1), managed_advice::read_mostly);
    EXPECT_TRUE(absl::IsFailedPrecondition(not_advised)) << not_advised;
    free_all({b});
}

}  // namespace
}  // namespace orchard::test
