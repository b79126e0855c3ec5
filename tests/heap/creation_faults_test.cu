// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A driver of which one call fails, for each kind and each place. A heap that cannot be created leaves nothing behind,
// a heap that cannot grow at that moment grows later, and memory that a call may still access remains until that call
// has ended.

#include "tests/support/elastic_fixture.hpp"
#include "tests/support/fake_driver.hpp"
#include "tests/support/heap_service_peer.hpp"

namespace orchard::test {
namespace {

using rig::driver_call;
using rig::driver_live;
using rig::driver_script;

class heap_creation_faults : public elastic_contract {
protected:
    static constexpr std::uint64_t budget = 8;  // segments

    void SetUp() override { start_over(); }
    /// Another driver; on it, pieces are mapped by calls that can fail, as on CUDA.
    void start_over() {
        script_ = std::make_shared<driver_script>();
        script_->maps_pieces = true;
    }
    absl::StatusOr<orchard::heap> make_heap_on_it() {
        return heap_service_peer::make(values_of(budget, 2), std::make_unique<rig::fake_driver>(script_));
    }
    /// Makes `call` fail for the `nth` time that it is made from now on.
    void fail(driver_call call, int nth) { script_->fail(call, words_, nth); }

    const absl::Status words_ = absl::InternalError("the driver's own words");
    std::shared_ptr<driver_script> script_;
};
// The emulated device's alone: the driver is a fake.
INSTANTIATE_TEST_SUITE_P(all, heap_creation_faults, ::testing::Values(elastic_cases().front()), case_name);

TEST_P(heap_creation_faults, that_end_a_creation_leave_nothing) {
    for (const driver_call call :
         {driver_call::reserve, driver_call::create, driver_call::map, driver_call::set_access, driver_call::prepare,
          driver_call::allocate, driver_call::allocate_host_visible, driver_call::write}) {
        int nth = 1;
        for (bool is_made = false; !is_made; ++nth) {
            ASSERT_NO_FATAL_FAILURE(start_over());
            fail(call, nth);
            const auto made = make_heap_on_it();
            is_made = made.ok();
            if (!is_made) {
                EXPECT_EQ(made.status(), words_) << call << " " << nth;
                EXPECT_EQ(script_->live(), driver_live{}) << call << " " << nth;
            }
        }
        EXPECT_EQ(script_->count(call), static_cast<std::size_t>(nth) - 2) << "all calls of " << call << " were tried";
        EXPECT_GT(nth, 2) << call << " is made by a creation";
        EXPECT_EQ(script_->live(), driver_live{}) << "the heap that was made has ended";
    }
}

TEST_P(heap_creation_faults, that_keep_a_heap_from_growing_once_lose_nothing) {
    for (const driver_call call : {driver_call::create, driver_call::map, driver_call::set_access}) {
        bool failed = true;
        for (int nth = 1; failed; nth += static_cast<int>(scaled(1, 3))) {
            ASSERT_NO_FATAL_FAILURE(start_over());
            auto made = make_heap_on_it();
            ASSERT_TRUE(made.ok()) << made.status();
            adopt(*std::move(made));
            const std::size_t before = script_->count(call);
            fail(call, nth);
            const std::uint64_t got = fill();
            failed = script_->count(call) - before >= static_cast<std::size_t>(nth);
            EXPECT_LE(got, budget + 2) << call << " " << nth;
            if (got < budget + 2) {  // the failed request may have been sent a second time
                ASSERT_TRUE(failed && h().first_failure().has_value()) << call << " " << nth << ": " << got;
                EXPECT_EQ(h().first_failure()->reason, failure_reason::commit_failed)
                    << name_of(h().first_failure()->reason);
            }
            empty();
            EXPECT_EQ(fill(), budget + 2) << call << " " << nth << ": it was once only";
            empty();
            expect_valid("after a refusal");
            drop();
            EXPECT_EQ(script_->live(), driver_live{}) << call << " " << nth;
        }
    }
}

// A clearing or a copy that waits for a kernel may happen after its deadline, when the heap is no more.
TEST_P(heap_creation_faults, of_time_keep_memory_until_the_device_is_done) {
    for (const driver_call call : {driver_call::prepare, driver_call::write}) {
        ASSERT_NO_FATAL_FAILURE(start_over());
        const absl::Status late = absl::DeadlineExceededError("a kernel is running");
        script_->busy = true;
        script_->fail(call, late);
        EXPECT_EQ(make_heap_on_it().status(), late) << call;
        EXPECT_GT(script_->live().mappings, 0) << call;
        EXPECT_EQ(script_->count(driver_call::unmap), 0u) << call;
        const auto first = script_;
        first->busy = false;
        ASSERT_NO_FATAL_FAILURE(start_over());
        EXPECT_TRUE(make_heap_on_it().ok());
        EXPECT_EQ(first->live(), driver_live{}) << "the next heap's end finds that it is done; " << call;
    }
}

}  // namespace
}  // namespace orchard::test
