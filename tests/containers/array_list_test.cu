// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// `array_list`: numbers are dealt once, elements keep their places and values, and a shortage loses nothing.

#include <orchard/array_list.cuh>

#include <gmock/gmock.h>

#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

using simt::order;
using word = simt::device_word<std::uint32_t>;

/// An element larger than a word.
struct entry {
    std::uint32_t thread = 0;
    std::uint32_t number = 0;
    std::uint64_t mix = 0;

    [[nodiscard]] ORCHARD_FN static entry of(std::uint32_t thread, std::uint32_t number) {
        return {thread, number, (std::uint64_t{thread} << 32 | number) * 0x9e3779b97f4a7c15u};
    }
    friend bool operator==(const entry&, const entry&) = default;
};

/// Each thread appends `count` entries, by itself at times: lanes with an odd bit of the round take another branch.
struct append {
    array_list_ref<entry> list;
    std::uint32_t count;
    word* wrong;
    word* nulls;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto thread = static_cast<std::uint32_t>(at.global_thread());
        for (std::uint32_t i = 0; i < count; ++i) {
            const entry mine = entry::of(thread, i);
            entry* const p = (thread >> i % 5 & 1) != 0 ? list.push_back(mine) : list.push_back(mine);
            if (p == nullptr) {
                nulls->fetch_add<order::relaxed>(1);
            } else if (p->mix != mine.mix || p->thread != thread) {
                wrong->fetch_add<order::relaxed>(1);
            }
        }
    }
};

/// Each thread takes a range of its own length, and writes all of it.
struct append_ranges {
    array_list_ref<std::uint32_t> list;
    std::uint64_t* begins;  ///< one for each thread

    [[nodiscard]] ORCHARD_FN static std::uint32_t length_of(std::uint64_t thread) {
        return static_cast<std::uint32_t>(thread * 7 % 61);
    }
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t thread = at.global_thread();
        const std::uint64_t begin = list.grow(length_of(thread));
        begins[thread] = begin;
        for (std::uint32_t i = 0; begin != array_list_ref<std::uint32_t>::npos && i < length_of(thread); ++i) {
            list[begin + i] = static_cast<std::uint32_t>(thread) << 8 | i;
        }
    }
};

/// Each warp takes a range, and each block one for all its threads; both write it.
struct append_together {
    array_list_ref<std::uint32_t> list;
    word* wrong;

    [[nodiscard]] ORCHARD_FN static std::uint32_t of_warp(std::uint64_t warp) {
        return static_cast<std::uint32_t>(warp * 37 % 200);
    }
    ORCHARD_FN void operator()(simt::thread_position at) const {
        constexpr std::uint64_t npos = array_list_ref<std::uint32_t>::npos;
        const simt::lane_mask warp = simt::converge();
        const std::uint32_t count = of_warp(at.global_warp());
        const std::uint64_t begin = list.grow_warp(warp, count);
        for (auto i = static_cast<std::uint32_t>(simt::rank_in(warp)); begin != npos && i < count;
             i += static_cast<std::uint32_t>(simt::popcount(warp))) {
            list[begin + i] = 1;
        }
        for (std::uint32_t round = 0; round < 3; ++round) {
            const std::uint32_t mine = (at.thread + round) % 5;
            const std::uint64_t first = list.grow_block(mine);
            if ((first == npos) != (mine == 0)) {
                wrong->fetch_add<order::relaxed>(1);
            }
            for (std::uint32_t i = 0; first != npos && i < mine; ++i) {
                list[first + i] = 1;
            }
            // The threads' ranges follow each other.
            const std::uint64_t before = simt::sum_in_block(mine).before;
            const std::uint64_t base = simt::sum_in_block(at.thread == 1 ? first - before : 0).all;
            if (first != npos && first != base + before) {
                wrong->fetch_add<order::relaxed>(1);
            }
        }
        if (list.grow_block(0) != npos) {
            wrong->fetch_add<order::relaxed>(1);
        }
    }
};

/// Adds one to each element, as often as `how` says threads share the work.
struct add_to_each {
    array_list_ref<std::uint32_t> list;
    int how;
    word* sum;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto visit = [&](std::uint64_t i, std::uint32_t& element) {
            element += 1;
            sum->fetch_add<order::relaxed>(static_cast<std::uint32_t>(i));
        };
        if (how == 0 && at.global_thread() == 0) {
            list.for_each(visit);
        } else if (how == 1 && at.global_warp() == 0) {
            list.for_each_warp(simt::converge(), visit);
        } else if (how == 2 && at.block == 0) {
            list.for_each_block(visit);
        } else if (how == 3) {
            list.for_each_grid(visit);
        }
    }
};

