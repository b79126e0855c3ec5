// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Requests for segments with advice of their own: the advice comes before the response, and goes with the segments'
/// return; nothing waits for the driver but the group that asked.

#include <optional>
#include <thread>
#include <vector>

#include "tests/service/growth_fixture.hpp"

namespace orchard {
namespace {

using mailbox::response_status;
using rig::id_of;
using rig::ring_client;
using rig::service_rig;
using rig::service_setup;

extent advised(std::uint32_t segment, advice_code advice) {
    return {{segment_index{segment}, 1}, memory_tier::device, advice};
}

/// With and without a backing that gives unused segments up at once. Nothing is committed.
class ServiceAdvice : public ::testing::TestWithParam<bool> {
protected:
    static service_setup setup(bool at_once) {
        service_setup s = rig::nothing_committed();
        s.extent = 4;
        s.segments = 64;
        s.takes_advice = true;
        s.at_once = at_once;
        return s;
    }
    void poll() { host_.service.poll_once(); }
    void settle() {
        for (int i = 0; i < 50; ++i) {
            host_.grower.step();
            poll();
        }
    }
    /// Commits four segments, which are then free unless they are given up at once.
    std::uint32_t expect_grant(ring_client::id id) {
        const auto a = client_.take();
        EXPECT_TRUE(a.has_value());
        if (!a) {
            return ~0u;
        }
        EXPECT_EQ(id_of(*a), id);
        EXPECT_EQ(a->status, response_status::granted);
        return to_underlying(a->run.first);
    }
    void expect_nothing() { EXPECT_FALSE(client_.take().has_value()); }
    void expect_valid() { EXPECT_TRUE(host_.service.validate().ok()) << host_.service.validate(); }

