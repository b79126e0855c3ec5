// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Many groups, few slots, narrow tags: every response reaches its group exactly once, for all masks and orders.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/simt/run_emulated.hpp"
#include "tests/support/background.hpp"
#include "tests/support/scripted_mailbox.cuh"
#include "tests/support/service_rig.hpp"

namespace orchard {
namespace {

using device::outcome;
using device::response_status;
using device::ticket;
using simt::order;
using word32 = simt::device_word<std::uint32_t>;

enum class groups : int { whole_warps, single_lanes, thirds, changing };

/// Returns a number that the lanes of one group share and other lanes of the warp do not have.
std::uint32_t group_key(groups by, simt::thread_position at, std::uint32_t round) {
    switch (by) {
        case groups::whole_warps: return 0;
        case groups::single_lanes: return at.thread;
        case groups::thirds: return at.thread % 3;
        default: return (at.thread * 2654435761u >> (round % 16)) % (round % 7 + 1);
    }
}

struct load_case {
    mailbox::shape shape;
    groups by;
    simt::grid grid;
    std::uint32_t rounds;
    unsigned workers;  ///< with more than one, the host may stop a poller for so long that a 2-bit tag is used again
};

class RoundTrip : public ::testing::TestWithParam<load_case> {};

TEST_P(RoundTrip, EveryGroupGetsItsOwnSegmentsAndGivesThemBack) {
    const load_case& load = GetParam();
    rig::service_setup setup;
    setup.shape = load.shape;
    setup.segments = setup.committed_at_start = 1024;
    rig::service_rig host(setup);
    const device::mailbox_client client{host.box.host, host.box.device, load.shape, 100'000'000'000};
    rig::completion_record sunk;
    const rig::recording_completion completion{&sunk};
    std::vector<word32> owned(setup.segments);
    word32 shared{0};
    word32 unanswered{0};
    simt::device_word<std::uint64_t> requests{0};
    simt::launch_result result;
    {
        const rig::background serving([&] { host.service.poll_once(); });
        result = simt::run_emulated(
            load.grid,
            [&](simt::thread_position at) {
                for (std::uint32_t round = 0; round < load.rounds; ++round) {
                    const simt::lane_mask mask = simt::match(simt::converge(), group_key(load.by, at, round));
                    const std::uint32_t count = 1 + (at.block + round) % 3;
                    const ticket r = client.post(mask, rig::grant_of(count), false, completion);
                    const outcome o = client.wait(mask, r, completion);
                    if (o.failure != failure_reason::none || o.result.status != response_status::granted ||
                        o.result.run.count != count) {
                        unanswered.fetch_add<order::relaxed>(1);
                        continue;
                    }
                    const std::uint32_t first = to_underlying(o.result.run.first);
                    if (device::is_leader(mask)) {
                        requests.fetch_add<order::relaxed>(2);
                        for (std::uint32_t i = 0; i < count; ++i) {
                            shared.fetch_add<order::relaxed>(owned[first + i].fetch_add<order::relaxed>(1));
                        }
                        for (std::uint32_t i = 0; i < count; ++i) {
                            owned[first + i].fetch_sub<order::relaxed>(1);
                        }
                    }
                    simt::sync(mask);
                    const mailbox::request back{
                        mailbox::request_kind::give_back, 0, 0, {o.result.run.first, count}, false};
                    const outcome ack = client.wait(mask, client.post(mask, back, false, completion), completion);
                    if (ack.failure != failure_reason::none || ack.result.status != response_status::acknowledged) {
                        unanswered.fetch_add<order::relaxed>(1);
                    }
                }
            },
            load.workers);
    }
    ASSERT_TRUE(result.ok) << result.error;
    EXPECT_EQ(unanswered.load<order::relaxed>(), 0u);
    EXPECT_EQ(shared.load<order::relaxed>(), 0u) << "a segment had two owners";
    EXPECT_EQ(sunk.get(&rig::completion_record::calls), 0u);
    EXPECT_EQ(result.costs.host_atomics, 0u);
    EXPECT_EQ(result.costs.host_words_written, requests.load<order::relaxed>());
    EXPECT_EQ(host.box.tickets(), requests.load<order::relaxed>());
    EXPECT_EQ(client.in_flight(), 0u);
    EXPECT_EQ(host.box.claimed(), 0u);
    EXPECT_EQ(host.service.counters().requests_rejected.get(), 0u);
    EXPECT_EQ(host.service.counters().segments_granted.get(), 0u);
    EXPECT_TRUE(host.service.validate().ok()) << host.service.validate();
}

std::string name_of(const ::testing::TestParamInfo<load_case>& of) {
    static constexpr const char* by[] = {"whole_warps", "single_lanes", "thirds", "changing_groups"};
    const load_case& l = of.param;
    return std::string(by[static_cast<int>(l.by)]) + "_" + std::to_string(l.shape.slots) + "_slots_" +
           std::to_string(l.shape.tag_bits) + "_bits_" + std::to_string(l.shape.pollers) + "_pollers_" +
           std::to_string(l.workers) + "_workers";
}

INSTANTIATE_TEST_SUITE_P(Loads, RoundTrip,
                         ::testing::Values(load_case{{4, 2, 1, 2}, groups::whole_warps, {8, 64}, 20, 1},
                                           load_case{{4, 2, 1, 2}, groups::single_lanes, {2, 64}, 4, 1},
                                           load_case{{4, 2, 1, 2}, groups::thirds, {4, 64}, 10, 1},
                                           load_case{{4, 2, 1, 2}, groups::changing, {4, 64}, 10, 1},
                                           load_case{{4, 8}, groups::whole_warps, {8, 64}, 20, 3},
                                           load_case{{4, 8}, groups::single_lanes, {2, 64}, 4, 2},
                                           load_case{{8, 8}, groups::changing, {4, 64}, 10, 2},
                                           load_case{{64, 8}, groups::thirds, {6, 64}, 20, 3},
                                           load_case{{8, 2, 2, 2}, groups::changing, {4, 64}, 10, 1},
                                           load_case{{16, 2, 4, 2}, groups::thirds, {4, 64}, 10, 1},
                                           load_case{{8, 8, 2}, groups::whole_warps, {8, 64}, 20, 3},
                                           load_case{{16, 8, 4}, groups::changing, {4, 64}, 10, 3}),
                         name_of);

// The requested count identifies the group; the order of the responses is independent of that of the requests.
class OutOfOrder : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(OutOfOrder, AnswersReachWhoAsked) {
    constexpr std::uint32_t blocks = 4;
    constexpr std::uint32_t warps = blocks * 2;
    constexpr std::uint32_t rounds = 12;
    rig::scripted_mailbox box(mailbox::shape{8, 8, GetParam()}, 100'000'000'000);
    std::mt19937 random(GetParam());
    std::vector<mailbox::request> waiting;
    word32 wrong{0};
    simt::launch_result result;
    {
        int patience = 0;
        const rig::background serving([&] {
            mailbox::request p;
            while (box.server.next(&p)) {
                waiting.push_back(p);
                patience = 0;
            }
            // The last rounds have fewer requests in flight.
            if (waiting.size() >= 4 || (!waiting.empty() && ++patience > 5)) {
                const auto chosen = waiting.begin() + static_cast<std::ptrdiff_t>(random() % waiting.size());
                const response_status status =
                    chosen->run.count % 5 == 0 ? response_status::fragmented : response_status::granted;
                box.server.respond({status, chosen->slot, chosen->tag, {segment_index{chosen->run.count * 3}, 0}});
                box.server.flush();
                waiting.erase(chosen);
            }
        });
        result = simt::run_emulated({blocks, 64}, [&](simt::thread_position at) {
            const simt::lane_mask mask = simt::converge();
            for (std::uint32_t round = 0; round < rounds; ++round) {
                const auto mine = static_cast<std::uint32_t>(at.global_warp()) * rounds + round + 1;
                const ticket r = box.client.post(mask, rig::grant_of(mine), false, box.completion());
                const outcome o = box.client.wait(mask, r, box.completion());
                const response_status expected = mine % 5 == 0 ? response_status::fragmented : response_status::granted;
                const bool right = o.failure == failure_reason::none && o.result.status == expected &&
                                   o.result.run == segment_run{segment_index{mine * 3}, mine};
                wrong.fetch_add<order::relaxed>(right ? 0 : 1);
            }
        });
    }
    ASSERT_TRUE(result.ok) << result.error;
    EXPECT_EQ(wrong.load<order::relaxed>(), 0u);
    EXPECT_EQ(box.tickets(), warps * rounds);
    EXPECT_EQ(box.client.in_flight(), 0u);
    EXPECT_EQ(box.claimed(), 0u);
    EXPECT_EQ(box.sunk.get(&rig::completion_record::calls), 0u);
}

INSTANTIATE_TEST_SUITE_P(Pollers, OutOfOrder, ::testing::Values(1u, 2u));

}  // namespace
}  // namespace orchard
