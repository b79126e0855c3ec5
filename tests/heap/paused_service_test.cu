// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A service that does not run for a while, or never again: whoever waits gets its answer late, or null with the reason.

#include <latch>
#include <thread>

#include "absl/time/clock.h"
#include "tests/support/heap_fixture.hpp"
#include "tests/support/heap_service_peer.hpp"

namespace orchard::test {
namespace {

/// What the threads of a kernel have got.
struct answers {
    simt::device_word<std::uint64_t> begun;
    simt::device_word<std::uint64_t> blocks;
    simt::device_word<std::uint64_t> nulls;
};

/// Each thread asks the host for a segment and frees it, `rounds` times, or until it gets none.
struct ask_the_host {
    heap_ref heap;
    std::uint32_t rounds;
    answers* got;

    ORCHARD_FN void operator()(simt::thread_position) const {
        got->begun.fetch_add<simt::order::relaxed>(1);
        for (std::uint32_t i = 0; i < rounds; ++i) {
            void* p = heap.malloc(segment_bytes);
            (p != nullptr ? got->blocks : got->nulls).fetch_add<simt::order::relaxed>(1);
            if (p == nullptr) {
                return;
            }
            heap.free(p);
        }
    }
};

class heap_paused : public heap_contract {
protected:
    void SetUp() override {
        heap_contract::SetUp();
        if (!IsSkipped()) {
            remake_with(absl::Seconds(60));
        }
    }
    void remake_with(absl::Duration timeout) {
        options values = GetParam().values();
        values.request_timeout = timeout;
        values.magazine_segments = 0;  // all that is asked for is asked of the service
        remake(values);
    }
    /// Runs `meanwhile` beside threads that ask, on warps of one lane; what they got.
    template <class Meanwhile>
    answers ask_beside(std::uint32_t rounds, Meanwhile meanwhile) {
        const auto got = array<answers>(1);
        EXPECT_TRUE(h().template preload<ask_the_host>().ok());
        simt::launch_result result;
        {
            const std::jthread kernel([&] {
                result = simt::launch(h().executor(), {6, 1}, ask_the_host{h().ref(), rounds, got.data()});
            });
            meanwhile();
        }
        EXPECT_TRUE(result.ok) << result.error;
        return to_host(got).front();
    }
    static std::uint64_t number(const simt::device_word<std::uint64_t>& w) { return w.load<simt::order::relaxed>(); }
};
std::vector<heap_case> paused_cases() {
    std::vector<heap_case> cases;
    for (const heap_case& c : heap_cases()) {
        const std::string name = c.name;
        if (name == "emulated" || name == "cuda") {
            cases.push_back(c);
        }
    }
    return cases;
}
INSTANTIATE_TEST_SUITE_P(all, heap_paused, ::testing::ValuesIn(paused_cases()), case_name);

TEST_P(heap_paused, for_less_than_the_deadline_everybody_is_served) {
    const answers got =
        ask_beside(200, [&] { heap_service_peer::run(h(), 0, [] { absl::SleepFor(absl::Seconds(2)); }); });
    EXPECT_EQ(number(got.blocks), 6u * 200);
    EXPECT_EQ(number(got.nulls), 0u);
    expect_empty();
}

TEST_P(heap_paused, for_longer_they_get_null_and_the_reason_and_nothing_is_lost) {
    remake_with(absl::Milliseconds(200));
    std::latch over(1);
    std::jthread pause([&] { heap_service_peer::run(h(), 0, [&] { over.wait(); }); });
    absl::SleepFor(absl::Milliseconds(50));
    const answers got = ask_beside(1'000'000, [] {});
    over.count_down();
    pause.join();
    EXPECT_EQ(number(got.nulls), 6u) << "each came to its deadline";
    ASSERT_TRUE(h().last_failure().has_value());
    EXPECT_EQ(h().last_failure()->reason, failure_reason::service_not_answering);
    expect_empty();
    const block b = allocate_one(segments(2));
    EXPECT_NE(b.address, 0u) << "what runs again serves again";
    free_all({b});
}

TEST_P(heap_paused, for_ever_they_get_null_and_the_heap_can_be_destroyed) {
    remake_with(absl::Milliseconds(200));
    free_all({allocate_one(segments(1))});
    heap_service_peer::stop(h(), 0);
    const answers got = ask_beside(1'000'000, [] {});
    EXPECT_EQ(number(got.nulls), 6u);
    ASSERT_TRUE(h().last_failure().has_value());
    EXPECT_EQ(h().last_failure()->reason, failure_reason::service_not_answering);
    EXPECT_TRUE(absl::IsDeadlineExceeded(h().trim()));
    drop();
}

}  // namespace
}  // namespace orchard::test