    service_rig host_{setup(GetParam())};
    ring_client client_{host_.box};
};
INSTANTIATE_TEST_SUITE_P(all, ServiceAdvice, ::testing::Bool(),
                         [](const auto& p) { return p.param ? "given_up_at_once" : "kept"; });

TEST_P(ServiceAdvice, IsGivenBeforeTheResponse) {
    const auto id = client_.ask_advised(2, 3);
    poll();
    EXPECT_TRUE(host_.grower.step()) << "commits";
    poll();
    expect_nothing();
    EXPECT_TRUE(host_.memory.advice().empty()) << "the service calls no driver";
    EXPECT_TRUE(host_.grower.step());
    EXPECT_EQ(host_.memory.advice(), (std::vector{advised(0, 3), advised(1, 3)}));
    expect_nothing();
    poll();
    EXPECT_EQ(expect_grant(id), 0u);
    expect_valid();
}

TEST_P(ServiceAdvice, HoldsUpNoOtherRequest) {
    const auto slow = client_.ask_advised(1, 1);
    poll();
    EXPECT_TRUE(host_.grower.step());
    poll();
    const auto other = client_.ask(1);
    poll();
    if (GetParam()) {  // nothing is free: it needs a commit, before which growth gives the advice
        settle();
        EXPECT_EQ(expect_grant(slow), 0u);
        EXPECT_EQ(expect_grant(other), 1u);
    } else {
        EXPECT_EQ(expect_grant(other), 1u);
        expect_nothing();
        settle();
        EXPECT_EQ(expect_grant(slow), 0u);
    }
    EXPECT_EQ(host_.memory.advice(), std::vector{advised(0, 1)});
}

TEST_P(ServiceAdvice, GoesWhenTheSegmentsComeBack) {
    const auto id = client_.ask_advised(3, 2);
    settle();
    EXPECT_EQ(expect_grant(id), 0u);
    const auto plain = client_.ask(1);
    settle();
    EXPECT_EQ(expect_grant(plain), 3u);
    EXPECT_EQ(host_.memory.advice().size(), 3u);
    const auto back = client_.give_back(0, 4);
    settle();
    EXPECT_EQ(id_of(client_.take().value()), back);
    EXPECT_TRUE(host_.memory.advice().empty()) << "its decommit gives the heap's advice again";
    EXPECT_EQ(host_.service.counters().segments_committed.get(), GetParam() ? 0u : 1u);
    EXPECT_TRUE(host_.service.has_released_all());
    expect_valid();
    const auto again = client_.ask(4);
    settle();
    EXPECT_NE(expect_grant(again), ~0u);
    EXPECT_TRUE(host_.memory.advice().empty());
    expect_valid();
}

/// More than growth's rings hold at once, in both directions, and with another request that waits for the memory.
TEST_P(ServiceAdvice, OfManyRequestsIsGivenInTurn) {
    std::vector<ring_client::id> ids;
    for (int i = 0; i < 60; ++i) {
        ids.push_back(client_.ask_advised(1, static_cast<advice_code>(1 + i % 3)));
    }
    settle();
    for (std::size_t i = 0; i < ids.size(); ++i) {
        EXPECT_EQ(expect_grant(ids[i]), i);
    }
    EXPECT_EQ(host_.memory.advice().size(), 60u);
    for (std::uint32_t i = 0; i < 60; ++i) {
        EXPECT_EQ(host_.memory.advice()[i], advised(i, static_cast<advice_code>(1 + i % 3)));
    }
    const auto all = client_.ask(60);  // waits for them: there are 64 addresses
    for (std::uint32_t first = 0; first < 60; first += 20) {
        client_.give_back(first, 20);
    }
    settle();
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(client_.take().value().status, response_status::acknowledged);
    }
    EXPECT_NE(expect_grant(all), ~0u);
    EXPECT_TRUE(host_.memory.advice().empty()) << "no one gets segments with another's advice";
    expect_valid();
}

TEST_P(ServiceAdvice, ThatFailsIsNoReasonToKeepTheMemory) {
    host_.memory.advise_with(absl::InternalError("no advice"));
    const auto id = client_.ask_advised(1, 1);
    settle();
    EXPECT_EQ(expect_grant(id), 0u);
    EXPECT_EQ(host_.grower.last_error().message(), "no advice");
}

TEST_P(ServiceAdvice, IsNotWaitedForWhenTheHeapCloses) {
    const auto id = client_.ask_advised(1, 1);
    poll();
    EXPECT_TRUE(host_.grower.step());
    poll();
    host_.service.close();
    poll();
    EXPECT_EQ(expect_grant(id), 0u);
    settle();
    expect_nothing();
    expect_valid();
}

TEST(ServiceAdviceOfOthers, IsIgnoredWhereTheBackingTakesNone) {
    service_rig host;
    ring_client client(host.box);
    client.ask_advised(2, 1);
    host.service.poll_once();
    EXPECT_TRUE(client.take().has_value());
    EXPECT_TRUE(host.memory.advice().empty());
}

/// The driver's call is held up: the groups get their memory without the advice. Growth's ring has no room for all of
/// them, and those that it never saw do not confuse the count of later ones.
TEST(ServiceAdviceBlocked, IsNotWaitedForLongerThanACommit) {
    service_setup s;
    s.segments = s.committed_at_start = 64;
    s.takes_advice = true;
    s.patience_ns = 1'000'000'000;
    service_rig host(s);
    ring_client client(host.box);
    host.memory.hold();
    host.grower.start();
    constexpr std::uint32_t many = run_ring::capacity + 8;
    for (std::uint32_t i = 0; i < many; ++i) {
        client.ask_advised(1, 1);
    }
    for (std::uint32_t i = 0; i < many; ++i) {
        EXPECT_EQ(rig::await_response(host, client).status, response_status::granted);
    }
    EXPECT_TRUE(host.memory.advice().empty());
    host.memory.let_go();
    while (host.grower.line().advised.load<simt::order::acquire>() < run_ring::capacity) {
        std::this_thread::yield();
    }
    host.grower.stop();
    while (host.grower.step()) {
    }
    EXPECT_LT(host.memory.advice().size(), many);
    const auto later = client.ask_advised(1, 2);
    for (int i = 0; i < 3; ++i) {
        host.service.poll_once();
        EXPECT_FALSE(client.take().has_value()) << "it waits for its own";
    }
    EXPECT_TRUE(host.grower.step());
    EXPECT_EQ(host.memory.advice().back(), advised(many, 2));
    host.service.poll_once();
    const auto a = client.take();
    ASSERT_TRUE(a.has_value());
    EXPECT_EQ(id_of(*a), later);
    EXPECT_TRUE(host.service.validate().ok()) << host.service.validate();
}

// Growth makes no call at all, so that none is blocked; the group has waited all the same.
TEST(ServiceAdviceBlocked, IsNotWaitedForLongerThanHalfOfTheGroupsTime) {
    service_setup s;
    s.segments = s.committed_at_start = 16;
    s.takes_advice = true;
    s.patience_ns = 2;
    service_rig host(s);
    ring_client client(host.box);
    client.ask_advised(1, 1);
    std::optional<mailbox::response> answer;
    for (int turn = 0; turn < 1000 && !answer.has_value(); ++turn) {
        host.service.poll_once();
        answer = client.take();
    }
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->status, response_status::granted);
    EXPECT_TRUE(host.memory.advice().empty());
}

}  // namespace
}  // namespace orchard
