// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// `monotonic_buffer`: objects of any size do not overlap, one call frees all, and a shortage loses nothing.

#include <orchard/monotonic_buffer.cuh>

#include <gmock/gmock.h>

#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

using simt::order;

/// Thread i allocates `count` blocks of sizes of its own, by itself at times.
struct bump_blocks {
    monotonic_buffer_ref buffer;
    std::uint32_t count;
    block* got;

    [[nodiscard]] ORCHARD_FN static std::uint64_t bytes_of(std::uint64_t thread, std::uint32_t i) {
        const std::uint64_t x = thread * 7 + i * 13;
        return x % 61 == 0 ? 5000 + x % 90000 : 1 + x % 300;
    }
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t thread = at.global_thread();
        for (std::uint32_t i = 0; i < count; ++i) {
            const std::uint64_t bytes = bytes_of(thread, i);
            void* const p = (thread >> i % 5 & 1) != 0 ? buffer.allocate(bytes) : buffer.allocate(bytes);
            got[thread * count + i] = {reinterpret_cast<std::uint64_t>(p), bytes};
        }
    }
};

/// Appends to a list of nodes by each thread, and counts them.
struct node {
    node* next;
    std::uint64_t value;
};
struct make_nodes {
    monotonic_buffer_ref buffer;
    std::uint64_t* sums;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        node* first = nullptr;
        for (std::uint64_t i = 1; i <= 20; ++i) {
            node* const made = buffer.make<node>(node{first, i});
            first = made != nullptr ? made : first;
        }
        std::uint64_t sum = 0;
        for (; first != nullptr; first = first->next) {
            sum += first->value;
        }
        sums[at.global_thread()] = sum;
    }
};

struct bump_equal {
    monotonic_buffer_ref buffer;
    std::uint64_t bytes;
    simt::device_word<std::uint32_t>* taken;
    simt::device_word<std::uint32_t>* nulls;

    ORCHARD_FN void operator()(simt::thread_position) const {
        auto* const p = static_cast<std::uint64_t*>(buffer.allocate(bytes));
        if (p != nullptr) {
            *p = bytes;
        }
        (p != nullptr ? taken : nulls)->fetch_add<order::relaxed>(1);
    }
};

class containers_monotonic_buffer : public heap_contract {};
INSTANTIATE_TEST_SUITE_P(all, containers_monotonic_buffer, ::testing::ValuesIn(heap_cases()), case_name);

TEST_P(containers_monotonic_buffer, blocks_do_not_overlap_and_one_call_frees_all) {
    auto buffer = monotonic_buffer::create(h(), 4096);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    constexpr std::uint32_t count = 9;
    constexpr std::uint32_t threads = 2 * 80;
    for (int round = 0; round < 2; ++round) {
        const auto got = array<block>(threads * count);
        launch({2, 80}, bump_blocks{buffer->ref(), count, got.data()});
        std::vector<block> blocks = to_host(got);
        stamp(blocks);
        expect_stamped(blocks);
        std::sort(blocks.begin(), blocks.end(), [](const block& a, const block& b) { return a.address < b.address; });
        for (std::size_t i = 0; i < blocks.size(); ++i) {
            ASSERT_NE(blocks[i].address, 0u);
            ASSERT_EQ(blocks[i].address % 16, 0u);
            ASSERT_TRUE(i == 0 || blocks[i - 1].address + blocks[i - 1].bytes <= blocks[i].address);
        }
        EXPECT_TRUE(buffer->clear().ok());
        EXPECT_EQ(settled_stats().pages_in_use, 0u);
        EXPECT_EQ(settled_stats().live_chunks, 0u);
    }
    const auto sums = array<std::uint64_t>(threads);
    launch({2, 80}, make_nodes{buffer->ref(), sums.data()});
    EXPECT_THAT(to_host(sums), ::testing::Each(210u));
    *buffer = *monotonic_buffer::create(h());
    expect_empty();
}

TEST_P(containers_monotonic_buffer, a_shortage_takes_what_fits_and_can_be_tried_again) {
    remake([&] {
        options o = GetParam().values();
        o.capacity = GetParam().where == lies_in::its_own ? 8 * segment_bytes : o.capacity;
        o.range = 0;
        return o;
    }());
    auto buffer = monotonic_buffer::create(h());
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    const auto counts = array<simt::device_word<std::uint32_t>>(2);
    constexpr std::uint64_t bytes = 8 << 10;
    const std::uint64_t room = heap_segments() * segment_bytes;
    const simt::grid shape{static_cast<std::uint32_t>(room / bytes / 64) + 2, 64};
    launch(shape, bump_equal{buffer->ref(), bytes, counts.data(), counts.data() + 1});
    const std::uint64_t taken = to_host(counts)[0].load<order::relaxed>();
    EXPECT_NE(to_host(counts)[1].load<order::relaxed>(), 0u);
    EXPECT_GE(taken * bytes * 2, room) << "more than half of the heap";
    EXPECT_TRUE(buffer->clear().ok());
    launch({1, 32}, bump_equal{buffer->ref(), bytes, counts.data(), counts.data() + 1});
    EXPECT_EQ(to_host(counts)[0].load<order::relaxed>(), taken + 32);
    *buffer = *monotonic_buffer::create(h());
    expect_empty();
}

TEST_P(containers_monotonic_buffer, refuses_sizes_that_it_cannot_serve) {
    auto buffer = monotonic_buffer::create(h());
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    const auto counts = array<simt::device_word<std::uint32_t>>(2);
    launch({1, 3}, bump_equal{buffer->ref(), 0, counts.data(), counts.data() + 1});
    EXPECT_FALSE(h().last_failure().has_value());
    launch({1, 3}, bump_equal{buffer->ref(), monotonic_buffer_ref::largest + 1, counts.data(), counts.data() + 1});
    EXPECT_EQ(to_host(counts)[0].load<order::relaxed>(), 0u);
    EXPECT_EQ(to_host(counts)[1].load<order::relaxed>(), 6u);
    const auto failure = h().last_failure();
    ASSERT_TRUE(failure.has_value());
    EXPECT_EQ(failure->reason, failure_reason::too_large);
}

TEST(monotonic_buffer, says_which_first_chunks_are_allowed) {
    options o;
    o.device = device_option::emulated;
    o.capacity = 16 << 20;
    auto made = heap::create(o);
    ASSERT_TRUE(made.ok());
    for (const std::uint64_t first :
         {std::uint64_t{0}, std::uint64_t{2048}, std::uint64_t{5000}, std::uint64_t{4} << 20}) {
        const auto buffer = monotonic_buffer::create(*made, first);
        EXPECT_EQ(buffer.status().code(), absl::StatusCode::kInvalidArgument);
        EXPECT_NE(buffer.status().message().find("2097152"), std::string::npos);
    }
}

}  // namespace
}  // namespace orchard::test
