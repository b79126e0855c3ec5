// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Which memory changes places between the device and the host.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "host/move_policy.hpp"

namespace orchard {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Memory of `count` segments, one after the other; the number is its place in the list.
class pieces {
public:
    pieces& add(memory_tier tier, double accesses, std::uint32_t count = 1) {
        all_.push_back({{{segment_index{next_}, count}, tier, all_.size()}, accesses});
        next_ += count;
        return *this;
    }
    pieces& device(double accesses, std::uint32_t count = 1) { return add(memory_tier::device, accesses, count); }
    pieces& host(double accesses, std::uint32_t count = 1) { return add(memory_tier::host, accesses, count); }

    /// The orders as text: ">3" moves the memory at segment 3 to the device, "<3" to the host.
    [[nodiscard]] std::vector<std::string> moves(move_limits limits) const {
        std::vector<std::string> result;
        for (const move_order& o : choose_moves(all_, limits)) {
            result.push_back((o.to == memory_tier::device ? ">" : "<") + std::to_string(to_underlying(o.first)));
        }
        return result;
    }
    [[nodiscard]] std::vector<std::string> moves(std::uint64_t room = 0) const {
        return moves({.device_room = room * segment_bytes, .is_sampled = true});
    }

private:
    std::vector<rated_memory> all_;
    std::uint32_t next_ = 0;
};

TEST(move_policy, the_most_used_of_the_host_changes_places_with_the_least_used_of_the_device) {
    EXPECT_THAT(pieces().device(9).device(0).device(40).host(200).host(12).host(0).moves(), ElementsAre("<1", ">3"));
    EXPECT_THAT(pieces().device(5).device(0).host(100).host(200).moves(), ElementsAre("<1", "<0", ">3", ">2"));
}

TEST(move_policy, nothing_moves_for_a_difference_that_chance_explains_or_that_is_small) {
    EXPECT_THAT(pieces().device(0).host(15).moves(), IsEmpty()) << "less than four times the root of 15";
    EXPECT_THAT(pieces().device(0).host(17).moves(), ElementsAre("<0", ">1"));
    EXPECT_THAT(pieces().device(1000).host(1900).moves(), IsEmpty()) << "less than twice as much";
    EXPECT_THAT(pieces().device(1000).host(2100).moves(), ElementsAre("<0", ">1"));
}

// The counts of independent accesses are those of a Poisson distribution.
TEST(move_policy, independent_accesses_to_all_memory_move_next_to_nothing) {
    std::mt19937_64 numbers(1);
    for (const double mean : {0.5, 4.0, 30.0, 1000.0}) {
        std::poisson_distribution<int> accesses(mean);
        pieces all;
        for (int i = 0; i < 4000; ++i) {
            all.add(i % 4 == 0 ? memory_tier::device : memory_tier::host, accesses(numbers));
        }
        EXPECT_LE(all.moves().size(), 4u) << mean;
    }
}

TEST(move_policy, room_on_the_device_is_filled_without_an_exchange) {
    EXPECT_THAT(pieces().device(50).host(1).host(7).host(0).moves(2), ElementsAre(">2", ">1"));
    EXPECT_THAT(pieces().host(1).host(0).moves(9), ElementsAre(">0")) << "what nothing uses stays";
}

TEST(move_policy, memory_of_several_segments_is_compared_by_the_segment) {
    EXPECT_THAT(pieces().device(30).device(20).host(240, 2).moves(), ElementsAre("<1", "<0", ">2"));
    EXPECT_THAT(pieces().device(240, 2).host(100).moves(), IsEmpty()) << "less than 120 of a segment";
    // Two segments leave for one: the room of the other serves the next.
    EXPECT_THAT(pieces().device(2, 2).host(100).host(90).moves(), ElementsAre("<0", ">2", ">3"));
}

TEST(move_policy, a_piece_for_which_not_enough_can_leave_stays_and_nothing_leaves_for_it) {
    EXPECT_THAT(pieces().device(0).device(500).host(300, 2).moves(), IsEmpty());
}

TEST(move_policy, without_samples_the_youngest_memory_is_on_the_device) {
    EXPECT_THAT(pieces().device(0).device(0).host(0).host(0).moves(move_limits{}), ElementsAre("<0", "<1", ">3", ">2"));
    EXPECT_THAT(pieces().host(0).host(0).device(0).device(0).moves(move_limits{}), IsEmpty());
}

TEST(move_policy, memory_leaves_one_batch_ahead_of_what_needs_the_room) {
    pieces all;
    for (int i = 0; i < 3; ++i) {
        all.device(0);
    }
    for (int i = 0; i < 3; ++i) {
        all.host(100);
    }
    EXPECT_THAT(all.moves({.is_sampled = true, .batch_bytes = segment_bytes}),
                ElementsAre("<0", "<1", ">3", "<2", ">4", ">5"));
}

}  // namespace
}  // namespace orchard
