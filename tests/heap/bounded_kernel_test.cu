// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// How often the lanes of a kernel wait for a whole `request_timeout`. If a commit does not end, or the service's
// heartbeat stands still, only the requests that are in progress when this is detected may wait. All later requests
// fail at once. Counted, not timed: a request that is given up after its deadline is counted as abandoned.

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/support/elastic_fixture.hpp"
#include "tests/support/fake_driver.hpp"
#include "tests/support/heap_service_peer.hpp"

namespace orchard::test {
namespace {

/// Each thread makes one request, for a size that differs from its neighbours'.
struct ask_once {
    heap_ref heap;
    std::uint64_t* nulls;  ///< [thread]

    [[nodiscard]] ORCHARD_FN static std::uint64_t bytes_of(std::uint32_t thread) {
        return thread % 8 == 7 ? segment_bytes * (1 + thread % 3) : std::uint64_t{16} << thread % 14;
    }
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto thread = static_cast<std::uint32_t>(at.global_thread());
        nulls[thread] = heap.malloc(bytes_of(thread)) == nullptr ? 1 : 0;
    }
};

class heap_bounded_kernel : public elastic_contract {
protected:
    /// On a GPU there are more warps than it runs at once, so that some begin when the others have already waited.
    static simt::grid shape() {
        return GetParam().device == device_option::cuda ? simt::grid{1024, 256} : simt::grid{8, 64};
    }
    static std::uint64_t threads() { return std::uint64_t{shape().blocks} * shape().threads_per_block; }
    static std::uint64_t warps() { return threads() / simt::warp_size; }

    void SetUp() override {
        elastic_contract::SetUp();
        if (IsSkipped()) {
            return;
        }
        options values = values_of(64, 0);
        values.request_timeout = timeout;
        auto driver = real_driver();
        ASSERT_TRUE(driver.ok()) << driver.status();
        auto made = heap_service_peer::make(values, std::make_unique<rig::fake_driver>(script_, *std::move(driver)));
        ASSERT_TRUE(made.ok()) << made.status();
        adopt(*std::move(made));
    }
    /// Runs a kernel with one request for each thread, all of which must return null for reason `why`. The test's
    /// report contains the time of the kernel under `name`.
    void expect_nulls(failure_reason why, const char* name) {
        const auto nulls = array<std::uint64_t>(threads());
        const auto began = absl::Now();
        launch(shape(), ask_once{h().ref(), nulls.data()});
        RecordProperty(name, absl::FormatDuration(absl::Now() - began));
        const std::vector<std::uint64_t> all = to_host(nulls);
        EXPECT_EQ(std::count(all.begin(), all.end(), 1), static_cast<std::ptrdiff_t>(threads()));
        ASSERT_TRUE(h().last_failure().has_value());
        EXPECT_EQ(h().last_failure()->reason, why) << name_of(h().last_failure()->reason);
    }

    static constexpr absl::Duration timeout = absl::Seconds(1);  // longer than a busy machine keeps a service waiting
    std::shared_ptr<rig::driver_script> script_ = std::make_shared<rig::driver_script>();

private:
    static absl::StatusOr<std::unique_ptr<memory_driver>> real_driver() {
        return GetParam().device == device_option::cuda ? make_cuda_driver() : make_emulated_driver();
    }
};
INSTANTIATE_TEST_SUITE_P(all, heap_bounded_kernel, ::testing::ValuesIn(elastic_cases()), case_name);

TEST_P(heap_bounded_kernel, by_a_commit_that_does_not_end) {
    const std::size_t held = script_->hold(rig::driver_call::create);
    expect_nulls(failure_reason::commit_blocked, "until_it_is_known");
    const statistics before = *h().stats();
    EXPECT_LE(before.abandoned, warps()) << "at most one group of each warp waits for its deadline";
    expect_nulls(failure_reason::commit_blocked, "when_it_is_known");
    const statistics after = *h().stats();
    EXPECT_EQ(after.abandoned, before.abandoned) << "it is known, and no request waits any more";
    EXPECT_EQ(after.host_requests, before.host_requests) << "nor asks";
    script_->let_go(held);
    EXPECT_TRUE(h().trim().ok());
    EXPECT_GT(fill(), 0u);
    empty();
}

TEST_P(heap_bounded_kernel, by_a_service_that_is_silent) {
    heap_service_peer::stop(h());
    expect_nulls(failure_reason::service_not_responding, "until_it_is_known");
    const std::uint64_t before = h().stats()->abandoned;
    EXPECT_GE(before, 1u);
    EXPECT_LE(before, warps()) << "at most one group of each warp waits for its deadline";
    expect_nulls(failure_reason::service_not_responding, "when_it_is_known");
    EXPECT_EQ(h().stats()->abandoned, before) << "it is known, and no request waits any more";
    drop();  // without a service the heap cannot be checked
}

}  // namespace
}  // namespace orchard::test
