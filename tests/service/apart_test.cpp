// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Requests that get an extent of their own, between segments without memory.

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/service_rig.hpp"

namespace orchard {
namespace {

using mailbox::response_status;
using rig::id_of;
using rig::ring_client;
using rig::service_rig;
using rig::service_setup;

/// A service with 16 free segments, of which every second request for segments gets an extent of its own.
class ServiceApart : public ::testing::Test {
protected:
    static service_setup shape() {
        service_setup s;
        s.committed_at_start = 16;
        s.apart_one_of = 2;
        s.fences = true;
        return s;
    }
    /// Lets growth and the service work until nothing is left to be done; returns the responses.
    std::vector<mailbox::response> settle() {
        std::vector<mailbox::response> all;
        do {
            host_.service.poll_once();
            while (const auto a = client_.take()) {
                all.push_back(*a);
            }
        } while (host_.grower.step() || client_.in_flight() != 0);
        return all;
    }
    /// Asks for a chunk, and returns the response; nothing else may be in flight.
    mailbox::response ask(std::uint32_t count, std::uint32_t leaves = 0) {
        const auto mine = client_.ask_chunk(count, leaves);
        const auto all = settle();
        EXPECT_EQ(all.size(), 1u);
        EXPECT_EQ(id_of(all.front()), mine);
        return all.front();
    }
    /// Expects that the response grants this run.
    static void expect_run(const mailbox::response& a, std::uint32_t first) {
        EXPECT_EQ(a.status, response_status::granted);
        EXPECT_EQ(to_underlying(a.run.first), first);
    }

    service_rig host_{shape()};
    ring_client client_{host_.box};
};

TEST_F(ServiceApart, GetAnExtentAlthoughMemoryIsFree) {
    expect_run(ask(3), 0);
    expect_run(ask(3), 17);
    EXPECT_EQ(host_.memory.commits().back(), (segment_run{segment_index{17}, 3}));
    expect_run(ask(2), 3);
    expect_run(ask(2), 21);
    EXPECT_TRUE(host_.service.validate().ok());
    EXPECT_EQ(host_.service.counters().segments_granted.get(), 10u);
}

TEST_F(ServiceApart, HaveTheirTailInTheExtent) {
    expect_run(ask(1, 5), 0);
    expect_run(ask(2, 5), 17);
    EXPECT_EQ(host_.memory.commits().back(), (segment_run{segment_index{17}, 3}));
    EXPECT_EQ(host_.service.counters().portions_granted.get(), 2u);
    EXPECT_TRUE(host_.service.validate().ok());
    (void)client_.give_back(17, 2);
    (void)client_.give_back_portion(19, 0);
    EXPECT_EQ(settle().size(), 2u);
    EXPECT_EQ(host_.service.release_unused(0), 3u) << "the extent that is unused again";
    EXPECT_TRUE(host_.service.validate().ok());
}

TEST_F(ServiceApart, AreServedLikeOthersIfTheCommitFails) {
    expect_run(ask(1), 0);
    host_.memory.end_with(absl::ResourceExhaustedError("no memory"));
    expect_run(ask(3), 1);
    expect_run(ask(3), 4);
    expect_run(ask(3), 7);
    EXPECT_TRUE(host_.service.validate().ok());
}

TEST_F(ServiceApart, AreServedLikeOthersIfTheExtentIsShorter) {
    expect_run(ask(1), 0);
    host_.memory.give_at_most(2);
    expect_run(ask(4), 1);
    EXPECT_TRUE(host_.service.validate().ok());
}

TEST_F(ServiceApart, DoNotWaitForMoreThanTheBudgetHas) {
    expect_run(ask(1), 0);
    host_.memory.give_in_all(2);
    expect_run(ask(3), 1);
    expect_run(ask(2), 17);
}

TEST_F(ServiceApart, DoNotHoldUpOthers) {
    expect_run(ask(1), 0);
    const auto waits = client_.ask(3);
    const auto next = client_.ask(4);
    host_.service.poll_once();
    const auto first = client_.take();
    ASSERT_TRUE(first.has_value());
    EXPECT_EQ(id_of(*first), next);
    expect_run(*first, 1);
    const auto rest = settle();
    ASSERT_EQ(rest.size(), 1u);
    EXPECT_EQ(id_of(rest.front()), waits);
    expect_run(rest.front(), 17);
}

TEST_F(ServiceApart, EndWithTheHeap) {
    expect_run(ask(1), 0);
    (void)client_.ask(3);
    host_.service.poll_once();
    host_.service.close();
    const auto all = settle();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all.front().status, response_status::closing);
    EXPECT_TRUE(host_.service.validate().ok());
}

/// All addresses have memory, on the host, and the device's budget would allow more.
TEST(ServiceApartInASmallRange, DoNotWaitForAddresses) {
    service_setup s;
    s.segments = 16;
    s.committed_at_start = 0;
    s.apart_one_of = 1;
    service_rig host{s};
    ring_client client{host.box};
    const auto ask = [&](std::uint32_t count) {
        (void)client.ask(count);
        host.service.poll_once();
        while (host.grower.step()) {
        }
        host.service.poll_once();
        return client.take();
    };
    host.memory.give_device(0);
    ASSERT_TRUE(ask(16).has_value());
    host.memory.give_device(16);
    ASSERT_EQ(host.grower.device_left(), 16u);
    (void)client.give_back(0, 16);
    host.service.poll_once();
    (void)client.take();
    const auto got = ask(3);
    ASSERT_TRUE(got.has_value()) << "it waits for ever";
    EXPECT_EQ(got->status, response_status::granted);
    EXPECT_EQ(to_underlying(got->run.first), 0u);
}

/// The commit hangs: the request gets free memory once the commit counts as blocked.
TEST(ServiceApartBlocked, AreServedLikeOthers) {
    service_setup s;
    s.committed_at_start = 16;
    s.apart_one_of = 1;
    s.fences = true;
    s.patience_ns = 1'000'000;
    service_rig host{s};
    ring_client client{host.box};
    host.memory.hold();
    host.grower.start();
    (void)client.ask(3);
    const mailbox::response got = rig::await_response(host, client);
    EXPECT_EQ(got.status, response_status::granted);
    EXPECT_EQ(to_underlying(got.run.first), 0u);
    host.memory.let_go();
    host.grower.stop();
    EXPECT_TRUE(host.service.validate().ok());
}

}  // namespace
}  // namespace orchard
