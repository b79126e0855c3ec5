// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Committed memory without an owner is released, and committed again on request.

#include <gtest/gtest.h>

#include "tests/support/service_rig.hpp"

namespace orchard {
namespace {

using mailbox::response_status;
using rig::ring_client;
using rig::service_rig;
using rig::service_setup;

service_setup nothing_committed() {
    service_setup s;
    s.committed_at_start = 0;
    s.extent = 8;
    return s;
}

class ServiceRelease : public ::testing::Test {
protected:
    /// The first of `count` segments.
    std::uint32_t take(std::uint32_t count) {
        client_.ask(count);
        for (int i = 0; i < 100; ++i) {
            work();
            if (const auto a = client_.take()) {
                EXPECT_EQ(a->status, response_status::granted);
                return to_underlying(a->run.first);
            }
        }
        ADD_FAILURE() << "no response";
        return 0;
    }
    void give(std::uint32_t first, std::uint32_t count) {
        client_.give_back(first, count);
        work();
        const auto a = client_.take();
        ASSERT_TRUE(a.has_value());
        EXPECT_EQ(a->status, response_status::acknowledged);
    }
    void work() {
        host_.service.poll_once();
        while (host_.grower.step()) {
        }
        host_.service.poll_once();
    }
    void expect_committed(std::uint32_t segments) {
        work();
        EXPECT_EQ(host_.service.counters().segments_committed.get(), segments);
        EXPECT_EQ(host_.memory.use().device_bytes, std::uint64_t{segments} << segment_shift);
        EXPECT_TRUE(host_.service.has_released_all());
        EXPECT_TRUE(host_.service.validate().ok()) << host_.service.validate();
    }

    service_rig host_{nothing_committed()};
    ring_client client_{host_.box};
};

TEST_F(ServiceRelease, GivesUpAllThatNobodyHas) {
    const auto first = take(20);
    expect_committed(24);
    EXPECT_EQ(host_.service.release_unused(0), 0u);
    give(first, 20);
    EXPECT_EQ(host_.service.release_unused(0), 24u);
    EXPECT_FALSE(host_.service.has_released_all()) << "the growth thread has not yet taken it back";
    expect_committed(0);
    EXPECT_EQ(host_.service.counters().segments_released.get(), 24u);
    EXPECT_EQ(host_.service.counters().peak_segments_committed.get(), 24u);
    EXPECT_EQ(host_.service.release_unused(0), 0u);
}

TEST_F(ServiceRelease, GivesUpTheSpillTierFirst) {
    host_.memory.give_device(8);
    const auto first = take(8);
    const auto spilled = take(8);
    host_.memory.give_device(16);
    const auto last = take(8);
    EXPECT_LT(spilled, last) << "by addresses the last would be first";
    EXPECT_EQ(host_.memory.use().host_bytes, 8 * segment_bytes);
    EXPECT_EQ(host_.service.counters().segments_on_host.get(), 8u);
    for (const std::uint32_t begin : {first, spilled, last}) {
        give(begin, 8);
    }
    EXPECT_EQ(host_.service.release_unused(16), 8u);
    EXPECT_EQ(host_.service.counters().segments_on_host.get(), 0u);
    expect_committed(16);
    EXPECT_EQ(host_.memory.use().host_bytes, 0u);
}

TEST_F(ServiceRelease, KeepsExtentsOfWhichSomethingIsUsed) {
    for (std::uint32_t i = 0; i < 24; ++i) {
        EXPECT_EQ(take(1), i);
    }
    for (std::uint32_t i = 0; i < 24; ++i) {
        if (i != 9) {
            give(i, 1);
        }
    }
    EXPECT_EQ(host_.service.release_unused(0), 16u);
    expect_committed(8);
    EXPECT_EQ(take(1), 8u) << "what is committed comes first";
}

TEST_F(ServiceRelease, KeepsAsManyFreeSegmentsAsItIsTold) {
    const auto first = take(8);
    const auto second = take(8);
    const auto third = take(8);
    give(second, 8);
    give(first, 8);
    give(third, 8);
    EXPECT_EQ(host_.service.release_unused(9), 8u) << "the highest goes first";
    expect_committed(16);
    EXPECT_EQ(host_.service.release_unused(9), 0u);
    EXPECT_EQ(take(16), first);
}

TEST_F(ServiceRelease, WhatWasGivenUpIsCommittedAgainWhenItIsAskedFor) {
    for (int round = 0; round < 5; ++round) {
        const auto first = take(30);
        EXPECT_EQ(first, 0u);
        give(first, 30);
        EXPECT_EQ(host_.service.release_unused(0), 32u);
        expect_committed(0);
    }
}

// More extents than can be in release at once: the rest is released by the next call.
TEST_F(ServiceRelease, GivesUpManyExtentsInSeveralCalls) {
    for (std::uint32_t i = 0; i < 256; ++i) {
        EXPECT_EQ(take(1), i);
    }
    for (std::uint32_t i = 0; i < 256; ++i) {
        give(i, 1);
    }
    std::uint32_t released = 0;
    for (int calls = 0; calls < 10 && released < 256; ++calls) {
        released += host_.service.release_unused(0);
        work();
    }
    EXPECT_EQ(released, 256u);
    expect_committed(0);
}

// Growth did not commit the memory that is committed from the start, and this backing cannot decommit it.
TEST(ServiceReleaseAtStart, WhatIsRefusedStaysInUse) {
    service_setup s;
    s.committed_at_start = 16;
    service_rig host{s};
    host.service.poll_once();
    EXPECT_EQ(host.service.release_unused(0), 16u);
    while (host.grower.step()) {
    }
    EXPECT_TRUE(host.service.has_released_all());
    host.service.poll_once();
    EXPECT_EQ(host.service.counters().segments_committed.get(), 16u);
    EXPECT_EQ(host.service.counters().segments_free.get(), 16u);
    EXPECT_TRUE(host.service.validate().ok()) << host.service.validate();
}

}  // namespace
}  // namespace orchard
