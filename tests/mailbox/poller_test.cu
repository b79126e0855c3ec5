// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Pollers that stop at every point of their work: their successor loses no response and delivers none twice.

#include <gtest/gtest.h>

#include <vector>

#include "tests/simt/run_emulated.hpp"
#include "tests/support/scripted_mailbox.cuh"

namespace orchard {
namespace {

using device::poller_word;
using device::slot_word;
using device::ticket;
using rig::scripted_mailbox;

class Poller : public ::testing::TestWithParam<std::uint32_t> {
protected:
    scripted_mailbox box_{mailbox::shape{4, GetParam(), 1, GetParam()}};

    void expect_grant(ticket r, std::uint32_t first) {
        const device::outcome o = box_.wait(r);
        EXPECT_EQ(o.failure, failure_reason::none);
        EXPECT_EQ(o.result.status, device::response_status::granted);
        EXPECT_EQ(o.result.run, (segment_run{segment_index{first}, r.count}));
    }
};

TEST_P(Poller, ThatStopsBeforeItDeliversIsReplaced) {
    const ticket r = box_.ask(3);
    box_.serve(40);
    const std::uint64_t stopped = box_.take_lease_and_stop();
    expect_grant(r, 40);
    EXPECT_EQ(box_.cursor(), 1u);
    EXPECT_EQ(box_.poller() & poller_word::held, 0u);
    EXPECT_GT(poller_word::epoch_field::get(box_.poller()), poller_word::epoch_field::get(stopped));
    EXPECT_EQ(box_.sunk.get(&rig::completion_record::calls), 0u);
}

TEST_P(Poller, ThatComesBackDoesNotMoveItsSuccessorsCursor) {
    const ticket r = box_.ask(3);
    box_.serve(40);
    std::uint64_t stopped = box_.take_lease_and_stop();
    expect_grant(r, 40);
    const std::uint64_t after = box_.poller();
    EXPECT_FALSE(
        box_.device->poller[0].word.compare_exchange<simt::order::relaxed>(stopped, poller_word::moved_to(stopped, 1)));
    EXPECT_EQ(box_.poller(), after);
}

TEST_P(Poller, ThatDeliveredWithoutMovingTheCursorIsHarmless) {
    std::vector<ticket> asked;
    std::vector<mailbox::response> responses;
    for (std::uint32_t i = 0; i < 4; ++i) {
        asked.push_back(box_.ask(i + 1));
        responses.push_back(box_.serve(10 * i));
    }
    box_.take_lease_and_stop();
    for (const auto& a : responses) {
        box_.deliver(a);
    }
    for (std::uint32_t i = 0; i < 4; ++i) {
        expect_grant(asked[i], 10 * i);
    }
    EXPECT_EQ(box_.cursor(), 0u) << "no group had a reason to take over";
    // The slots are in use again, and their new requests not answered, when the old responses are read once more.
    for (std::uint32_t i = 0; i < 4; ++i) {
        asked[i] = box_.ask(100 + i);
    }
    box_.set_poller(poller_word::released(box_.poller()));
    box_.poller_round();
    EXPECT_LE(box_.cursor(), 4u);
    for (std::uint32_t i = 0; i < 4; ++i) {
        EXPECT_EQ(box_.slot(asked[i].slot), slot_word::waiting(asked[i].tag)) << "slot " << asked[i].slot;
    }
    for (std::uint32_t i = 0; i < 4; ++i) {
        box_.serve(1000 + 10 * i);
    }
    for (std::uint32_t i = 0; i < 4; ++i) {
        expect_grant(asked[i], 1000 + 10 * i);
    }
    EXPECT_EQ(box_.cursor(), 8u);
    EXPECT_EQ(box_.sunk.get(&rig::completion_record::calls), 0u);
}

// Of four delivered responses the host has overwritten the first `n`: these are passed over, the rest are read once
// more.
TEST_P(Poller, WhoseDeliveredAnswersWereWrittenOverIsHarmless) {
    for (std::uint32_t over = 1; over <= 4; ++over) {
        const std::uint64_t cursor = box_.cursor();
        std::vector<ticket> asked;
        std::vector<mailbox::response> responses;
        for (std::uint32_t i = 0; i < 4; ++i) {
            asked.push_back(box_.ask(i + 1));
            responses.push_back(box_.serve(10 * i));
        }
        box_.take_lease_and_stop();
        for (std::uint32_t i = 0; i < 4; ++i) {
            box_.deliver(responses[i]);
            expect_grant(asked[i], 10 * i);
        }
        asked.clear();
        for (std::uint32_t i = 0; i < over; ++i) {
            asked.push_back(box_.ask(50 + i));
            box_.serve(500 + i);
        }
        EXPECT_EQ(box_.cursor(), cursor);
        for (std::uint32_t i = 0; i < over; ++i) {
            expect_grant(asked[i], 500 + i);
        }
        EXPECT_EQ(box_.cursor(), cursor + 4 + over);
    }
    EXPECT_EQ(box_.sunk.get(&rig::completion_record::calls), 0u);
}

// The lanes of a poller deliver in no particular order. If it stops half-way, the slot of a delivered response may be
// used again. The new response must not overwrite one that was not delivered.
TEST_P(Poller, ThatStopsHalfWayLosesNoAnswer) {
    std::vector<ticket> asked;
    std::vector<mailbox::response> responses;
    for (std::uint32_t i = 0; i < 4; ++i) {
        asked.push_back(box_.ask(i + 1));
        responses.push_back(box_.serve(10 * i));
    }
    box_.take_lease_and_stop();
    box_.deliver(responses[2]);
    expect_grant(asked[2], 20);
    const ticket again = box_.ask(7);
    ASSERT_EQ(again.slot, asked[2].slot);
    box_.serve(700);
    // Only from here on does a group wait long enough to take over, so that no group waits in vain.
    box_.client.timeout_ns = 200'000'000;
    for (const std::uint32_t i : {0u, 1u, 3u}) {
        expect_grant(asked[i], 10 * i);
    }
    expect_grant(again, 700);
    EXPECT_EQ(box_.claimed(), 0u);
}

TEST_P(Poller, ThatIsLateDeliversNothingIntoAReusedSlot) {
    // The cursor is set back, so that the same response is read twice, as by a poller that was stopped meanwhile.
    const ticket first = box_.ask(1);
    box_.serve(11);
    expect_grant(first, 11);
    const std::uint64_t before = poller_word::moved_to(box_.poller(), 0);
    EXPECT_EQ(box_.slot(first.slot), slot_word::idle((first.tag + 1) & box_.shape.tag_mask()));
    box_.set_poller(before);
    box_.poller_round();
    EXPECT_EQ(box_.slot(first.slot), slot_word::idle((first.tag + 1) & box_.shape.tag_mask())) << "idle";
    const ticket second = box_.ask(1);
    ASSERT_EQ(second.slot, first.slot);
    box_.set_poller(before);
    box_.poller_round();
    EXPECT_EQ(box_.slot(first.slot), slot_word::waiting(second.tag)) << "another request's";
    box_.set_slot(first.slot, slot_word::left_unattended(second.tag, 1));
    box_.set_poller(before);
    box_.poller_round();
    EXPECT_EQ(box_.slot(first.slot), slot_word::left_unattended(second.tag, 1)) << "no request's";
    EXPECT_EQ(box_.sunk.get(&rig::completion_record::calls), 0u);
}

// A poller stops with a response that it has read. Its successor delivers the response, and the slot is used until its
// tag is the same again. The compare-and-swap that the first poller still has to make must not find what it expects.
TEST_P(Poller, ThatIsLateByAllTagsDeliversNothing) {
    const ticket first = box_.ask(3);
    const mailbox::response read = box_.serve(40);
    box_.take_lease_and_stop();
    expect_grant(first, 40);
    for (std::uint32_t i = 1; i <= box_.shape.tag_mask(); ++i) {
        const ticket other = box_.ask(i);
        ASSERT_EQ(other.slot, first.slot);
        box_.serve(100 + i);
        expect_grant(other, 100 + i);
    }
    const ticket last = box_.ask(9);
    ASSERT_EQ(last.slot, first.slot);
    ASSERT_EQ(last.tag, first.tag);
    const std::uint64_t before = box_.slot(last.slot);
    std::uint64_t expected = slot_word::waiting(read.tag);
    EXPECT_FALSE(
        box_.device->slots()[read.slot].compare_exchange<simt::order::relaxed>(expected, slot_word::delivered(read)));
    EXPECT_EQ(box_.slot(last.slot), before);
    box_.serve(500);
    expect_grant(last, 500);
}

// The number of a take-over stays in a slot: idle, unattended, and idle again.
TEST_P(Poller, LeavesTheNumberOfItsTakeOverInEachStateOfASlot) {
    const ticket first = box_.ask_unattended(3);
    box_.serve(40);
    box_.take_lease_and_stop();
    const ticket other = box_.ask(1);
    box_.serve(60);
    expect_grant(other, 60);
    EXPECT_EQ(box_.slot(first.slot), slot_word::idle((first.tag + 1) & box_.shape.tag_mask(), 1));
    EXPECT_EQ(box_.slot(other.slot), slot_word::idle((other.tag + 1) & box_.shape.tag_mask(), 1));
    const ticket again = box_.ask_unattended(4);
    ASSERT_EQ(again.slot, first.slot);
    EXPECT_EQ(box_.slot(again.slot), slot_word::left_unattended(again.tag, 4, 0, 1));
    box_.serve(80);
    box_.poller_round();
    EXPECT_EQ(box_.slot(first.slot), slot_word::idle((first.tag + 2) & box_.shape.tag_mask(), 1));
    EXPECT_EQ(box_.sunk.get(&rig::completion_record::grants), 2u);
}

// While the cursor stands before a response that is delivered already, requests are rejected in its slot. Their
// claims leave the tag as it is, so that the response is not for a later request.
TEST_P(Poller, DeliversNoOldAnswerAfterRejections) {
    const ticket first = box_.ask(3);
    const mailbox::response old = box_.serve(40);
    box_.take_lease_and_stop();
    box_.deliver(old);
    expect_grant(first, 40);  // the cursor stands
    box_.device->rejection.flags.store<simt::order::relaxed>(mailbox::device_part::closing);
    for (std::uint32_t i = 0; i < box_.shape.tag_mask(); ++i) {
        EXPECT_EQ(box_.ask(5).failure, failure_reason::closing);
    }
    box_.device->rejection.flags.store<simt::order::relaxed>(0);
    const ticket later = box_.ask(9);
    ASSERT_EQ(later.slot, first.slot);
    EXPECT_NE(later.tag, first.tag);
    box_.serve(500);
    expect_grant(later, 500);
}

TEST_P(Poller, GivesEachAnswerToTheSinkOnceHoweverOftenItIsMet) {
    const ticket r = box_.ask_unattended(5);
    ASSERT_EQ(r.failure, failure_reason::none);
    box_.serve(70);
    const std::uint64_t before = box_.poller();
    for (int i = 0; i < 3; ++i) {
        box_.set_poller(before);
        box_.poller_round();
    }
    EXPECT_EQ(box_.sunk.get(&rig::completion_record::calls), 1u);
    EXPECT_EQ(box_.sunk.get(&rig::completion_record::last_first), 70u);
    EXPECT_EQ(box_.sunk.get(&rig::completion_record::last_count), 5u)
        << "the count asked for: the response does not carry it";
    EXPECT_EQ(box_.claimed(), 0u);
}

TEST_P(Poller, ReadsOnlyThoseAnswersThatHaveArrived) {
    const ticket a = box_.ask(1);
    const ticket b = box_.ask(2);
    box_.serve(1);
    box_.poller_round();
    EXPECT_EQ(box_.cursor(), 1u);
    EXPECT_NE(box_.slot(a.slot) & slot_word::answered, 0u);
    EXPECT_EQ(box_.slot(b.slot), slot_word::waiting(b.tag));
    box_.poller_round();
    EXPECT_EQ(box_.cursor(), 1u);
    box_.serve(2);
    expect_grant(b, 2);
    expect_grant(a, 1);
}

TEST(APollerOfOneLane, DeliversMoreAnswersThanItReadsAtOnceEachWhereItBelongs) {
    constexpr std::uint32_t requests = 3 * device::poller::depth + 2;
    scripted_mailbox box(mailbox::shape{64, 8});
    const auto is_unattended = [](std::uint32_t slot) { return slot % 3 == 1; };
    for (std::uint32_t slot = 0; slot < requests; ++slot) {
        box.set_slot(slot, is_unattended(slot) ? slot_word::left_unattended(0, slot + 1) : slot_word::waiting(0));
        box.device->posted[0].word.fetch_add<simt::order::relaxed>(1);
        box.server.respond({device::response_status::granted, slot, 0, {segment_index{10 * slot}, 0}});
    }
    box.server.flush();
    const device::outcome last = box.wait({requests - 1, 0, requests});
    EXPECT_EQ(last.result.run, (segment_run{segment_index{10 * (requests - 1)}, requests}));
    EXPECT_EQ(box.cursor(), requests);
    std::uint64_t sunk = 0;
    std::uint64_t segments = 0;
    for (std::uint32_t slot = 0; slot + 1 < requests; ++slot) {
        if (is_unattended(slot)) {
            ++sunk;
            segments += slot + 1;
            EXPECT_EQ(box.slot(slot), slot_word::idle(1)) << slot;
        } else {
            EXPECT_EQ(slot_word::unpack(box.slot(slot)).run.first, segment_index{10 * slot}) << slot;
        }
    }
    EXPECT_EQ(box.sunk.get(&rig::completion_record::grants), sunk);
    EXPECT_EQ(box.sunk.get(&rig::completion_record::segments), segments);
}

// Each recovery of a ring covers one longest batch, also by a group whose width is no divisor of it: what the next one
// would not mark must not have been read.
TEST(APollerThatTakesOver, MarksOneLongestBatchWhateverItsWidth) {
    constexpr std::uint32_t requests = device::poller::longest_batch + 32;
    scripted_mailbox box(mailbox::shape{256, 8});
    for (std::uint32_t slot = 0; slot < requests; ++slot) {
        box.set_slot(slot, slot_word::waiting(0));
        box.device->posted[0].word.fetch_add<simt::order::relaxed>(1);
        box.server.respond({device::response_status::granted, slot, 0, {segment_index{slot}, 0}});
    }
    box.server.flush();
    const std::uint64_t lost = box.take_lease_and_stop();
    const auto result = simt::run_emulated({1, 31}, [&](simt::thread_position) {
        device::rpc_context_with<rig::recording_completion> e{&box.client, simt::converge(), box.completion()};
        e.turn.begin(1);
        e.turn.ring = 0;
        e.turn.lost = lost;
        device::poller::serve(e);
    });
    ASSERT_TRUE(result.ok) << result.error;
    EXPECT_GT(box.cursor(), device::poller::longest_batch);
    for (std::uint32_t slot = 0; slot < requests; ++slot) {
        const bool was_recovered = slot < device::poller::longest_batch;
        EXPECT_EQ(slot_word::takeover_field::get(box.slot(slot)), was_recovered ? 1u : 0u) << slot;
    }
}

INSTANTIATE_TEST_SUITE_P(TagBits, Poller, ::testing::Values(2u, 3u, 8u));

TEST(APollerThatHoldsOffice, IsTheOnlyOneToReadHostMemory) {
    scripted_mailbox box(mailbox::shape{64, 8});
    box.take_lease_and_stop();
    const std::uint64_t word = box.poller();
    const auto result = simt::run_emulated({2, 64}, [&](simt::thread_position) {
        const simt::lane_mask mask = simt::converge();
        for (int i = 0; i < 20; ++i) {
            box.client.poller_round(mask, box.completion());
        }
    });
    ASSERT_TRUE(result.ok) << result.error;
    EXPECT_EQ(result.costs.host_words_read, 0u);
    EXPECT_EQ(result.costs.host_atomics, 0u);
    EXPECT_EQ(result.costs.device_atomics, 0u) << "looking costs no atomic";
    EXPECT_EQ(box.poller(), word);
}

}  // namespace
}  // namespace orchard
