// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The cost of sending requests and of waiting, by count.

#include <gtest/gtest.h>

#include "tests/simt/run_emulated.hpp"
#include "tests/support/background.hpp"
#include "tests/support/scripted_mailbox.cuh"
#include "tests/support/service_rig.hpp"

namespace orchard {
namespace {

using device::slot_word;
using device::ticket;
using rig::scripted_mailbox;

TEST(Costs, APostIsOneHostWordAndFewAtomics) {
    for (const bool unattended : {false, true}) {
        scripted_mailbox box(mailbox::shape{64, 8});
        simt::device_word<std::uint64_t> failed{0};
        const auto result = simt::run_emulated({4, 128}, [&](simt::thread_position) {
            const simt::lane_mask mask = simt::converge();
            if (box.client.post(mask, rig::grant_of(1), unattended, box.completion()).failure != failure_reason::none) {
                failed.fetch_or<simt::order::relaxed>(1);
            }
        });
        ASSERT_TRUE(result.ok) << result.error;
        EXPECT_EQ(failed.load<simt::order::relaxed>(), 0u);
        constexpr std::uint64_t warps = 16;
        EXPECT_EQ(box.tickets(), warps);
        EXPECT_EQ(result.costs.host_words_written, warps);
        EXPECT_EQ(result.costs.host_words_read, 0u);
        EXPECT_EQ(result.costs.host_atomics, 0u);
        EXPECT_LE(result.costs.device_atomics, 3 * warps) << "the slot, the ticket, the count of the ring's requests";
    }
}

TEST(Costs, ARefusedPostWritesNothing) {
    scripted_mailbox box(mailbox::shape{64, 8});
    box.close();
    const auto result = simt::run_emulated({1, 64}, [&](simt::thread_position) {
        (void)box.client.post(simt::converge(), rig::grant_of(1), false, box.completion());
    });
    EXPECT_EQ(result.costs.host_words_written, 0u);
    EXPECT_EQ(box.tickets(), 0u);
    EXPECT_EQ(box.claimed(), 0u);
}

// One lane of the first warp acts as a working poller: it holds the lease, changes its word, and delivers.
TEST(Costs, WaitingGroupsReadNoHostMemory) {
    constexpr std::uint64_t patience_ns = 4'000'000;  // less than the time after which a poller counts as stopped
    bool undisturbed = false;
    for (int attempt = 0; attempt < 200 && !undisturbed; ++attempt) {
        scripted_mailbox box(mailbox::shape{64, 8});
        std::uint64_t word = box.take_lease_and_stop();
        simt::device_word<std::uint32_t> posted{0};
        simt::device_word<std::uint32_t> answered{0};
        const std::uint64_t began = simt::clock_ns();
        const auto result = simt::run_emulated(
            {1, 5 * 32},
            [&](simt::thread_position at) {
                const simt::lane_mask mask = simt::converge();
                if (at.thread < 32) {
                    if (at.thread == 0) {
                        while (posted.load<simt::order::relaxed>() != 4) {
                            simt::pause(0);
                        }
                        for (int i = 0; i < 16; ++i) {
                            word = device::poller_word::succeeded(word);
                            box.set_poller(word);
                            simt::pause(0);
                        }
                        for (std::uint32_t s = 0; s < box.shape.slots; ++s) {
                            if ((box.slot(s) & slot_word::pending) != 0) {
                                box.deliver({device::response_status::granted, s, 0, {segment_index{s}, 1}});
                            }
                        }
                    }
                    return;
                }
                const ticket r = box.client.post(mask, rig::grant_of(1), false, box.completion());
                if (device::is_leader(mask)) {
                    posted.fetch_add<simt::order::relaxed>(1);
                }
                const device::outcome o = box.client.wait(mask, r, box.completion());
                if (device::is_leader(mask) && o.result.run.first == segment_index{r.slot}) {
                    answered.fetch_add<simt::order::relaxed>(1);
                }
            },
            1);
        undisturbed = simt::clock_ns() - began < patience_ns;
        ASSERT_TRUE(result.ok) << result.error;
        EXPECT_EQ(answered.load<simt::order::relaxed>(), 4u);
        EXPECT_EQ(result.costs.host_atomics, 0u);
        EXPECT_EQ(result.costs.host_words_written, 4u);
        if (undisturbed) {
            EXPECT_EQ(result.costs.host_words_read, 0u);
        }
    }
    if (!undisturbed) {
        GTEST_SKIP() << "the machine is too busy: no run ended before a poller would count as lost";
    }
}

TEST(Costs, APollerWithNothingToDoReadsOneWordALane) {
    scripted_mailbox box(mailbox::shape{64, 8});
    const auto result = simt::run_emulated(
        {1, 20}, [&](simt::thread_position) { box.client.poller_round(simt::converge(), box.completion()); });
    ASSERT_TRUE(result.ok) << result.error;
    EXPECT_EQ(result.costs.host_words_read, 20u);
    EXPECT_EQ(result.costs.host_words_written, 0u);
    EXPECT_EQ(result.costs.device_atomics, 2u) << "takes the lease, leaves it";
}

TEST(Costs, RequestsNeedNoHostAtomicsAndOneHostWordEach) {
    rig::service_rig host;
    const rig::background serving([&] { host.service.poll_once(); });
    const device::mailbox_client client{host.box.host, host.box.device, host.box.shape, 60'000'000'000};
    rig::completion_record sunk;
    simt::device_word<std::uint64_t> good{0};
    constexpr std::uint64_t rounds = 8;
    const auto result = simt::run_emulated({4, 64}, [&](simt::thread_position) {
        const simt::lane_mask mask = simt::converge();
        for (std::uint64_t i = 0; i < rounds; ++i) {
            const ticket r = client.post(mask, rig::grant_of(1), false, rig::recording_completion{&sunk});
            const device::outcome o = client.wait(mask, r, rig::recording_completion{&sunk});
            if (device::is_leader(mask) && o.result.status == device::response_status::granted) {
                good.fetch_add<simt::order::relaxed>(1);
            }
        }
    });
    ASSERT_TRUE(result.ok) << result.error;
    EXPECT_EQ(good.load<simt::order::relaxed>(), 8 * rounds);
    EXPECT_EQ(result.costs.host_atomics, 0u);
    EXPECT_EQ(result.costs.host_words_written, 8 * rounds);
    EXPECT_GE(result.costs.host_words_read, 8 * rounds) << "some group must have read every response";
}

}  // namespace
}  // namespace orchard
