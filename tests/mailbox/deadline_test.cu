// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Waits that end without a response: the reason, and the fate of the slot and of a late grant.

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "tests/simt/run_emulated.hpp"
#include "tests/support/background.hpp"
#include "tests/support/scripted_mailbox.cuh"

namespace orchard {
namespace {

using device::outcome;
using device::poller_word;
using device::slot_word;
using device::ticket;
using rig::completion_record;
using rig::scripted_mailbox;

constexpr std::uint64_t ms = 1'000'000;

class Deadline : public ::testing::TestWithParam<std::uint32_t> {
protected:
    /// Waits until a request compares the recorded state of the service with the host's words again.
    static void outlast_knowledge() {
        absl::SleepFor(2 * absl::Nanoseconds(device::mailbox_client::look_again_after_ns));
    }
    scripted_mailbox box_{mailbox::shape{4, GetParam(), 1, GetParam()}, 2 * ms};
};

TEST_P(Deadline, OfAWaitLeavesTheSlotUnattended) {
    const ticket r = box_.ask(9);
    const outcome o = box_.wait(r);
    EXPECT_EQ(o.failure, failure_reason::service_not_responding);
    EXPECT_EQ(box_.slot(r.slot), slot_word::left_unattended(r.tag, 9));
    EXPECT_EQ(box_.poller() & poller_word::held, 0u) << "a group that gives up must not keep the lease";
}

TEST_P(Deadline, ALateGrantGoesToTheSinkOnceAndTheSlotIsFreeAgain) {
    // More than a lap of tags.
    for (std::uint32_t use = 0; use < 10; ++use) {
        const ticket r = box_.ask(9);
        ASSERT_EQ(r.failure, failure_reason::none);
        EXPECT_EQ(box_.wait(r).failure, failure_reason::service_not_responding);
        box_.serve(100 + use);
        box_.poller_round();
        box_.poller_round();
        EXPECT_EQ(box_.sunk.get(&completion_record::calls), use + 1);
        EXPECT_EQ(box_.sunk.get(&completion_record::last_status),
                  static_cast<std::uint64_t>(device::response_status::granted));
        EXPECT_EQ(box_.sunk.get(&completion_record::last_first), 100 + use);
        EXPECT_EQ(box_.sunk.get(&completion_record::last_count), 9u);
        EXPECT_EQ(box_.slot(r.slot), slot_word::idle((r.tag + 1) & box_.shape.tag_mask()));
        box_.client.timeout_ns = 10'000 * ms;
        outlast_knowledge();
        const ticket again = box_.ask(2);
        EXPECT_EQ(again.slot, r.slot);
        box_.serve(3);
        EXPECT_EQ(box_.wait(again).result.run, (segment_run{segment_index{3}, 2}));
        box_.client.timeout_ns = 2 * ms;
    }
}

TEST_P(Deadline, IsNotReachedWhereTheAnswerLiesInTheSlot) {
    box_.client.timeout_ns = 0;
    const ticket r = box_.ask(9);
    box_.take_lease_and_stop();
    box_.deliver(box_.serve(5));
    const outcome o = box_.wait(r);
    EXPECT_EQ(o.failure, failure_reason::none);
    EXPECT_EQ(o.result.run, (segment_run{segment_index{5}, 9}));
}

TEST_P(Deadline, OfAServiceThatLivesIsCalledCommitBlocked) {
    box_.client.timeout_ns = 300 * ms;
    const rig::background beating([&] { box_.server.heartbeat(); });
    EXPECT_EQ(box_.wait(box_.ask(1)).failure, failure_reason::commit_blocked);
}

TEST_P(Deadline, OfABlockedCommitIsNotReachedByThoseThatAskForAsMuchThen) {
    const ticket r = box_.ask(4);
    box_.server.show_blocked(4 * leaves_per_segment);
    device::rejections::note_rejection(box_.client, mailbox::device_part::blocked_from(4 * leaves_per_segment));
    EXPECT_EQ(box_.ask(4).failure, failure_reason::commit_blocked);
    EXPECT_EQ(box_.ask(5).failure, failure_reason::commit_blocked);
    EXPECT_EQ(box_.tickets(), 1u) << "nothing more was posted";
    const ticket less = box_.ask(3);
    EXPECT_EQ(less.failure, failure_reason::none) << "there may be as much";
    box_.server.show_blocked(2 * leaves_per_segment);
    outlast_knowledge();
    EXPECT_EQ(box_.client.known_rejection(leaves_per_segment), failure_reason::none);
    EXPECT_EQ(box_.client.known_rejection(2 * leaves_per_segment), failure_reason::commit_blocked);
    EXPECT_EQ(box_.ask(2).failure, failure_reason::commit_blocked) << "less was refused too";
    box_.server.show_blocked(0);
    outlast_knowledge();
    const ticket later = box_.ask(4);
    EXPECT_EQ(later.failure, failure_reason::none) << "it is over";
    EXPECT_EQ(box_.device->rejection.flags.load<simt::order::relaxed>(), 0u);
    EXPECT_EQ(box_.tickets(), 3u);
    EXPECT_NE(r.slot, later.slot);
}

TEST_P(Deadline, CountsFromTheLastProgress) {
    box_.client.timeout_ns = 400 * ms;
    const ticket r = box_.ask(1);
    // Responses to other requests arrive for longer than the deadline, then the one to this request.
    std::thread others([&] {
        std::uint64_t word = box_.take_lease_and_stop();
        const absl::Time end = absl::Now() + absl::Milliseconds(1000);
        while (absl::Now() < end) {
            word = poller_word::moved_to(word, poller_word::cursor(word) + 1);
            box_.set_poller(word);
            absl::SleepFor(absl::Milliseconds(1));
        }
        box_.deliver(box_.serve(8));
    });
    const outcome o = box_.wait(r);
    others.join();
    EXPECT_EQ(o.failure, failure_reason::none);
    EXPECT_EQ(o.result.run.first, segment_index{8});
}

TEST_P(Deadline, OfAPostEndsWhereNoSlotComesFree) {
    for (int i = 0; i < 4; ++i) {
        ASSERT_EQ(box_.ask(1).failure, failure_reason::none);
    }
    EXPECT_EQ(box_.ask(1).failure, failure_reason::service_not_responding);
    EXPECT_EQ(box_.tickets(), 4u) << "nothing was posted";
    EXPECT_EQ(box_.ask_unattended(1).failure, failure_reason::service_not_responding);
    EXPECT_EQ(box_.tickets(), 4u);
}

TEST_P(Deadline, OfAPostCountsFromTheLastProgress) {
    box_.client.timeout_ns = 400 * ms;
    std::vector<ticket> asked;
    for (int i = 0; i < 4; ++i) {
        asked.push_back(box_.ask(1));
    }
    // The mailbox works for other groups: responses are delivered, but another group is always faster to take the slot.
    std::thread others([&] {
        std::uint64_t word = box_.take_lease_and_stop();
        const absl::Time end = absl::Now() + absl::Milliseconds(1000);
        while (absl::Now() < end) {
            word = poller_word::moved_to(word, poller_word::cursor(word) + 1);
            box_.set_poller(word);
            absl::SleepFor(absl::Milliseconds(1));
        }
        box_.set_slot(asked[2].slot, slot_word::idle((asked[2].tag + 1) & box_.shape.tag_mask()));
    });
    const ticket r = box_.ask(1);
    others.join();
    EXPECT_EQ(r.failure, failure_reason::none);
    EXPECT_EQ(r.slot, asked[2].slot);
}

TEST_P(Deadline, OfAPostIsNotReachedWhileItCanFreeASlotAsPoller) {
    std::vector<ticket> unattended;
    for (std::uint32_t i = 0; i < 4; ++i) {
        unattended.push_back(box_.ask_unattended(i + 1));
        EXPECT_EQ(box_.slot(unattended[i].slot), slot_word::left_unattended(unattended[i].tag, i + 1));
    }
    box_.serve(30);
    box_.client.timeout_ns = 10'000 * ms;
    const ticket r = box_.ask(6);
    ASSERT_EQ(r.failure, failure_reason::none);
    EXPECT_EQ(r.slot, unattended[0].slot);
    EXPECT_EQ(r.tag, (unattended[0].tag + 1) & box_.shape.tag_mask());
    EXPECT_EQ(box_.sunk.get(&completion_record::calls), 1u);
    EXPECT_EQ(box_.sunk.get(&completion_record::last_first), 30u);
    EXPECT_EQ(box_.sunk.get(&completion_record::last_count), 1u);
}

// If many lanes take turns on one host thread, one check for responses takes longer than the check interval.
TEST(DeadlineOfWarps, IsReachedHoweverLongALookTakes) {
    scripted_mailbox box(mailbox::shape{64, 8}, 20 * ms);
    simt::device_word<std::uint32_t> gave_up{0};
    // Ends the test even if a wait never gives up.
    const std::jthread rescue([&](const std::stop_token& over) {
        for (int i = 0; i < 500 && !over.stop_requested(); ++i) {
            absl::SleepFor(absl::Milliseconds(10));
        }
        for (std::uint32_t i = 0; i < 4 && !over.stop_requested(); ++i) {
            box.serve(i);
        }
    });
    const auto result = simt::run_emulated({1, 128}, [&](simt::thread_position) {
        const simt::lane_mask mask = simt::converge();
        const ticket r = box.client.post(mask, rig::grant_of(1), false, box.completion());
        const outcome o = box.client.wait(mask, r, box.completion());
        if (device::is_leader(mask) && o.failure == failure_reason::service_not_responding) {
            gave_up.fetch_add<simt::order::relaxed>(1);
        }
    });
    ASSERT_TRUE(result.ok) << result.error;
    EXPECT_EQ(gave_up.load<simt::order::relaxed>(), 4u);
}

INSTANTIATE_TEST_SUITE_P(TagBits, Deadline, ::testing::Values(2u, 8u));

TEST(Closing, RefusesPostsAndLetsWaitersHaveTheirAnswer) {
    scripted_mailbox box(mailbox::shape{4, 8});
    const ticket r = box.ask(1);
    box.close();
    EXPECT_EQ(box.ask(1).failure, failure_reason::closing);
    EXPECT_EQ(box.ask_unattended(1).failure, failure_reason::closing);
    EXPECT_EQ(box.tickets(), 1u);
    EXPECT_EQ(box.claimed(), 1u);
    mailbox::request p;
    ASSERT_TRUE(box.server.next(&p));
    box.server.respond({device::response_status::closing, p.slot, p.tag, {segment_index{0}, 0}});
    box.server.flush();
    const outcome o = box.wait(r);
    EXPECT_EQ(o.failure, failure_reason::none);
    EXPECT_EQ(o.result.status, device::response_status::closing);
    EXPECT_EQ(box.claimed(), 0u);
}

TEST(Closing, EndsAPostThatWaitsForASlot) {
    scripted_mailbox box(mailbox::shape{4, 8});
    for (int i = 0; i < 4; ++i) {
        ASSERT_EQ(box.ask(1).failure, failure_reason::none);
    }
    std::thread closer([&] {
        absl::SleepFor(absl::Milliseconds(5));
        box.close();
    });
    EXPECT_EQ(box.ask(1).failure, failure_reason::closing);
    closer.join();
}

}  // namespace
}  // namespace orchard
