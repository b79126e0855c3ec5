// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The driver calls of a heap while it grows, shrinks and ends. A heap's growth reaches the device only through
// memory_driver, and the driver here records each call. These tests therefore fail if a call that uses a stream is made
// while memory is handed out or released.

#include "absl/time/clock.h"
#include "tests/support/asking_lanes.cuh"
#include "tests/support/elastic_fixture.hpp"
#include "tests/support/fake_driver.hpp"
#include "tests/support/heap_service_peer.hpp"

namespace orchard::test {
namespace {

using rig::driver_call;
using rig::driver_script;

/// Each thread takes an array, in one chunk with those of its warp, writes its ends and gives it back.
struct use_arrays {
    heap_ref heap;
    std::uint64_t count;
    layout how;
    simt::device_word<std::uint32_t>* missing;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const lane_array<std::uint64_t> mine = heap.allocate_array<std::uint64_t>(count + at.thread, how);
        if (mine.empty()) {
            missing->fetch_add<simt::order::relaxed>(1);
            return;
        }
        mine[0] = at.thread;
        mine[mine.size() - 1] = at.thread;
        heap.free_array(mine);
    }
};

class heap_growth_calls : public elastic_contract {
protected:
    /// More segments than one granule of bitmaps covers (128), so that metadata also grows.
    static constexpr std::uint64_t on_device = 150;
    static constexpr std::uint64_t on_host = 10;

    void SetUp() override {
        options values = values_of(on_device, on_host);
        values.decay = absl::Milliseconds(20);
        auto made = heap_service_peer::make(values, std::make_unique<rig::fake_driver>(script_));
        ASSERT_TRUE(made.ok()) << made.status();
        adopt(*std::move(made));
    }
    void TearDown() override {
        elastic_contract::TearDown();
        drop();
        EXPECT_EQ(script_->live(), rig::driver_live{}) << "something was not given back";
    }

    /// Expects that since `mark` only calls of these kinds were made.
    void expect_no_other(std::size_t mark, const std::set<driver_call>& kinds, const char* what) {
        std::set<driver_call> others = script_->kinds_since(mark);
        EXPECT_FALSE(others.empty()) << what << " makes no calls at all";
        for (const driver_call call : kinds) {
            others.erase(call);
        }
        EXPECT_EQ(others, std::set<driver_call>{}) << "kinds of calls in " << what;
    }
    /// Returns the bytes of the heap's range for which there were calls of this kind; metadata is outside the range.
    std::uint64_t bytes_of(driver_call kind) {
        const device::heap_view view = h().ref().view();
        std::uint64_t bytes = 0;
        for (const rig::driver_record& r : script_->calls()) {
            const auto* at = static_cast<const char*>(r.at);
            bytes += r.call == kind && at >= view.base && at < view.base + segments(view.segments) ? r.bytes : 0;
        }
        return bytes;
    }
    [[nodiscard]] std::size_t metadata_maps() {
        const device::heap_view view = h().ref().view();
        const auto all = script_->calls();
        return static_cast<std::size_t>(std::ranges::count_if(all, [&](const rig::driver_record& r) {
            const auto* at = static_cast<const char*>(r.at);
            return r.call == driver_call::map && (at < view.base || at >= view.base + segments(view.segments));
        }));
    }
    /// Waits until the service has released all memory that was committed but unused.
    [[nodiscard]] bool wait_for_decay() {
        return asking_lanes::wait_until(absl::Minutes(1),
                                        [&] { return bytes_of(driver_call::map) == bytes_of(driver_call::unmap); });
    }

    const std::set<driver_call> virtual_memory{driver_call::create,        driver_call::map,   driver_call::set_access,
                                               driver_call::device_memory, driver_call::unmap, driver_call::destroy};
    std::shared_ptr<driver_script> script_ = std::make_shared<driver_script>();
};
// The emulated device's alone: the driver is a fake.
INSTANTIATE_TEST_SUITE_P(all, heap_growth_calls, ::testing::Values(elastic_cases().front()), case_name);

TEST_P(heap_growth_calls, of_growth_and_decay_are_of_virtual_memory_alone) {
    const std::size_t mark = script_->mark();
    const std::uint64_t before = bytes_of(driver_call::map);
    EXPECT_TRUE(h().reserve(segments(8)).ok());
    EXPECT_GE(bytes_of(driver_call::map), before + segments(8));
    ASSERT_TRUE(wait_for_decay());
    const std::size_t metadata_at_first = metadata_maps();
    ASSERT_EQ(fill(), on_device + on_host) << "both tiers are spent, and a request gets null";
    EXPECT_EQ(script_->live().host_bytes, segments(on_host));
    EXPECT_GT(metadata_maps(), metadata_at_first) << "metadata grew, too";
    empty();

    std::vector<std::uint64_t> sizes;
    for (std::uint64_t i = 0; i < scaled(1024, 128); ++i) {
        sizes.push_back(i % 32 < 20 ? 16 + i : i % 32 < 30 ? 5000 * (i % 32) : segments(1) + 100 * i);
    }
    // Several threads of each warp allocate more than a page, so that chunks have tails in portions.
    std::ranges::sort(sizes);
    sizes.resize(sizes.size() - sizes.size() / 32);
    const std::vector<block> blocks = allocate(sizes);  // not `cycle`, whose checks read the heap's structures
    stamp(blocks);
    expect_stamped(blocks);
    free_all(blocks);
    const auto missing = array<simt::device_word<std::uint32_t>>(1);
    for (const layout how : {layout::automatic(), layout::linear(), layout::interleaved(largest_tile)}) {
        launch({2, 64}, use_arrays{h().ref(), 10'000, how, missing.data()});
    }
    EXPECT_EQ(to_host(missing).front().load<simt::order::relaxed>(), 0u);
    expect_no_other(mark, virtual_memory, "growing, granting, spilling, freeing and giving back after decay");
}

// A trim runs kernels on the heap's stream to empty the segment cache, and reads the number of answered requests. The
// host requested it, and no growth waits for it. The release itself uses virtual-memory calls only.
TEST_P(heap_growth_calls, of_trimming_are_a_kernel_and_counters_beside_giving_back) {
    ASSERT_NO_FATAL_FAILURE(cycle({100, 5000, segments(1), segments(2), 700'000, 600'000}, 2));
    const std::size_t mark = script_->mark();
    EXPECT_TRUE(h().trim().ok());
    EXPECT_EQ(bytes_of(driver_call::map), bytes_of(driver_call::unmap));
    std::set<driver_call> of_a_trim = virtual_memory;
    of_a_trim.insert({driver_call::read, driver_call::stream});
    expect_no_other(mark, of_a_trim, "a trim");
}

TEST_P(heap_growth_calls, of_the_end_take_back_what_there_is) {
    ASSERT_EQ(fill(), on_device + on_host);
    const std::size_t mark = script_->mark();
    drop();
    expect_no_other(mark, {driver_call::unmap, driver_call::destroy, driver_call::unreserve}, "the end of a heap");
}

}  // namespace
}  // namespace orchard::test
