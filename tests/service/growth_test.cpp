// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Grants that need memory which is not committed yet, or cannot be.

#include <gtest/gtest.h>

#include <vector>

#include "tests/service/growth_fixture.hpp"
#include "tests/support/background.hpp"

namespace orchard {
namespace {

using mailbox::response;
using mailbox::response_status;
using rig::id_of;
using rig::ring_client;
using rig::service_rig;
using rig::service_setup;
using rig::ServiceGrowth;

TEST_F(ServiceGrowth, ParksAGrantAndAnswersOthersMeanwhile) {
    const auto large = client_.ask(10);
    poll();
    expect_nothing();
    EXPECT_EQ(host_.service.counters().requests_parked.get(), 1u);
    const auto ping = client_.ping();
    poll();
    EXPECT_EQ(expect_response(ping).status, response_status::acknowledged);
    EXPECT_TRUE(host_.grower.step());
    poll();
    expect_nothing();
    EXPECT_EQ(host_.service.counters().segments_committed.get(), 8u);
    EXPECT_TRUE(host_.grower.step());
    poll();
    expect_grant(large, 0);
    expect_valid();
    EXPECT_EQ(host_.service.counters().segments_committed.get(), 16u);
    EXPECT_EQ(host_.service.counters().segments_free.get(), 6u);
    grow_all();
    EXPECT_LE(host_.memory.commits().size(), 3u) << "growth goes on for long after it was needed";
    const auto small = client_.ask(1);
    poll();
    expect_grant(small, 10);
    EXPECT_EQ(host_.service.counters().requests_parked.get(), 1u);
}

TEST_F(ServiceGrowth, AnswersParkedGrantsInTheirOrderEachAsSoonAsItFits) {
    const auto first = client_.ask(8);
    const auto second = client_.ask(9);
    const auto third = client_.ask(1);
    poll();
    expect_nothing();
    for (int i = 0; i < 10 && client_.in_flight() > 2; ++i) {
        host_.grower.step();
        poll();
        if (const auto a = client_.take()) {
            EXPECT_EQ(id_of(*a), first);
            EXPECT_EQ(a->run.first, segment_index{0});
        }
    }
    std::vector<response> rest;
    for (int i = 0; i < 10 && client_.in_flight() != 0; ++i) {
        grow_all();
        poll();
        while (const auto a = client_.take()) {
            rest.push_back(*a);
        }
    }
    ASSERT_EQ(rest.size(), 2u);
    for (const response& a : rest) {
        EXPECT_EQ(a.status, response_status::granted);
        EXPECT_TRUE(id_of(a) == second || id_of(a) == third);
    }
    expect_valid();
    EXPECT_EQ(host_.service.counters().segments_granted.get(), 18u);
}

TEST_F(ServiceGrowth, HasAsMuchCommittedAsAllWhoWaitAskFor) {
    for (const std::uint32_t count : {10u, 20u, 30u}) {
        client_.ask(count);
    }
    poll();
    EXPECT_EQ(host_.grower.line().wanted.load<simt::order::relaxed>(), 60u);
    grow_all();
    poll();
    EXPECT_EQ(host_.service.counters().segments_granted.get(), 60u);
    EXPECT_EQ(host_.service.counters().segments_committed.get(), 64u) << "extents of 8";
    client_.ask(5);
    poll();
    EXPECT_EQ(host_.grower.line().wanted.load<simt::order::relaxed>(), 69u) << "requests that were served wait no more";
    expect_valid();
}

TEST_F(ServiceGrowth, OfTailsThatWaitCountsTheLeaves) {
    for (std::uint32_t i = 0; i < 40; ++i) {
        client_.ask_chunk(0, 1);
    }
    poll();
    EXPECT_EQ(host_.grower.line().wanted.load<simt::order::relaxed>(), 2u) << "of 32 leaves each";
    grow_all();
    poll();
    EXPECT_EQ(host_.service.counters().portions_granted.get(), 40u);
    EXPECT_EQ(host_.service.counters().segments_granted.get(), 2u);
    expect_valid();
}

TEST_F(ServiceGrowth, GivesAParkedGrantWhatIsReturnedBeforeItIsCommitted) {
    const auto all = client_.ask(8);
    poll();
    grow_all();
    poll();
    expect_grant(all, 0);
    const auto parked = client_.ask(3);
    poll();
    expect_nothing();
    const auto back = client_.give_back(0, 8);
    poll();
    EXPECT_EQ(expect_response(back).status, response_status::acknowledged);
    poll();
    expect_grant(parked, 0);
    expect_valid();
}

TEST_F(ServiceGrowth, RefusesParkedGrantsWhenAllIsCommitted) {
    // The gap of one segment makes the last request impossible, which only shows at the end.
    const auto one = client_.ask(1);
    const auto rest = client_.ask(256);
    poll();
    for (int i = 0; i < 100 && client_.in_flight() != 0; ++i) {
        host_.grower.step();
        poll();
        while (const auto a = client_.take()) {
            if (id_of(*a) == one) {
                EXPECT_EQ(a->status, response_status::granted);
            } else {
                EXPECT_EQ(id_of(*a), rest);
                EXPECT_EQ(a->status, response_status::out_of_memory);
            }
        }
    }
    EXPECT_EQ(client_.in_flight(), 0u);
    EXPECT_EQ(host_.service.counters().segments_committed.get(), 256u);
    expect_valid();
}

TEST_F(ServiceGrowth, KeepsToTheSlotsThatThereAre) {
    // As many waiting requests as slots, all of which are answered in the end.
    std::vector<ring_client::id> asked;
    for (std::uint32_t i = 0; i < host_.box.shape.slots; ++i) {
        asked.push_back(client_.ask(1));
    }
    poll();
    for (int i = 0; i < 100 && client_.in_flight() != 0; ++i) {
        grow_all();
        poll();
        while (const auto a = client_.take()) {
            EXPECT_EQ(a->status, response_status::granted);
        }
    }
    EXPECT_EQ(client_.in_flight(), 0u);
    EXPECT_EQ(host_.service.counters().requests_parked.get(), asked.size());
    EXPECT_EQ(host_.service.counters().segments_granted.get(), asked.size());
}

TEST_F(ServiceGrowth, ClosingAnswersParkedGrants) {
    const auto parked = client_.ask(3);
    poll();
    expect_nothing();
    host_.service.close();
    poll();
    EXPECT_EQ(expect_response(parked).status, response_status::closing);
    grow_all();
    poll();
    expect_nothing();
    EXPECT_EQ(host_.service.counters().segments_granted.get(), 0u);
    expect_valid();
}

TEST_F(ServiceGrowth, AFailedCommitAnswersParkedGrantsWithItsReason) {
    const auto first = client_.ask(3);
    const auto second = client_.ask(4);
    poll();
    host_.memory.end_with(absl::ResourceExhaustedError("no more memory today"));
    EXPECT_TRUE(host_.grower.step());
    poll();
    EXPECT_EQ(expect_response(first).status, response_status::commit_failed);
    EXPECT_EQ(expect_response(second).status, response_status::commit_failed);
    EXPECT_EQ(host_.grower.last_error().message(), "no more memory today");
    EXPECT_EQ(host_.service.counters().segments_committed.get(), 0u);
    expect_valid();
}

// The service tries again for a later request, because memory may have become free elsewhere.
TEST_F(ServiceGrowth, ACommitThatFailedOnceIsTriedAgainForALaterRequest) {
    host_.memory.end_with(absl::ResourceExhaustedError("not now"));
    const auto failing = client_.ask(3);
    poll();
    grow_all();
    poll();
    EXPECT_EQ(expect_response(failing).status, response_status::commit_failed);
    host_.memory.end_with(absl::OkStatus());
    response_status last = response_status::commit_failed;
    for (int i = 0; i < 4 && last != response_status::granted; ++i) {
        client_.ask(3);
        for (int turn = 0; turn < 4 && client_.in_flight() != 0; ++turn) {
            poll();
            grow_all();
            if (const auto a = client_.take()) {
                last = a->status;
            }
        }
    }
    EXPECT_EQ(last, response_status::granted);
    expect_valid();
}

TEST_F(ServiceGrowth, ARequestThatFitsIsGrantedAfterAFailedCommit) {
    const auto fits = client_.ask(5);
    poll();
    grow_all();
    poll();
    expect_grant(fits, 0);
    host_.memory.end_with(absl::ResourceExhaustedError("not now"));
    const auto failing = client_.ask(8);
    poll();
    grow_all();
    poll();
    EXPECT_EQ(expect_response(failing).status, response_status::commit_failed);
    const auto small = client_.ask(3);
    poll();
    expect_grant(small, 5);
    expect_valid();
}

TEST_F(ServiceGrowth, ACommitThatLastsDelaysNoOtherAnswer) {
    host_.memory.hold();
    host_.grower.start();
    const auto parked = client_.ask(3);
    poll();
    host_.memory.wait_until_entered(1);
    for (int i = 0; i < 10; ++i) {
        const std::uint64_t heartbeats = host_.box.heartbeats();
        const auto ping = client_.ping();
        poll();
        EXPECT_EQ(expect_response(ping).status, response_status::acknowledged);
        EXPECT_EQ(host_.box.heartbeats(), heartbeats + 1);
    }
    host_.memory.let_go();
    while (client_.in_flight() != 0) {
        poll();
        if (const auto a = client_.take()) {
            EXPECT_EQ(id_of(*a), parked);
            EXPECT_EQ(a->status, response_status::granted);
        }
    }
    host_.grower.stop();
    expect_valid();
}

class ServiceGrowthAhead : public ServiceGrowth {
protected:
    ServiceGrowthAhead() : ServiceGrowth(20) {}
};

TEST_F(ServiceGrowthAhead, CommitsAheadFromTheFirstRequestOn) {
    grow_all();
    poll();
    EXPECT_TRUE(host_.memory.commits().empty()) << "no request has been made";
    const auto first = client_.ask(1);
    poll();
    grow_all();
    poll();
    expect_grant(first, 0);
    EXPECT_EQ(host_.memory.commits().size(), 3u) << "three extents of 8 are 20 segments";
    const auto id = client_.ask(14);
    poll();
    expect_grant(id, 1);
    EXPECT_EQ(host_.service.counters().requests_parked.get(), 1u) << "the first alone";
    grow_all();
    poll();
    EXPECT_GE(host_.service.counters().segments_free.get(), 20u);
    EXPECT_EQ(host_.service.counters().segments_committed.get(), 40u) << "9 were left, less than half of 20";
}

TEST_F(ServiceGrowthAhead, KeepsAQuarterOfWhatIsGranted) {
    std::uint32_t granted = 0;
    for (; granted < 160; granted += 8) {
        const auto id = client_.ask(8);
        poll();
        grow_all();
        poll();
        expect_grant(id, granted);
    }
    EXPECT_EQ(host_.service.ahead(), granted / 4);
    EXPECT_GE(host_.service.counters().segments_free.get(), granted / 8);
    EXPECT_LE(host_.service.counters().segments_free.get(), granted / 4 + 8);
}

TEST_F(ServiceGrowthAhead, StopsAtTheEndOfTheRange) {
    for (std::uint32_t granted = 0; granted < 256; granted += 8) {
        grow_all();
        const auto id = client_.ask(8);
        poll();
        grow_all();
        poll();
        expect_grant(id, granted);
    }
    grow_all();
    EXPECT_EQ(host_.service.counters().segments_committed.get(), 256u);
    std::uint32_t next = 0;
    for (const segment_run run : host_.memory.commits()) {
        EXPECT_EQ(run.first, segment_index{next});
        next += run.count;
    }
    EXPECT_EQ(next, 256u);
    expect_valid();
}

TEST_F(ServiceGrowthAhead, AFailedCommitIsTriedAgain) {
    host_.memory.end_with(absl::ResourceExhaustedError("not now"));
    grow_all();
    const auto failing = client_.ask(4);
    poll();
    grow_all();
    poll();
    EXPECT_EQ(expect_response(failing).status, response_status::commit_failed);
    host_.memory.end_with(absl::OkStatus());
    const auto later = client_.ask(4);
    poll();
    grow_all();
    poll();
    expect_grant(later, 0);
    expect_valid();
}

}  // namespace
}  // namespace orchard