class containers_array_list : public heap_contract {};
INSTANTIATE_TEST_SUITE_P(all, containers_array_list, ::testing::ValuesIn(heap_cases()), case_name);

TEST_P(containers_array_list, holds_what_all_threads_append) {
    // Six segments of different sizes, each of which takes a slab: some heaps have eight.
    auto list = array_list<entry>::create(h(), 256);
    ASSERT_TRUE(list.ok()) << list.status();
    EXPECT_EQ(*list->size(), 0u);
    const auto counts = array<word>(2);
    for (std::uint32_t round = 1; round <= 2; ++round) {
        launch({4, 96}, append{list->ref(), 20, counts.data(), counts.data() + 1});
        EXPECT_EQ(to_host(counts)[0].load<order::relaxed>(), 0u);
        EXPECT_EQ(to_host(counts)[1].load<order::relaxed>(), 0u);
        EXPECT_EQ(*list->size(), round * 4u * 96 * 20);
    }
    const auto all = list->contents();
    ASSERT_TRUE(all.ok()) << all.status();
    std::vector<std::uint32_t> seen(4 * 96 * 20);
    for (const entry& e : *all) {
        ASSERT_LT(e.thread, 4u * 96);
        ASSERT_LT(e.number, 20u);
        ASSERT_EQ(e, entry::of(e.thread, e.number));
        ++seen[e.thread * 20 + e.number];
    }
    EXPECT_THAT(seen, ::testing::Each(2u));
    EXPECT_TRUE(list->clear().ok());
    EXPECT_EQ(*list->size(), 0u);
    EXPECT_EQ(settled_stats().pages_in_use, 0u);
    launch({1, 32}, append{list->ref(), 1, counts.data(), counts.data() + 1});
    EXPECT_EQ(*list->size(), 32u) << "it can be used again";
    *list = *array_list<entry>::create(h());
    expect_empty();
}

TEST_P(containers_array_list, deals_ranges_of_any_length) {
    constexpr std::uint64_t threads = 2 * 70;
    auto list = array_list<std::uint32_t>::create(h(), 64);
    ASSERT_TRUE(list.ok()) << list.status();
    const auto begins = array<std::uint64_t>(threads);
    launch({2, 70}, append_ranges{list->ref(), begins.data()});
    const auto all = list->contents();
    ASSERT_TRUE(all.ok()) << all.status();
    std::uint64_t sum = 0;
    const std::vector<std::uint64_t> found = to_host(begins);
    for (std::uint64_t t = 0; t < threads; ++t) {
        const std::uint32_t length = append_ranges::length_of(t);
        sum += length;
        ASSERT_EQ(found[t] == array_list_ref<std::uint32_t>::npos, length == 0) << t;
        for (std::uint32_t i = 0; i < length; ++i) {
            ASSERT_EQ((*all)[found[t] + i], t << 8 | i);
        }
    }
    EXPECT_EQ(all->size(), sum);
    *list = *array_list<std::uint32_t>::create(h());
    expect_empty();
}

TEST_P(containers_array_list, deals_ranges_to_warps_and_blocks_and_visits_all) {
    constexpr std::uint32_t blocks = 3;
    constexpr std::uint32_t threads = 100;
    auto list = array_list<std::uint32_t>::create(h(), 32);
    ASSERT_TRUE(list.ok()) << list.status();
    const auto counts = array<word>(2);
    launch({blocks, threads}, append_together{list->ref(), counts.data()});
    EXPECT_EQ(to_host(counts)[0].load<order::relaxed>(), 0u);
    std::uint64_t expected = blocks * 3 * threads / 5 * (0 + 1 + 2 + 3 + 4);
    for (std::uint64_t warp = 0; warp < blocks * 4; ++warp) {
        expected += append_together::of_warp(warp);
    }
    const auto all = list->contents();
    ASSERT_TRUE(all.ok()) << all.status();
    EXPECT_EQ(all->size(), expected);
    EXPECT_THAT(*all, ::testing::Each(1u));
    for (int how = 0; how < 4; ++how) {
        launch({blocks, threads}, add_to_each{list->ref(), how, counts.data() + 1});
    }
    const auto again = list->contents();
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_THAT(*again, ::testing::Each(5u));
    EXPECT_EQ(to_host(counts)[1].load<order::relaxed>(), static_cast<std::uint32_t>(4 * expected * (expected - 1) / 2));
    *list = *array_list<std::uint32_t>::create(h());
    expect_empty();
}

