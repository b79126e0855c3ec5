// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The calls that create a heap, made while a kernel runs and the first launch of another kernel delays all work on
// streams. Each call must end while the kernel still runs, and its resources are released later. On a GPU only, because
// nothing delays the emulated device.

#include <thread>

#include "absl/time/clock.h"
#include "tests/support/asking_lanes.cuh"
#include "tests/support/heap_fixture.hpp"
#include "uvm/memory/backing.hpp"
#include "uvm/memory/ended_drivers.hpp"

namespace orchard::test {
namespace {

using shared_word = simt::host_word<std::uint64_t>;

/// Says that it runs, and ends when the host lets it, or after 20 s.
struct run_until_let_go {
    shared_word* begun;
    shared_word* go;

    static constexpr std::uint64_t deadline_ns = 20'000'000'000;

    ORCHARD_FN void operator()(simt::thread_position) const {
        if (simt::lane_id() != 0) {
            return;
        }
        begun->store<simt::order::relaxed>(1);
        const std::uint64_t began = simt::clock_ns();
        while (go->load<simt::order::relaxed>() == 0 && simt::clock_ns() - began < deadline_ns) {
            simt::pause(1000);
        }
    }
};

/// Never preloaded, so that its first launch has to load it.
struct loaded_at_its_launch {
    shared_word* to;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.global_thread() == 0) {
            to->store<simt::order::relaxed>(1);
        }
    }
};

class creation_deadline : public ::testing::TestWithParam<device_option> {
protected:
    static constexpr absl::Duration patience = absl::Milliseconds(200);
    static constexpr std::uint64_t bytes = 8 << 20;

    void SetUp() override {
        const auto choice = choose_device(GetParam());
        if (!choice.ok()) {
            GTEST_SKIP() << "needs a GPU: " << choice.status().message();
        }
        on_.kind = choice->kind;
        on_.device = choice->gpu;
        auto driver = make_cuda_driver();
        ASSERT_TRUE(driver.ok()) << driver.status();
        driver_ = *std::move(driver);
        beside_ = on_;
        beside_.stream = driver_->stream();
        const auto memory = driver_->allocate_host_visible(3 * sizeof(shared_word));
        ASSERT_TRUE(memory.ok()) << memory.status();
        words_ = static_cast<shared_word*>(*memory);
        ASSERT_TRUE(simt::preload<run_until_let_go>(on_).ok);
    }

    /// Expects OK or an error that contains a remedy. Counts the errors.
    void expect_in_time(const absl::Status& status, const char* what) {
        EXPECT_FALSE(over_.load()) << what << " waited for the kernel";
        if (!status.ok()) {
            ++late_;
            EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << what << ": " << status;
            EXPECT_NE(status.message().find("heap::preload"), std::string_view::npos) << what << ": " << status;
        }
    }
    /// Makes, uses and ends what a heap has, as its creation does.
    void create_and_end() {
        auto driver = make_cuda_driver(patience);
        expect_in_time(driver.status(), "making a driver");
        if (!driver.ok()) {
            return;
        }
        auto memory = make_elastic_backing(*std::move(driver), {segments(64), segments(4), 0});
        ASSERT_TRUE(memory.ok()) << memory.status();
        const commit_outcome grown = (*memory)->commit({segment_index{0}, 2});
        EXPECT_TRUE(grown.ok()) << "growth waits for nothing: " << grown.status;
        const auto cleared = (*memory)->allocate_metadata(bytes);
        expect_in_time(cleared.status(), "clearing metadata");
        if (cleared.ok()) {
            const std::uint64_t one = 1;
            expect_in_time((*memory)->write(*cleared, &one, sizeof(one)), "writing");
            std::uint64_t two[2] = {};
            expect_in_time((*memory)->read(two, *cleared, sizeof(two)), "reading");
        }
        memory->reset();
        expect_in_time(absl::OkStatus(), "the end");
    }

    simt::executor on_;
    simt::executor beside_;  ///< another stream
    std::unique_ptr<memory_driver> driver_;
    shared_word* words_ = nullptr;
    std::atomic<bool> over_{false};
    int late_ = 0;
};
INSTANTIATE_TEST_SUITE_P(all, creation_deadline, ::testing::Values(device_option::cuda),
                         [](const auto&) { return "cuda"; });

TEST_P(creation_deadline, holds_while_the_first_launch_of_a_kernel_waits) {
    simt::launch_result ran;
    simt::launch_result loaded;
    std::jthread kernel([&] {
        ran = simt::launch(on_, {1, 32}, run_until_let_go{&words_[0], &words_[1]});
        over_.store(true);
    });
    const bool runs =
        asking_lanes::wait_until(absl::Seconds(10), [&] { return words_[0].load<simt::order::relaxed>() != 0; });
    std::jthread launcher([&] { loaded = simt::launch(beside_, {1, 32}, loaded_at_its_launch{&words_[2]}); });
    absl::SleepFor(absl::Milliseconds(60));  // the launch is in progress by now; if it is not, nothing is delayed
    if (runs) {
        for (int i = 0; i < 3; ++i) {
            create_and_end();
        }
    }
    words_[1].store<simt::order::relaxed>(1);
    kernel.join();
    launcher.join();
    EXPECT_TRUE(runs) << "the kernel did not begin";
    EXPECT_TRUE(ran.ok) << ran.error;
    EXPECT_TRUE(loaded.ok) << loaded.error;
    RecordProperty("calls_that_met_their_deadline", late_);

    // Kept drivers that have become idle are destroyed without a fault, and all calls work again.
    over_.store(false);
    late_ = 0;
    EXPECT_TRUE(asking_lanes::wait_until(absl::Seconds(10), [] { return detail::release_ended_drivers() == 0; }));
    create_and_end();
    EXPECT_EQ(late_, 0);
    EXPECT_TRUE(simt::launch(beside_, {1, 32}, loaded_at_its_launch{&words_[2]}).ok);
}

}  // namespace
}  // namespace orchard::test
