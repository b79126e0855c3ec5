// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A request that waits for memory is not forgotten, whatever other groups request, abandon, or return meanwhile; and
/// the status if there is no memory.

#include "tests/service/growth_fixture.hpp"

namespace orchard {
namespace {

using mailbox::response_status;
using rig::ring_client;
using rig::service_rig;
using rig::service_setup;

class ServiceWaiting : public rig::ServiceGrowth {};

class ServiceWaitingAhead : public rig::ServiceGrowth {
protected:
    ServiceWaitingAhead() : ServiceGrowth(20) {}
};

// A later request for less memory, or for none, cancels the goal of a failed commit; waiting requests must remain.
TEST_F(ServiceWaiting, WhoWaitsIsAnsweredThoughOthersAskAfterAFailure) {
    const auto parked = client_.ask(10);
    poll();
    host_.memory.end_with(absl::ResourceExhaustedError("not now"));
    EXPECT_TRUE(host_.grower.step());
    host_.service.begin_want(0);
    host_.service.end_want();
    for (int i = 0; i < 5; ++i) {
        poll();
        grow_all();
    }
    EXPECT_EQ(expect_response(parked).status, response_status::commit_failed);
    expect_valid();
}

TEST_F(ServiceWaiting, MemoryOnItsWayBackIsWaitedFor) {
    host_.memory.give_in_all(8);
    const auto first = client_.ask(8);
    poll();
    grow_all();
    poll();
    expect_grant(first, 0);
    const auto refused = client_.ask(8);
    poll();
    grow_all();
    poll();
    EXPECT_EQ(expect_response(refused).status, response_status::out_of_memory);
    const auto returned = client_.give_back(0, 8);
    poll();
    EXPECT_EQ(expect_response(returned).status, response_status::acknowledged);
    EXPECT_EQ(host_.service.release_unused(0), 8u);
    const auto later = client_.ask(8);
    poll();
    expect_nothing();
    grow_all();
    poll();
    expect_grant(later, 0);
    expect_valid();
}

TEST_F(ServiceWaiting, SaysWhetherTheAddressesOrTheBudgetsAreUsedUp) {
    const auto all = client_.ask(256);
    for (int i = 0; i < 10; ++i) {
        poll();
        grow_all();
    }
    expect_grant(all, 0);
    for (const bool by_range : {false, true}) {
        host_.grower.limit(256, by_range);
        const auto more = client_.ask(1);
        poll();
        EXPECT_EQ(expect_response(more).status,
                  by_range ? response_status::out_of_range : response_status::out_of_memory);
    }
    expect_valid();
}

TEST_F(ServiceWaitingAhead, UsesTheSpillTierOnlyForWhoAsks) {
    host_.memory.give_device(8);
    const auto first = client_.ask(8);
    poll();
    grow_all();
    poll();
    expect_grant(first, 0);
    EXPECT_EQ(host_.memory.use().host_bytes, 0u) << "committed ahead of demand";
    const auto second = client_.ask(1);
    poll();
    grow_all();
    poll();
    expect_grant(second, 8);
    EXPECT_EQ(host_.memory.use().host_bytes, 8 * segment_bytes);
    EXPECT_EQ(host_.service.counters().segments_on_host.get(), 8u);
    grow_all();
    EXPECT_EQ(host_.memory.commits().size(), 2u);
}

// A backing that should hold only memory in use: segments that the host is collecting for a request count as in use.
TEST(ServiceWaitingAtOnce, WhatTheHostWaitsForIsNotGivenUp) {
    service_setup setup = rig::nothing_committed();
    setup.at_once = true;
    service_rig host(setup);
    ring_client client(host.box);
    client.ask(3);
    host.service.poll_once();
    const std::uint64_t goal = host.service.begin_want(10);
    for (int i = 0; i < 20; ++i) {
        host.grower.step();
        host.service.poll_once();
    }
    EXPECT_TRUE(client.take().has_value());
    EXPECT_GE(host.grower.line().committed.load<simt::order::relaxed>(), goal);
    EXPECT_EQ(host.service.counters().segments_committed.get(), 10u);
    EXPECT_EQ(host.service.release_unused(0), 0u) << "the host still waits";
    host.service.end_want();
    EXPECT_EQ(host.service.release_unused(0), 7u);
}

// The extents are as long as the demand, and yet each segment of them is given up by itself when it comes back.
TEST(ServiceWaitingAtOnce, CommitsByRunsAndGivesUpBySegments) {
    service_setup setup = rig::nothing_committed();
    setup.at_once = true;
    service_rig host(setup);
    ring_client client(host.box);
    const auto settle = [&] {
        for (int i = 0; i < 20; ++i) {
            host.grower.step();
            host.service.poll_once();
        }
    };
    client.ask(3);
    client.ask(4);
    settle();
    EXPECT_EQ(host.memory.calls(), std::vector{(segment_run{segment_index{0}, 7})});
    for (int i = 0; i < 2; ++i) {
        ASSERT_TRUE(client.take().has_value());
    }
    client.give_back(1, 3);
    settle();
    const std::vector<segment_run> left = {
        {segment_index{0}, 1}, {segment_index{4}, 1}, {segment_index{5}, 1}, {segment_index{6}, 1}};
    EXPECT_EQ(host.memory.commits(), left);
    EXPECT_EQ(host.grower.line().taken_again.load<simt::order::relaxed>(), 0u);
    EXPECT_TRUE(host.service.validate().ok()) << host.service.validate();
}

}  // namespace
}  // namespace orchard