struct leave_early {
    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.thread != 3) {
            (void)simt::sum_in_block(1);
        }
    }
};

TEST(array_list, a_block_whose_thread_has_ended_is_an_error) {
    options o;
    o.device = device_option::emulated;
    o.capacity = 16 << 20;
    auto made = heap::create(o);
    ASSERT_TRUE(made.ok());
    const simt::launch_result result = simt::launch(made->executor(), {2, 40}, leave_early{});
    EXPECT_FALSE(result.ok);
    EXPECT_NE(result.error.find("array_list_test.cu"), std::string::npos) << result.error;
}

/// Elements of 16 KiB fill a heap soon.
struct large {
    std::uint32_t thread = 0;
    std::uint32_t rest[4095] = {};
};
struct append_large {
    array_list_ref<large> list;
    word* taken;
    word* nulls;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = list.grow(1);
        if (i == array_list_ref<large>::npos) {
            nulls->fetch_add<order::relaxed>(1);
            return;
        }
        list[i].thread = static_cast<std::uint32_t>(at.global_thread()) + 1;
        taken->fetch_add<order::relaxed>(1);
    }
};

// What was appended stays, each number below the size has an element, and appending goes on when there is memory.
TEST_P(containers_array_list, a_shortage_takes_what_fits_and_can_be_tried_again) {
    remake([&] {
        options o = GetParam().values();
        o.capacity = GetParam().where == lies_in::its_own ? 8 * segment_bytes : o.capacity;
        o.range = 0;
        return o;
    }());
    auto list = array_list<large>::create(h(), 32);
    ASSERT_TRUE(list.ok()) << list.status();
    const auto counts = array<word>(2);
    const std::uint32_t blocks = static_cast<std::uint32_t>(heap_segments()) * 2;
    std::uint64_t most = 0;
    for (int round = 0; round < 3; ++round) {
        launch({blocks, 64}, append_large{list->ref(), counts.data(), counts.data() + 1});
        const auto size = list->size();
        ASSERT_TRUE(size.ok()) << size.status();
        EXPECT_EQ(*size, to_host(counts)[0].load<order::relaxed>());
        EXPECT_NE(to_host(counts)[1].load<order::relaxed>(), 0u);
        EXPECT_GE(*size, most);
        most = *size;
    }
    const auto all = list->contents();
    if (all.ok()) {  // the copy needs as much memory again
        EXPECT_TRUE(std::all_of(all->begin(), all->end(), [](const large& e) { return e.thread != 0; }));
    }
    // A quarter of the heap at the least: the next segment would be as large as all before it.
    EXPECT_GE(most * sizeof(large) * 4, heap_segments() * segment_bytes);
    EXPECT_TRUE(list->clear().ok());
    launch({1, 32}, append_large{list->ref(), counts.data(), counts.data() + 1});
    EXPECT_EQ(*list->size(), 32u);
    *list = *array_list<large>::create(h());
    expect_empty();
}

TEST(array_list, finds_segments_of_doubling_size) {
    const array_list_ref<int> list(heap_ref(), nullptr, 6);
    EXPECT_EQ(list.segment_of(0), 0u);
    EXPECT_EQ(list.segment_of(63), 0u);
    EXPECT_EQ(list.segment_of(64), 1u);
    EXPECT_EQ(list.segment_of(191), 1u);
    EXPECT_EQ(list.segment_of(192), 2u);
    for (std::uint32_t k = 0; k < 40; ++k) {
        EXPECT_EQ(list.segment_of(list.first_of(k)), k);
        EXPECT_EQ(list.segment_of(list.first_of(k + 1) - 1), k);
    }
}

TEST(array_list, says_which_first_segments_are_allowed) {
    options o;
    o.device = device_option::emulated;
    o.capacity = 16 << 20;
    auto made = heap::create(o);
    ASSERT_TRUE(made.ok());
    for (const std::uint64_t first :
         {std::uint64_t{0}, std::uint64_t{16}, std::uint64_t{100}, std::uint64_t{1} << 21}) {
        const auto list = array_list<int>::create(*made, first);
        EXPECT_EQ(list.status().code(), absl::StatusCode::kInvalidArgument);
        EXPECT_NE(list.status().message().find("2^20"), std::string::npos);
    }
}

}  // namespace
}  // namespace orchard::test
