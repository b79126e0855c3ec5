// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Groups that give up while others wait, and requests for which no group waits: no grant is lost or handed out twice.

#include <gtest/gtest.h>

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

/// Counts how often each segment was received.
struct counting_completion {
    word32* received;
    ORCHARD_FN void operator()(response_status status, segment_run run) const {
        for (std::uint32_t i = 0; status == response_status::granted && i < run.count; ++i) {
            received[to_underlying(run.first) + i].fetch_add<order::relaxed>(1);
        }
    }
};

class Abandoned : public ::testing::Test {
protected:
    static constexpr std::uint32_t segments = 4096;
    static rig::service_setup setup() {
        rig::service_setup s;
        s.shape = {8, 8, 2};
        s.segments = s.committed_at_start = segments;
        return s;
    }
    /// Delivers what is still on its way.
    void collect() {
        while (client_.in_flight() != 0) {
            host_.service.poll_once();
            client_.poller_round(rig::alone, completion_);
        }
    }
    void expect_each_granted_segment_received_once() {
        std::uint64_t total = 0;
        for (std::uint32_t i = 0; i < segments; ++i) {
            const std::uint32_t times = received_[i].load<order::relaxed>();
            total += times;
            ASSERT_EQ(times, host_.service.is_granted(segment_index{i}) ? 1u : 0u) << "segment " << i;
        }
        EXPECT_EQ(total, host_.service.counters().segments_granted.get());
        EXPECT_GT(total, 0u);
        EXPECT_EQ(host_.box.claimed(), 0u);
    }

    rig::service_rig host_{setup()};
    device::mailbox_client client_{host_.box.host, host_.box.device, host_.box.shape, 100'000'000'000};
    std::vector<word32> received_ = std::vector<word32>(segments);
    counting_completion completion_{received_.data()};
};

TEST_F(Abandoned, WaitersAndSinkTogetherReceiveEverySegmentOnce) {
    client_.timeout_ns = 300'000;
    word32 gave_up{0};
    simt::launch_result result;
    {
        // A service that answers at irregular times.
        int turn = 0;
        const rig::background serving([&] {
            if (++turn % 64 < 32) {
                host_.service.poll_once();
            } else {
                simt::pause(50'000);
            }
        });
        result = simt::run_emulated({4, 64}, [&](simt::thread_position at) {
            const simt::lane_mask mask = simt::match(simt::converge(), at.thread % 2);
            for (std::uint32_t round = 0; round < 40; ++round) {
                const std::uint32_t count = 1 + round % 4;
                const ticket r = client_.post(mask, rig::grant_of(count), false, completion_);
                if (r.failure != failure_reason::none) {
                    continue;
                }
                const outcome o = client_.wait(mask, r, completion_);
                if (device::is_leader(mask)) {
                    gave_up.fetch_add<order::relaxed>(o.failure != failure_reason::none ? 1 : 0);
                    if (o.failure == failure_reason::none) {
                        completion_(o.result.status, o.result.run);
                    }
                }
            }
        });
    }
    ASSERT_TRUE(result.ok) << result.error;
    collect();
    expect_each_granted_segment_received_once();
    EXPECT_GT(gave_up.load<order::relaxed>(), 0u) << "no request waited for longer than the deadline";
}

TEST_F(Abandoned, UnattendedPostsReachTheSinkOnce) {
    word32 posted{0};
    const auto result = simt::run_emulated({4, 64}, [&](simt::thread_position at) {
        const simt::lane_mask mask = simt::match(simt::converge(), at.thread % 4);
        for (std::uint32_t round = 0; round < 60; ++round) {
            mailbox::request request = rig::grant_of(1 + (at.block + round) % 4);
            request.or_fewer = round % 2 == 0;
            const ticket r = client_.post(mask, request, true, completion_);
            if (device::is_leader(mask) && r.failure == failure_reason::none) {
                posted.fetch_add<order::relaxed>(1);
            }
            client_.poller_round(mask, completion_);
            if (device::is_leader(mask) && at.block == 0 && at.thread < 32 && at.thread % 4 == 0) {
                host_.service.poll_once();  // one lane only is the service
            }
        }
    });
    ASSERT_TRUE(result.ok) << result.error;
    EXPECT_EQ(host_.box.tickets(), posted.load<order::relaxed>());
    EXPECT_GT(host_.box.tickets(), std::uint64_t{4} * host_.box.shape.slots);
    collect();
    expect_each_granted_segment_received_once();
}

TEST_F(Abandoned, UnattendedReturnsAreAcknowledgedToTheSink) {
    rig::completion_record sunk;
    const rig::recording_completion completion{&sunk};
    const ticket r = client_.post(rig::alone, rig::grant_of(9), false, completion);
    host_.service.poll_once();
    const outcome o = client_.wait(rig::alone, r, completion);
    const mailbox::request back{mailbox::request_kind::give_back, 0, 0, o.result.run, false};
    for (const response_status expected : {response_status::acknowledged, response_status::rejected}) {
        ASSERT_EQ(client_.post(rig::alone, back, true, completion).failure, failure_reason::none);
        host_.service.poll_once();
        client_.poller_round(rig::alone, completion);
        EXPECT_EQ(sunk.get(&rig::completion_record::last_status), static_cast<std::uint64_t>(expected));
    }
    EXPECT_EQ(sunk.get(&rig::completion_record::calls), 2u);
    EXPECT_EQ(host_.box.claimed(), 0u);
    EXPECT_EQ(host_.service.counters().segments_granted.get(), 0u);
}

}  // namespace
}  // namespace orchard
