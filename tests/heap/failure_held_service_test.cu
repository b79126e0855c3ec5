// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A service that does not run: the host still reports failures, and the report contains the right numbers. Calls of the
// host that need the service end with an error.

#include <gmock/gmock.h>

#include <future>
#include <latch>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/support/asking_lanes.cuh"
#include "tests/support/default_cases.hpp"
#include "tests/support/failure_reports.hpp"
#include "tests/support/heap_fixture.hpp"
#include "tests/support/heap_service_peer.hpp"

namespace orchard::test {
namespace {

class heap_failures_while_held : public heap_contract {
protected:
    void SetUp() override {
        heap_contract::SetUp();
        if (!IsSkipped()) {
            options values = impatient();
            values.cached_segments = 0;  // every request goes to the service
            remake(values);
            kept_ = {allocate_one(segments(3))};
        }
    }
    /// Options with a time that every call waits for in vain while the service is held, and in which a thread gets a
    /// core while it is not.
    static options impatient() {
        options values = GetParam().values();
        values.request_timeout = absl::Seconds(1);
        return values;
    }
    /// Runs `meanwhile` while the service does no work.
    template <class Meanwhile>
    void hold(Meanwhile meanwhile) {
        std::latch held(1);
        std::latch over(1);
        const std::jthread pause([&] {
            heap_service_peer::run(h(), [&] {
                held.count_down();
                over.wait();
            });
        });
        held.wait();
        meanwhile();
        over.count_down();
    }
    void expect_numbers(const failure& f, std::uint64_t bytes, bool is_late) {
        EXPECT_EQ(name_of(f.reason), name_of(failure_reason::service_not_responding));
        EXPECT_EQ(f.bytes, bytes);
        EXPECT_EQ(f.count, 1u);
        EXPECT_EQ(f.now.in_use, segments(3));
        EXPECT_GE(f.now.committed, segments(3));
        EXPECT_LE(f.now.largest_free, f.now.committed);
        EXPECT_EQ(f.now.device_budget, GetParam().capacity);
        EXPECT_EQ(f.now.is_late, is_late);
    }

    std::vector<block> kept_;
};
INSTANTIATE_TEST_SUITE_P(all, heap_failures_while_held, ::testing::ValuesIn(default_cases()), case_name);

TEST_P(heap_failures_while_held, are_reported_while_it_is_held) {
    const failure_reports seen;
    EXPECT_TRUE(h().on_failure(seen.taker()).ok());
    hold([&] {
        EXPECT_EQ(allocate_one(segments(2)).address, 0u);
        const std::vector<failure> all = seen.wait_for(1);
        EXPECT_EQ(all.size(), 1u) << "it is told only when the service goes on, or never";
        for (const failure& f : all) {
            expect_numbers(f, segments(2), true);
        }
    });
    EXPECT_TRUE(h().on_failure({}).ok());
    free_all(kept_);
    expect_empty();
}

TEST_P(heap_failures_while_held, are_told_while_it_is_held) {
    std::future<std::optional<failure>> last;
    hold([&] {
        EXPECT_EQ(allocate_one(segments(2)).address, 0u);
        last = std::async(std::launch::async, [&] { return h().last_failure(); });
        EXPECT_EQ(last.wait_for(std::chrono::seconds(60)), std::future_status::ready)
            << "the question for failures waits for the service";
    });
    const std::optional<failure> told = last.get();
    ASSERT_TRUE(told.has_value());
    expect_numbers(*told, segments(2), true);
    ASSERT_TRUE(h().last_failure().has_value());
    EXPECT_FALSE(h().last_failure()->now.is_late) << "it goes on";
    free_all(kept_);
    expect_empty();
}

TEST_P(heap_failures_while_held, leave_calls_of_the_host_with_an_error_that_names_them) {
    const auto expect_late = [](const char* call, const absl::Status& status) {
        EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << call << ": " << status;
        EXPECT_THAT(std::string(status.message()),
                    ::testing::StartsWith(absl::StrCat(call, ": the service's thread did not turn to it within 1s; ")));
    };
    const bool is_complete = h().stats()->committed_bytes == GetParam().capacity;
    hold([&] {
        expect_late("validate", h().validate());
        expect_late("allocate_on_host", h().allocate_on_host(segments(1)).status());
        if (!is_complete) {
            expect_late("reserve", h().reserve(GetParam().capacity));
        }
        EXPECT_TRUE(absl::IsDeadlineExceeded(h().trim()));
    });
    EXPECT_TRUE(h().validate().ok()) << "it goes on";
    const absl::StatusOr<void*> block = h().allocate_on_host(segments(1));
    ASSERT_TRUE(block.ok()) << block.status();
    EXPECT_TRUE(h().free_on_host(*block).ok());
    free_all(kept_);
    expect_empty();
}

/// Memory on the device needs no service: neither that in the segment cache, nor chunks of another length that wait in
/// the chunk store.
TEST_P(heap_failures_while_held, do_not_come_while_the_device_has_memory) {
    free_all(kept_);
    remake(impatient());
    free_all(allocate({segments(4), segments(4)}, 1));
    const absl::StatusOr<statistics> before = h().stats();
    ASSERT_TRUE(before.ok()) << before.status();
    EXPECT_GE(before->segments_in_cache, 8u);
    std::vector<block> blocks;
    hold([&] {
        for (std::uint64_t i = 0; i < before->segments_in_cache; ++i) {
            blocks.push_back(allocate_one(segments(1)));
            EXPECT_NE(blocks.back().address, 0u) << "block " << i << " of " << before->segments_in_cache;
        }
    });
    free_all(blocks);
    EXPECT_TRUE(asking_lanes::wait_until(asking_lanes::patience, [&] { return h().trim().ok(); }));
    expect_empty();
}

TEST_P(heap_failures_while_held, are_reported_when_it_runs_no_more) {
    const failure_reports seen;
    EXPECT_TRUE(h().on_failure(seen.taker()).ok());
    heap_service_peer::stop(h());
    EXPECT_EQ(allocate_one(segments(2)).address, 0u);
    const std::vector<failure> all = seen.wait_for(1);
    ASSERT_EQ(all.size(), 1u);
    expect_numbers(all[0], segments(2), false);
    EXPECT_EQ(all[0].now.largest_free, all[0].now.committed - segments(3));
    EXPECT_TRUE(h().on_failure({}).ok());
    drop();
}

}  // namespace
}  // namespace orchard::test
