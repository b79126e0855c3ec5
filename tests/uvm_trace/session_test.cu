// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The code that the applications share: parts, their recording, and the detection of wrong results.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "profiling/uvm/applications/session.hpp"
#include "tests/uvm_trace/traces.hpp"

namespace orchard::test {
namespace {

using applications::index;
using applications::parameters;
using applications::parts;
using applications::session;
using uvm_model::access_kind;

/// Thread t adds 1 to element t + `shift`.
struct increment {
    parts<index> of;
    std::uint64_t threads;
    std::uint64_t shift;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t t = at.global_thread();
        if (t < threads) {
            of[t + shift].set(of[t + shift].get() + 1);
        }
    }
};

/// Thread 0 reads a word of the heap.
struct read_word {
    const index* word;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.global_thread() == 0) {
            (void)word->get();
        }
    }
};

parameters few(layout how = layout::linear()) {
    parameters p;
    p.threads = 40;
    p.how = how;
    return p;
}

std::int64_t squares(std::uint64_t i) { return static_cast<std::int64_t>(i * i); }

TEST(Session, PartsBelongToThreadsAndAreRecordedWhereTheyLie) {
    const parameters p = few(layout::interleaved(tile::b16));
    auto s = session::create(p, 1 << 20);
    ASSERT_TRUE(s.ok()) << s.status();
    const auto first = (*s)->array<index>(160, 1, squares);   // 4 each: whole tiles
    const auto second = (*s)->array<index>(201, 3, squares);  // 6 each, since 3 lie together
    EXPECT_EQ(first.per_thread, 4u);
    EXPECT_EQ(second.per_thread, 6u);
    EXPECT_EQ(first.of_thread.data()[39].map(), lane_map::rows(tile::b16, 8));
    (*s)->launch(increment{first.view(), 40, 2});
    (*s)->launch(increment{second.view(), 40, 0});
    std::vector<std::int64_t> right(160);
    for (std::uint64_t i = 0; i < 160; ++i) {
        right[i] = squares(i) + (i >= 2 && i < 42 ? 1 : 0);
    }
    (*s)->expect("first", (*s)->contents(first, 160), right);
    const auto t = (*s)->trace();
    ASSERT_TRUE(t.ok()) << t.status();

    // A VA block for each array. Element e of the first is word e mod 4 of thread e / 4's only tile.
    EXPECT_EQ(t->header().space_bytes, 2 * segment_bytes);
    const auto all = all_of(*t->source());
    ASSERT_EQ(all.size(), 2u);
    ASSERT_EQ(all[0].size(), 4u);
    for (std::uint8_t l = 0; l < 32; ++l) {
        const std::uint64_t of_first = (l + 2) / 4 * 16 + (l + 2) % 4 * 4;
        const std::uint64_t of_second = segment_bytes + l / 6 * 16 + (l % 6 / 4) * 32 * 16 + l % 6 % 4 * 4;
        EXPECT_EQ(all[0][0][l], (uvm_model::access{of_first, l, access_kind::read}));
        EXPECT_EQ(all[0][1][l], (uvm_model::access{of_first, l, access_kind::write}));
        EXPECT_EQ(all[0][2][l], (uvm_model::access{of_second, l, access_kind::read}));
    }
    EXPECT_EQ(all[1][0].size(), 8u);
}

TEST(Parts, HaveThePlacesThatADivisionGives) {
    const std::uint64_t greatest = ~std::uint64_t{0};
    for (const std::uint64_t each :
         {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3}, std::uint64_t{7}, std::uint64_t{1} << 20,
          (std::uint64_t{1} << 32) - 1, (std::uint64_t{1} << 32) + 1, greatest / 2, greatest}) {
        const std::uint64_t reciprocal = applications::reciprocal_of(each);
        // Around multiples of the divisor, small ones and the greatest.
        for (const std::uint64_t part : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{1} << 20,
                                         greatest / each - 1, greatest / each}) {
            for (const int beside : {-1, 0, 1}) {
                const std::uint64_t i = part * each + static_cast<std::uint64_t>(beside);
                const applications::part_place at = applications::place_in_parts(i, each, reciprocal);
                EXPECT_EQ(at.thread, i / each) << i << " by " << each;
                EXPECT_EQ(at.element, i % each) << i << " by " << each;
            }
        }
    }
}

TEST(Session, AWrongResultIsAnError) {
    auto s = session::create(few(), 1 << 20);
    ASSERT_TRUE(s.ok()) << s.status();
    const auto array = (*s)->array<index>(40, 1, squares);
    (*s)->launch(increment{array.view(), 40, 0});
    std::vector<std::int64_t> right(40);
    for (std::uint64_t i = 0; i < 40; ++i) {
        right[i] = squares(i) + (i == 7 ? 0 : 1);
    }
    (*s)->expect("increment", (*s)->contents(array, 40), right);
    const auto t = (*s)->trace();
    EXPECT_EQ(t.status().code(), absl::StatusCode::kInternal);
    EXPECT_EQ(std::string(t.status().message()), "increment: result 7 is 50, not 49");
}

TEST(Session, TooFewResultsAreAnError) {
    auto s = session::create(few(), 1 << 20);
    ASSERT_TRUE(s.ok()) << s.status();
    (*s)->expect("results", {1, 2}, {1, 2, 3});
    EXPECT_THAT(std::string((*s)->status().message()), ::testing::HasSubstr("2 results, not 3"));
}

TEST(Session, AnAccessOfNoArrayIsAnError) {
    auto s = session::create(few(), 1 << 20);
    ASSERT_TRUE(s.ok()) << s.status();
    const auto array = (*s)->array<index>(40 * 4, 1, squares);
    const auto* const last = static_cast<const index*>(array.of_thread.data()[39].chunk());
    (*s)->launch(read_word{last + 1000});
    EXPECT_EQ((*s)->trace().status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Session, NoMemoryIsAnError) {
    auto s = session::create(few(), 1 << 20);
    ASSERT_TRUE(s.ok()) << s.status();
    (void)(*s)->array<index>(1ull << 30, 1, squares);
    EXPECT_EQ((*s)->trace().status().code(), absl::StatusCode::kResourceExhausted) << (*s)->status();
}

}  // namespace
}  // namespace orchard::test
