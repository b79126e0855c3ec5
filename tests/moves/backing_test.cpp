// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Memory of the elastic backing that moves between the tiers: its addresses and its contents stay the same, whatever
// fails meanwhile.

#include <gmock/gmock.h>

#include <cstring>
#include <thread>

#include "tests/backing/elastic_fixture.hpp"

namespace orchard {
namespace {

constexpr auto device_tier = memory_tier::device;
constexpr auto host_tier = memory_tier::host;

class TierMoves : public ElasticBacking {
protected:
    /// A backing of budgets in segments, all of which are committed, one run of the device and one of the host; each
    /// segment and page is marked with its number.
    /// @param room  segments that the host's budget has beyond that
    void fill(std::uint32_t device, std::uint32_t host, std::uint64_t unit = 1, bool checks = false,
              std::uint32_t room = 0) {
        auto made =
            make_elastic_backing(std::make_unique<fake_driver>(script), {.range = 512 * segment_bytes,
                                                                         .device_budget = device * segment_bytes,
                                                                         .host_budget = (host + room) * segment_bytes,
                                                                         .move_unit = unit * segment_bytes,
                                                                         .checks_moves = checks});
        ASSERT_TRUE(made.ok()) << made.status();
        memory_ = *std::move(made);
        segments_ = device + host;
        ASSERT_EQ(memory_->commit(run_at(0, device)).tier, device_tier);
        ASSERT_EQ(memory_->commit(run_at(device, host)).tier, host_tier);
        write_contents();
    }
    /// Writes the segment's number and the page's into the first word of each page.
    void write_contents() {
        for (std::uint32_t i = 0; i < segments_; ++i) {
            for (std::uint32_t page = 0; page < pages; ++page) {
                *word(i, page) = mark_of(i, page);
            }
        }
    }
    static constexpr std::uint32_t page_bytes = 4096;
    static constexpr std::uint32_t pages = segment_bytes / page_bytes;
    static std::uint64_t mark_of(std::uint32_t segment, std::uint32_t page) {
        return std::uint64_t{segment + 1} << 32 | page;
    }
    std::uint64_t* word(std::uint32_t segment, std::uint32_t page) {
        return reinterpret_cast<std::uint64_t*>(at(segment) + page * page_bytes);
    }
    char* at(std::uint32_t segment) { return memory_->base() + segment * segment_bytes; }
    /// Each page has what `write_contents` has written.
    void expect_contents(const char* when) {
        for (std::uint32_t i = 0; i < segments_; ++i) {
            for (std::uint32_t page = 0; page < pages; ++page) {
                ASSERT_EQ(*word(i, page), mark_of(i, page)) << "segment " << i << ", page " << page << ' ' << when;
            }
        }
    }
    /// The first segments of the pieces on the device.
    std::vector<std::uint32_t> on_device() {
        std::vector<std::uint32_t> found;
        for (const movable_memory& m : memory_->movable()) {
            if (m.tier == device_tier) {
                found.push_back(to_underlying(m.run.first));
            }
        }
        return found;
    }
    static std::vector<move_order> orders(std::initializer_list<std::pair<std::uint32_t, memory_tier>> from) {
        std::vector<move_order> all;
        for (const auto& [first, to] : from) {
            all.push_back({segment_index{first}, to});
        }
        return all;
    }
    /// The segments 0 and 1 of the device change places with the last two of the host.
    absl::Status exchange_two() {
        return memory_->move(
            orders({{0, host_tier}, {1, host_tier}, {segments_ - 1, device_tier}, {segments_ - 2, device_tier}}));
    }

