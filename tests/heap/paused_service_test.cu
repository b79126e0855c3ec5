// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A service that pauses for a while, or for ever, while many lanes wait for it. Waiting lanes get their response late,
// or null with the reason.

#include <thread>

#include "absl/time/clock.h"
#include "tests/support/asking_lanes.cuh"
#include "tests/support/default_cases.hpp"
#include "tests/support/heap_fixture.hpp"
#include "tests/support/heap_service_peer.hpp"

namespace orchard::test {
namespace {

std::uint64_t to_ns(absl::Duration d) { return static_cast<std::uint64_t>(absl::ToInt64Nanoseconds(d)); }

class heap_paused : public heap_contract {
protected:
    void SetUp() override {
        heap_contract::SetUp();
        if (!IsSkipped()) {
            remake_with(absl::Seconds(60));
        }
    }
    [[nodiscard]] bool on_gpu() { return h().executor().kind == simt::device_kind::cuda; }
    /// On a GPU 4,092 lanes, in whole warps and in warps of one lane; otherwise 388, all of which also run at once.
    [[nodiscard]] simt::grid shape() { return on_gpu() ? simt::grid{124, 33} : simt::grid{emulated_workers, 97}; }
    [[nodiscard]] std::uint64_t lanes() { return std::uint64_t{shape().blocks} * shape().threads_per_block; }

    /// A heap with room for twice what the lanes hold at a time; all of it is committed.
    void remake_with(absl::Duration timeout) {
        options values = GetParam().values();
        values.request_timeout = deadline_ = timeout;
        values.cached_segments = 0;  // every request goes to the service
        values.emulated_workers = emulated_workers;
        values.capacity = segments(on_gpu() ? 2'560 : 256);
        values.range = 4 * values.capacity;
        remake(values);
        ASSERT_TRUE(h().reserve(values.capacity).ok());
        ASSERT_TRUE(h().template preload<ask_again>().ok());
    }
    /// Stops the service once all lanes wait for it, then runs `job` on its thread. All lanes must wait within a
    /// quarter of the deadline, so that no lane has waited for half of it since the last heartbeat; otherwise tries
    /// again. Returns true if `job` ran.
    template <class Job>
    bool hold_while_all_wait(const asking_lanes& all, Job job) {
        bool held = false;
        for (int attempt = 0; attempt < 20 && !held; ++attempt) {
            heap_service_peer::run(h(), [&] {
                held = asking_lanes::wait_until(deadline_ / 4, [&] { return all.all_wait(); });
                if (held) {
                    job();
                }
            });
        }
        return held;
    }
    /// Each lane got null once, no sooner and not much later than it should: the service is no longer there, or held.
    void expect_null_in_time(const asking_lanes& all) {
        // Far longer than a loaded machine delays a lane, so that only a wait without end exceeds it.
        const absl::Duration most = 2 * deadline_ + absl::Seconds(30);
        const asking_lanes::totals got = all.sum();
        EXPECT_EQ(got.nulls, lanes());
        EXPECT_EQ(got.strange, 0u);
        EXPECT_GE(got.shortest_ns, to_ns(deadline_));
        EXPECT_LE(got.longest_ns, to_ns(most));
        const auto failed = h().last_failure();
        ASSERT_TRUE(failed.has_value());
        EXPECT_EQ(failed->reason, failure_reason::service_not_responding) << to_text(*failed);
        EXPECT_EQ(failed->count, lanes());
    }

    static constexpr std::uint32_t emulated_workers = 4;
    absl::Duration deadline_;
};
INSTANTIATE_TEST_SUITE_P(all, heap_paused, ::testing::ValuesIn(default_cases()), case_name);

TEST_P(heap_paused, for_less_than_the_deadline_everybody_is_served) {
    constexpr absl::Duration pause = absl::Seconds(2);
    asking_lanes all(h(), shape());
    ASSERT_TRUE(all.wait_until_each_is_served());
    bool none_served = false;
    ASSERT_TRUE(hold_while_all_wait(all, [&] {
        // Tries again if a response was still in flight.
        for (int attempt = 0; attempt < 5 && !none_served; ++attempt) {
            const std::vector<std::uint64_t> before = all.asked();
            absl::SleepFor(pause);
            none_served = all.all_wait() && all.asked() == before;
        }
    }));
    EXPECT_TRUE(none_served) << "there are requests that do not need the service";
    EXPECT_TRUE(all.wait_until_each_is_served());
    all.end();
    const asking_lanes::totals got = all.sum();
    EXPECT_EQ(got.nulls, 0u);
    EXPECT_EQ(got.strange, 0u);
    EXPECT_GE(got.shortest_ns, to_ns(0.9 * pause)) << "there are lanes that did not wait";
    EXPECT_FALSE(h().last_failure().has_value());
    expect_empty();
}

TEST_P(heap_paused, for_longer_they_get_null_and_the_reason_and_nothing_is_lost) {
    ASSERT_NO_FATAL_FAILURE(remake_with(absl::Seconds(2)));
    {
        asking_lanes all(h(), shape());
        ASSERT_TRUE(all.wait_until_each_is_served());
        bool ended = false;
        ASSERT_TRUE(hold_while_all_wait(all, [&] { ended = all.wait_until_ended(); }));
        EXPECT_TRUE(ended) << "there are requests that wait longer than the deadline";
        all.end();
        expect_null_in_time(all);
    }
    expect_empty();
    asking_lanes again(h(), shape());
    EXPECT_TRUE(again.wait_until_each_is_served()) << "what runs again serves again";
    again.end();
    EXPECT_EQ(again.sum().nulls, 0u);
    EXPECT_EQ(again.sum().strange, 0u);
    expect_empty();
}

TEST_P(heap_paused, for_ever_they_get_null_and_the_heap_can_be_destroyed) {
    ASSERT_NO_FATAL_FAILURE(remake_with(absl::Seconds(2)));
    {
        asking_lanes all(h(), shape());
        ASSERT_TRUE(all.wait_until_each_is_served());
        std::thread stop;  // waits for the turn that the service is in
        const bool held =
            hold_while_all_wait(all, [&] { stop = std::thread([this] { heap_service_peer::stop(h()); }); });
        ASSERT_TRUE(held);
        stop.join();
        EXPECT_TRUE(all.wait_until_ended()) << "there are requests that wait longer than the deadline";
        all.end();
        expect_null_in_time(all);
    }
    EXPECT_TRUE(absl::IsDeadlineExceeded(h().trim()));
    drop();
}

}  // namespace
}  // namespace orchard::test
