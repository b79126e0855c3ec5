// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The responses of a service while a commit does not end.

#include <gtest/gtest.h>

#include <thread>

#include "tests/support/service_rig.hpp"

namespace orchard {
namespace {

using mailbox::response_status;
using rig::id_of;
using rig::ring_client;
using rig::service_rig;
using rig::service_setup;

/// A service whose commits may take a millisecond before they count as blocked.
class ServiceBlocked : public ::testing::Test {
protected:
    static service_setup shape() {
        service_setup s;
        s.committed_at_start = 0;
        s.extent = 8;
        s.patience_ns = 1'000'000;
        return s;
    }
    mailbox::response await_response() { return rig::await_response(host_, client_); }
    /// Returns what device threads see.
    [[nodiscard]] std::uint64_t blocked() const { return host_.box.host.blocked->load<simt::order::relaxed>(); }

    service_rig host_{shape()};
    ring_client client_{host_.box};
};

TEST_F(ServiceBlocked, RefusesThoseThatWaitAndThoseThatAskThen) {
    host_.memory.hold();
    host_.grower.start();
    const auto waits = client_.ask(2);
    const mailbox::response first = await_response();
    EXPECT_EQ(id_of(first), waits);
    EXPECT_EQ(first.status, response_status::commit_blocked);
    const auto asks = client_.ask(1);
    EXPECT_EQ(host_.service.poll_once(), 1u);
    const auto at_once = client_.take();
    ASSERT_TRUE(at_once.has_value()) << "it is known by now";
    EXPECT_EQ(id_of(*at_once), asks);
    EXPECT_EQ(at_once->status, response_status::commit_blocked);
    EXPECT_EQ(blocked(), leaves_per_segment) << "the least that was refused";
    host_.memory.let_go();
    while (host_.grower.is_blocked(0)) {
        std::this_thread::yield();
    }
    host_.service.poll_once();
    EXPECT_EQ(blocked(), 0u);
    const auto later = client_.ask(3);
    const mailbox::response granted = await_response();
    EXPECT_EQ(id_of(granted), later);
    EXPECT_EQ(granted.status, response_status::granted);
    host_.grower.stop();
    EXPECT_TRUE(host_.service.validate().ok());
}

TEST_F(ServiceBlocked, GrantsWhatIsThere) {
    host_.grower.start();
    const auto first = client_.ask(1);
    EXPECT_EQ(id_of(await_response()), first);
    host_.memory.hold();
    const auto waits = client_.ask(20);
    EXPECT_EQ(id_of(await_response()), waits);
    const auto fits = client_.ask(2);
    const mailbox::response a = await_response();
    EXPECT_EQ(id_of(a), fits);
    EXPECT_EQ(a.status, response_status::granted);
    EXPECT_EQ(blocked(), 20 * leaves_per_segment);
    client_.give_back(to_underlying(a.run.first), 2);
    host_.service.poll_once();
    EXPECT_EQ(blocked(), 0u) << "there is room again: requests for as much are to be tried";
    host_.memory.let_go();
    host_.grower.stop();
}

}  // namespace
}  // namespace orchard