    std::unique_ptr<backing> memory_;
    std::uint32_t segments_ = 0;
};

using ::testing::ElementsAre;

TEST_F(TierMoves, KeepAddressesAndContents) {
    for (const bool checks : {false, true}) {
        ASSERT_NO_FATAL_FAILURE(fill(4, 6, 1, checks));
        ASSERT_TRUE(exchange_two().ok());
        EXPECT_THAT(on_device(), ElementsAre(2, 3, 8, 9));
        ASSERT_NO_FATAL_FAILURE(expect_contents("after the exchange"));
        EXPECT_EQ(memory_->use().device_bytes, 4 * segment_bytes);
        EXPECT_EQ(memory_->use().host_bytes, 6 * segment_bytes);
        EXPECT_EQ(memory_->use().moved_to_device, 2 * segment_bytes);
        EXPECT_EQ(memory_->use().moved_to_host, 2 * segment_bytes);
        ASSERT_TRUE(exchange_two().ok()) << "all have their tiers already";
        EXPECT_EQ(memory_->use().moved_to_host, 2 * segment_bytes);
        write_contents();
        memory_.reset();
        EXPECT_EQ(script->live(), driver_live{});
    }
}

// Both budgets are spent: the memory for the first copies is beyond them, and is kept.
TEST_F(TierMoves, ExchangeAllMemoryOfTheDevice) {
    ASSERT_NO_FATAL_FAILURE(fill(20, 20));
    std::vector<move_order> all;
    for (std::uint32_t i = 0; i < 20; ++i) {
        all.push_back({segment_index{i}, host_tier});
    }
    for (std::uint32_t i = 20; i < 40; ++i) {
        all.push_back({segment_index{i}, device_tier});
    }
    for (int round = 0; round < 3; ++round) {
        const absl::Status moved = memory_->move(all);
        ASSERT_TRUE(moved.ok()) << moved;
        ASSERT_NO_FATAL_FAILURE(expect_contents("after a round"));
        EXPECT_EQ(on_device().front(), round % 2 == 0 ? 20u : 0u);
        EXPECT_EQ(script->live().device_bytes, 20 * segment_bytes);
        EXPECT_EQ(script->live().host_bytes, 20 * segment_bytes + memory_->use().spare_bytes);
        for (move_order& o : all) {
            o.to = o.to == device_tier ? host_tier : device_tier;
        }
        std::reverse(all.begin(), all.end());  // what leaves the device comes first again
    }
    EXPECT_GT(memory_->use().spare_bytes, 0u);
    memory_->give_up_spares();
    EXPECT_EQ(memory_->use().spare_bytes, 0u);
    EXPECT_EQ(script->live().host_bytes, 20 * segment_bytes);
    for (const auto& [first, count] : {std::pair{0u, 20u}, std::pair{20u, 20u}}) {
        ASSERT_TRUE(memory_->decommit(run_at(first, count)).ok());
    }
    EXPECT_EQ(script->live().handles, 0);
}

TEST_F(TierMoves, PiecesHaveTheUnitsSizeAndARunItsRest) {
    ASSERT_NO_FATAL_FAILURE(fill(5, 6, 2));
    EXPECT_THAT(on_device(), ElementsAre(0, 2, 4));
    ASSERT_TRUE(memory_->move(orders({{0, host_tier}, {4, host_tier}, {5, device_tier}})).ok());
    EXPECT_THAT(on_device(), ElementsAre(2, 5)) << "the last one was of a segment";
    EXPECT_EQ(memory_->use().device_bytes, 4 * segment_bytes);
    ASSERT_NO_FATAL_FAILURE(expect_contents("after the move"));
    ASSERT_TRUE(memory_->decommit(run_at(0, 5)).ok()) << "a run of both tiers";
    EXPECT_EQ(memory_->use().device_bytes, 2 * segment_bytes);
    EXPECT_EQ(memory_->use().host_bytes, 4 * segment_bytes);
}

TEST_F(TierMoves, ATierWithoutRoomIsNamedWithItsNumbers) {
    ASSERT_NO_FATAL_FAILURE(fill(2, 2));
    const absl::Status status = memory_->move(orders({{3, device_tier}}));
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    expect_text(status, {"2097152 bytes", "device", "4194304", "capacity"});
    EXPECT_THAT(on_device(), ElementsAre(0, 1));
    EXPECT_TRUE(memory_->move(orders({{0, host_tier}, {3, device_tier}, {77, device_tier}})).ok())
        << "memory that is not there is passed over";
    ASSERT_NO_FATAL_FAILURE(expect_contents("after the move"));
}

TEST_F(TierMoves, WithoutAUnitOrATierNothingMoves) {
    for (const auto& [host, unit] : {std::pair{4u, 0u}, std::pair{0u, 1u}}) {
        auto made = make_elastic_backing(std::make_unique<fake_driver>(script), {.range = 16 * segment_bytes,
                                                                                 .device_budget = 4 * segment_bytes,
                                                                                 .host_budget = host * segment_bytes,
                                                                                 .move_unit = unit * segment_bytes});
        ASSERT_TRUE(made.ok());
        EXPECT_FALSE((*made)->can_move());
        EXPECT_TRUE((*made)->movable().empty());
        expect_text((*made)->move({}), {"move_unit", "host_budget"});
    }
}

// Each call of each kind fails once, in turn. Whatever it is, nothing is lost, and the next call does what is left.
TEST_F(TierMoves, AnyFailureOfTheDriverLosesNothing) {
    for (const bool checks : {false, true}) {
        for (const driver_call call :
             {driver_call::create, driver_call::map, driver_call::set_access, driver_call::unmap, driver_call::reserve,
              driver_call::begin_copies, driver_call::finish_copies}) {
            int failed = 0;
            for (int nth = 1;; ++nth) {
                ASSERT_NO_FATAL_FAILURE(fill(4, 4, 1, checks));
                script->fail(call, absl::InternalError("a failure"), nth);
                const absl::Status status = exchange_two();
                ASSERT_NO_FATAL_FAILURE(expect_contents("after a failure"));
                const absl::Status again = exchange_two();
                EXPECT_TRUE(again.ok()) << again;
                EXPECT_THAT(on_device(), ElementsAre(2, 3, 6, 7)) << call << ' ' << nth;
                ASSERT_NO_FATAL_FAILURE(expect_contents("after the next call"));
                memory_.reset();
                if (status.ok()) {
                    // There were fewer such calls, or it was one that only keeps memory to the end of the process.
                    script = std::make_shared<driver_script>();
                    break;
                }
                EXPECT_EQ(script->live(), driver_live{}) << call << ' ' << nth;
                script = std::make_shared<driver_script>();
                EXPECT_EQ(status, absl::InternalError("a failure")) << call << ' ' << nth;
                ++failed;
            }
            EXPECT_GT(failed, 0) << call;
        }
    }
}

// A machine that is short of memory for a mapping is no reason to take a piece for copied.
TEST_F(TierMoves, AShortageWithinAMoveLosesNothing) {
    for (const driver_call call :
         {driver_call::create, driver_call::map, driver_call::set_access, driver_call::unmap}) {
        for (int nth = 1; nth <= 10; ++nth) {
            script = std::make_shared<driver_script>();
            ASSERT_NO_FATAL_FAILURE(fill(4, 4, 1, true));
            script->fail(call, absl::ResourceExhaustedError("the machine is short"), nth);
            (void)exchange_two();
            ASSERT_NO_FATAL_FAILURE(expect_contents("after a shortage"));
            const absl::Status again = exchange_two();
            EXPECT_TRUE(again.ok()) << again;
            EXPECT_THAT(on_device(), ElementsAre(2, 3, 6, 7)) << call << ' ' << nth;
            ASSERT_NO_FATAL_FAILURE(expect_contents("after the next call"));
            memory_.reset();
        }
    }
}

TEST_F(TierMoves, TheHostsBudgetIsExceededOnlyForAnExchange) {
    ASSERT_NO_FATAL_FAILURE(fill(4, 4));
    expect_text(memory_->move(orders({{0, host_tier}})), {"host_budget", "8388608"});
    EXPECT_EQ(memory_->use().host_bytes, 4 * segment_bytes);
    EXPECT_TRUE(memory_->move(orders({{0, host_tier}, {5, device_tier}})).ok());
}

TEST_F(TierMoves, SpareMemoryOfAnotherSizeMakesRoom) {
    ASSERT_NO_FATAL_FAILURE(fill(5, 5, 2, false, 2));
    ASSERT_TRUE(memory_->move(orders({{0, host_tier}, {9, device_tier}})).ok()) << "two segments out, one in";
    EXPECT_THAT(on_device(), ElementsAre(2, 4, 9));
    ASSERT_TRUE(memory_->move(orders({{4, host_tier}, {5, device_tier}})).ok());
    EXPECT_THAT(on_device(), ElementsAre(2, 5, 9));
    ASSERT_NO_FATAL_FAILURE(expect_contents("after both"));
}

// It takes more than an exchange may take beyond the budget: 400 segments, which are 20 GiB with the shadow memory of
// the thread sanitizer.
TEST_F(TierMoves, SlowGrowthOnTheHostTakesTheRoomOfSpareMemory) {
    ASSERT_NO_FATAL_FAILURE(fill(200, 1, 1, false, 199));
    std::vector<move_order> all;
    for (std::uint32_t i = 0; i < 190; ++i) {
        all.push_back({segment_index{i}, host_tier});
    }
    ASSERT_TRUE(memory_->move(all).ok());
    for (move_order& o : all) {
        o.to = device_tier;
    }
    ASSERT_TRUE(memory_->move(all).ok());
    EXPECT_EQ(memory_->use().spare_bytes, 190 * segment_bytes);
    ASSERT_EQ(memory_->commit(run_at(210, 150)).tier, host_tier);
    EXPECT_LE(script->live().host_bytes, (200 + 96) * segment_bytes) << "the budget, and what an exchange may take";
}

// A machine without memory for the device has some again once memory has left the device.
TEST_F(TierMoves, GrowthTriesTheDeviceAgainAfterAMoveToTheHost) {
    ASSERT_NO_FATAL_FAILURE(fill(2, 1, 1, false, 8));
    ASSERT_TRUE(memory_->move(orders({{0, host_tier}})).ok());
    memory_->give_up_spares();
    script->fail(driver_call::create, absl::ResourceExhaustedError("others use the device"));
    ASSERT_EQ(memory_->commit(run_at(10, 1)).tier, host_tier);
    ASSERT_EQ(memory_->commit(run_at(11, 1)).tier, host_tier) << "it is not asked again";
    ASSERT_TRUE(memory_->move(orders({{1, host_tier}})).ok());
    memory_->give_up_spares();
    EXPECT_EQ(memory_->commit(run_at(12, 1)).tier, device_tier);
}

// Two calls fail: the new memory cannot be mapped, and the old one cannot be mapped again.
TEST_F(TierMoves, APieceWithoutMemoryAtItsAddressesGetsItByTheNextCall) {
    ASSERT_NO_FATAL_FAILURE(fill(2, 2, 1, false, 2));
    const std::size_t maps = script->count(driver_call::map);
    ASSERT_TRUE(memory_->move(orders({{0, host_tier}})).ok());
    ASSERT_EQ(script->count(driver_call::map), maps + 2) << "the alias, and the addresses";
    memory_->give_up_spares();
    script->fail(driver_call::map, absl::InternalError("a failure"), 2);
    script->fail(driver_call::map, absl::InternalError("another one"), 3);
    EXPECT_FALSE(memory_->move(orders({{1, host_tier}})).ok());
    EXPECT_EQ(memory_->decommit(run_at(0, 2)).code(), absl::StatusCode::kUnavailable);
    script->fail(driver_call::map, absl::InternalError("still"), 1);
    expect_text(memory_->move({}), {"still", "no memory at their addresses"});
    EXPECT_TRUE(memory_->move({}).ok());
    ASSERT_NO_FATAL_FAILURE(expect_contents("after the repair"));
    EXPECT_TRUE(memory_->decommit(run_at(0, 2)).ok());
}

// A copy that has to wait delays moves alone.
TEST_F(TierMoves, ABlockedCopyDelaysNeitherCommitsNorDecommits) {
    ASSERT_NO_FATAL_FAILURE(fill(6, 8));
    ASSERT_TRUE(memory_->decommit(run_at(6, 8)).ok());
    ASSERT_TRUE(memory_->commit(run_at(6, 2)).ok());
    segments_ = 6;
    const std::size_t held = script->hold(driver_call::finish_copies);
    std::thread mover([&] { EXPECT_TRUE(memory_->move(orders({{0, host_tier}})).ok()); });
    script->wait_until_reached(held);
    EXPECT_TRUE(memory_->commit(run_at(20, 2)).ok());
    EXPECT_TRUE(memory_->decommit(run_at(20, 2)).ok());
    EXPECT_EQ(memory_->decommit(run_at(0, 6)).code(), absl::StatusCode::kUnavailable) << "a part of it is moving";
    EXPECT_EQ(memory_->movable().size(), 8u);
    script->let_go(held);
    mover.join();
    ASSERT_NO_FATAL_FAILURE(expect_contents("after the move"));
    EXPECT_TRUE(memory_->decommit(run_at(0, 6)).ok());
}

TEST_F(TierMoves, ACopyBeyondItsDeadlineIsGivenUpByTheNextCall) {
    for (const bool checks : {false, true}) {
        ASSERT_NO_FATAL_FAILURE(fill(4, 4, 1, checks, 1));
        script->fail(driver_call::finish_copies, absl::DeadlineExceededError("a kernel runs"));
        EXPECT_EQ(exchange_two().code(), absl::StatusCode::kDeadlineExceeded);
        script->fail(driver_call::finish_copies, absl::DeadlineExceededError("it still runs"));
        EXPECT_EQ(memory_->move({}).code(), absl::StatusCode::kDeadlineExceeded);
        if (!checks) {
            *word(0, 7) = 77;  // a kernel that did not know of the copy
        }
        EXPECT_TRUE(memory_->move({}).ok());
        EXPECT_THAT(on_device(), ElementsAre(0, 1, 2, 3));
        EXPECT_EQ(*word(0, 7), checks ? mark_of(0, 7) : 77);
        write_contents();
        EXPECT_TRUE(exchange_two().ok());
        EXPECT_THAT(on_device(), ElementsAre(2, 3, 6, 7));
        ASSERT_NO_FATAL_FAILURE(expect_contents("after the next call"));
        // The end beside a copy that was not awaited.
        script->fail(driver_call::finish_copies, absl::DeadlineExceededError("a kernel runs"));
        EXPECT_FALSE(memory_->move(orders({{2, host_tier}})).ok());
        memory_.reset();
        EXPECT_EQ(script->live(), driver_live{});
    }
}

using TierMovesDeathTest = TierMoves;

TEST_F(TierMovesDeathTest, AUseOfMemoryThatMovesFaultsIfMovesAreChecked) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_DEATH(
        {
            fill(4, 4, 1, true);
            script->fail(driver_call::finish_copies, absl::DeadlineExceededError("a kernel runs"));
            (void)exchange_two();
            write_to(at(2));  // this one does not move
            write_to(at(0));
        },
        "");
}

}  // namespace
}  // namespace orchard
