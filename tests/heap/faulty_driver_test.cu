// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A whole heap over a driver that fails, blocks, or is slow, while kernels allocate. Failed requests have the right
// reason, and all requests succeed once the driver works again.

#include <thread>

#include "tests/support/elastic_fixture.hpp"
#include "tests/support/fake_driver.hpp"
#include "tests/support/heap_service_peer.hpp"

namespace orchard::test {
namespace {

using rig::driver_call;
using rig::driver_script;

class heap_faulty_driver : public elastic_contract {
protected:
    static constexpr std::uint64_t budget = 24;  // segments
    static constexpr int many = 10'000;          // calls of the driver: more than a test makes

    void SetUp() override { remake_with(absl::Seconds(60)); }
    void TearDown() override {
        elastic_contract::TearDown();
        drop();
        EXPECT_EQ(script_->live(), rig::driver_live{}) << "something was not given back";
    }
    void remake_with(absl::Duration timeout, std::uint64_t capacity = budget, int cached = 0) {
        options values = values_of(capacity, 0);
        values.request_timeout = timeout;
        values.cached_segments = cached;
        script_ = std::make_shared<driver_script>();
        auto made = heap_service_peer::make(values, std::make_unique<rig::fake_driver>(script_));
        ASSERT_TRUE(made.ok()) << made.status();
        adopt(*std::move(made));
    }
    /// Makes all further calls of a kind fail.
    void fail_from_now_on(driver_call call, const absl::Status& how) {
        for (int i = 1; i <= many; ++i) {
            script_->fail(call, how, i);
        }
    }
    void expect_refused(failure_reason why) {
        ASSERT_TRUE(h().last_failure().has_value());
        EXPECT_EQ(h().last_failure()->reason, why) << name_of(h().last_failure()->reason);
        expect_valid("after a refusal");
    }

    std::shared_ptr<driver_script> script_;
};
// The emulated device's alone: the driver is a fake.
INSTANTIATE_TEST_SUITE_P(all, heap_faulty_driver, ::testing::Values(elastic_cases().front()), case_name);

TEST_P(heap_faulty_driver, that_has_no_memory_is_asked_again_later) {
    // Metadata uses this tier too, so the number of segments that fit is not checked.
    script_->limit(memory_tier::device, script_->live().device_bytes + segments(9));
    const std::uint64_t got = fill();
    EXPECT_GE(got, 1u);
    EXPECT_LE(got, 9u);
    expect_refused(failure_reason::commit_failed);
    empty();
    EXPECT_EQ(fill(), got) << "what was there is served again";
    empty();
    script_->limit(memory_tier::device, ~std::uint64_t{0});
    EXPECT_EQ(fill(), budget);
    empty();
}

TEST_P(heap_faulty_driver, that_cannot_make_memory_accessible_loses_nothing) {
    const rig::driver_live before = script_->live();
    fail_from_now_on(driver_call::set_access, absl::InternalError("no access"));
    EXPECT_EQ(fill(), 0u);
    expect_refused(failure_reason::commit_failed);
    EXPECT_EQ(script_->live(), before) << "what could not be used was not given back";
}

TEST_P(heap_faulty_driver, that_cannot_take_memory_back_leaves_it_in_use) {
    ASSERT_EQ(fill(), budget);
    empty();
    script_->fail(driver_call::unmap, absl::InternalError("not now"));
    EXPECT_FALSE(h().trim().ok() && h().stats()->committed_bytes == 0) << "one extent was not taken back";
    EXPECT_EQ(fill(), budget);
    empty();
    EXPECT_TRUE(h().trim().ok());
    EXPECT_EQ(h().stats()->committed_bytes, 0u);
}

TEST_P(heap_faulty_driver, that_stands_still_is_told_from_a_service_that_does) {
    ASSERT_NO_FATAL_FAILURE(remake_with(absl::Seconds(1)));
    const std::size_t held = script_->hold(driver_call::create);
    std::uint64_t got = budget;
    std::jthread kernel([&] { got = fill(); });
    script_->wait_until_reached(held);
    kernel.join();  // at its deadline; the driver's call continues
    EXPECT_EQ(got, 0u);
    ASSERT_TRUE(h().last_failure().has_value());
    EXPECT_EQ(h().last_failure()->reason, failure_reason::commit_blocked) << name_of(h().last_failure()->reason);
    script_->let_go(held);
    EXPECT_TRUE(h().trim().ok());
    EXPECT_EQ(fill(), budget);
    empty();
}

// A request for a chunk is rounded up, here to an even number of segments. While the driver stands still, it is served
// all the same if there is memory for exactly its block.
TEST_P(heap_faulty_driver, that_stands_still_does_not_refuse_what_fits_exactly) {
    ASSERT_NO_FATAL_FAILURE(remake_with(absl::Seconds(1), 200, 1));
    ASSERT_TRUE(h().reserve(segments(40)).ok());
    std::vector<block> singles;
    std::uint64_t left = 0;
    do {
        singles.push_back(allocate_one(segments(1)));
        ASSERT_NE(singles.back().address, 0u);
        const statistics s = settled_stats();
        left = s.committed_bytes / segment_bytes - s.segments_granted;
        ASSERT_GT(left, 32u) << "lengths up to 32 segments are not rounded up to more";
    } while (left % 2 == 0);
    const std::size_t held = script_->hold(driver_call::create);
    const block exact = allocate_one(segments(left));
    EXPECT_NE(exact.address, 0u) << left << " segments are free";
    script_->let_go(held);
    free_all(singles);
    free_all({exact});
}

TEST_P(heap_faulty_driver, that_is_slow_serves_all_while_memory_comes_and_goes) {
    script_->delay(std::chrono::microseconds(500));
    std::vector<std::uint64_t> sizes;
    for (std::uint64_t i = 0; i < 128; ++i) {
        sizes.push_back(i % 16 == 0 ? segments(1) - 4096 : i % 4 == 0 ? 100'000 : 16 << i % 9);
    }
    for (int round = 0; round < 4; ++round) {
        ASSERT_NO_FATAL_FAILURE(cycle(sizes));
        EXPECT_TRUE(h().trim().ok());
        EXPECT_EQ(h().stats()->committed_bytes, 0u);
    }
    EXPECT_FALSE(h().last_failure().has_value());
}

}  // namespace
}  // namespace orchard::test
