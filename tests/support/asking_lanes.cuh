// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Lanes that repeatedly request memory from the service, and the host's view of each lane meanwhile.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "device/heap_ref.cuh"
#include "device/simt/launch.cuh"
#include "runtime/heap/heap.hpp"
#include "uvm/memory/memory_driver.hpp"

namespace orchard::test {

/// The report of one lane, in host memory; only that lane writes it. All accesses are relaxed, because each word is
/// read independently.
struct lane_report {
    using word = simt::host_word<std::uint64_t>;

    word asked;       ///< requests begun
    word answered;    ///< those of them that are over
    word nulls;       ///< those of them that got nothing
    word strange;     ///< blocks that another thread has overwritten
    word longest_ns;  ///< that a request took, by the device's clock

    [[nodiscard]] ORCHARD_FN static std::uint64_t get(const word& w) { return w.load<simt::order::relaxed>(); }
    ORCHARD_FN static void set(word& w, std::uint64_t value) { w.store<simt::order::relaxed>(value); }
};

/// Each thread repeatedly allocates a block that is too large for a page, checks that no other thread has it, and frees
/// it. It stops at the first null, at `*over`, or after `limit_ns`.
struct ask_again {
    /// 32 lanes together get 9 segments and a tail, a lane alone a tail.
    static constexpr std::uint64_t bytes = 600 << 10;
    heap_ref heap;
    lane_report* reports;
    const lane_report::word* over;
    std::uint64_t limit_ns;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        lane_report& mine = reports[at.global_thread()];
        const std::uint64_t began = simt::clock_ns();
        std::uint64_t longest = 0;
        std::uint64_t strange = 0;
        for (std::uint64_t n = 1; lane_report::get(*over) == 0; ++n) {
            const std::uint64_t asked_at = simt::clock_ns();
            if (asked_at - began > limit_ns) {
                return;
            }
            lane_report::set(mine.asked, n);
            auto* block = static_cast<word*>(heap.malloc(bytes));
            const std::uint64_t took = simt::clock_ns() - asked_at;
            longest = took > longest ? took : longest;
            lane_report::set(mine.longest_ns, longest);
            lane_report::set(mine.nulls, block == nullptr ? 1 : 0);
            lane_report::set(mine.answered, n);
            if (block == nullptr) {
                return;
            }
            strange += has_alone(block, at.global_thread() << 32 | n) ? 0 : 1;
            lane_report::set(mine.strange, strange);
            heap.free(block);
        }
    }

private:
    using word = simt::device_word<std::uint64_t>;

    /// Writes to both ends of a block, and checks a little later that the values are still there. Relaxed: no other
    /// thread should write there at all.
    ORCHARD_FN static bool has_alone(word* block, std::uint64_t tag) {
        constexpr std::uint64_t last = bytes / sizeof(word) - 1;
        block[0].store<simt::order::relaxed>(tag);
        block[last].store<simt::order::relaxed>(tag);
        simt::pause(500);
        return block[0].load<simt::order::relaxed>() == tag && block[last].load<simt::order::relaxed>() == tag;
    }
};

/// A kernel of such lanes that runs while the host's thread continues. Preload `ask_again` before.
class asking_lanes {
public:
    /// The time after which the host reports a missing event as a failure.
    static constexpr absl::Duration patience = absl::Minutes(2);

    asking_lanes(heap& h, simt::grid shape) : heap_{h} {
        auto driver = h.executor().kind == simt::device_kind::cuda ? make_cuda_driver() : make_emulated_driver();
        EXPECT_TRUE(driver.ok()) << driver.status();
        if (driver.ok()) {
            driver_ = *std::move(driver);
            launch(shape);
        }
    }
    asking_lanes(const asking_lanes&) = delete;
    asking_lanes& operator=(const asking_lanes&) = delete;
    ~asking_lanes() { end(); }

    /// The sum of all lanes' reports.
    struct totals {
        std::uint64_t nulls = 0;
        std::uint64_t strange = 0;
        std::uint64_t shortest_ns = ~std::uint64_t{0};  ///< of their longest requests
        std::uint64_t longest_ns = 0;
    };
    /// When the kernel has ended.
    [[nodiscard]] totals sum() const {
        totals all;
        for (const lane_report& r : reports_) {
            all.nulls += lane_report::get(r.nulls);
            all.strange += lane_report::get(r.strange);
            all.shortest_ns = std::min(all.shortest_ns, lane_report::get(r.longest_ns));
            all.longest_ns = std::max(all.longest_ns, lane_report::get(r.longest_ns));
        }
        return all;
    }
    /// The number of each lane's last request.
    [[nodiscard]] std::vector<std::uint64_t> asked() const {
        std::vector<std::uint64_t> numbers(reports_.size());
        std::transform(reports_.begin(), reports_.end(), numbers.begin(),
                       [](const lane_report& r) { return lane_report::get(r.asked); });
        return numbers;
    }
    /// Returns true if each lane waits for a response. A response may be in flight.
    [[nodiscard]] bool all_wait() const {
        return std::all_of(reports_.begin(), reports_.end(), [](const lane_report& r) {
            return lane_report::get(r.asked) == lane_report::get(r.answered) + 1;
        });
    }
    [[nodiscard]] bool has_ended() const { return ended_.load(std::memory_order_acquire); }

    /// Waits until each lane was answered twice more.
    [[nodiscard]] bool wait_until_each_is_served() const {
        const std::vector<std::uint64_t> before = asked();
        return wait_until(patience, [&] {
            std::size_t i = 0;
            return std::all_of(reports_.begin(), reports_.end(),
                               [&](const lane_report& r) { return lane_report::get(r.answered) >= before[i++] + 2; });
        });
    }
    /// Waits until the kernel has ended.
    [[nodiscard]] bool wait_until_ended() const {
        return wait_until(patience, [&] { return has_ended(); });
    }
    /// Stops the lanes, and waits for them. If they do not end, the heap is closed.
    void end() {
        if (!kernel_.joinable()) {
            return;
        }
        lane_report::set(*over_, 1);
        if (!wait_until_ended()) {
            ADD_FAILURE() << "there are requests that do not come to an end";
            (void)heap_.close();
        }
        kernel_.join();
        EXPECT_TRUE(result_.ok) << result_.error;
    }

    /// Looks every now and then whether `done`; false after `limit`.
    template <class Done>
    static bool wait_until(absl::Duration limit, Done done) {
        const absl::Time deadline = absl::Now() + limit;
        while (!done()) {
            if (absl::Now() > deadline) {
                return false;
            }
            absl::SleepFor(absl::Milliseconds(1));
        }
        return true;
    }

private:
    void launch(simt::grid shape) {
        const std::uint64_t lanes = std::uint64_t{shape.blocks} * shape.threads_per_block;
        const auto memory = driver_->allocate_host_visible((lanes + 1) * sizeof(lane_report));  // all zero
        ASSERT_TRUE(memory.ok()) << memory.status();
        reports_ = {static_cast<lane_report*>(*memory), lanes};
        over_ = &(reports_.data() + lanes)->asked;
        const auto limit_ns = static_cast<std::uint64_t>(absl::ToInt64Nanoseconds(2 * patience));
        kernel_ = std::thread([this, shape, kernel = ask_again{heap_.ref(), reports_.data(), over_, limit_ns}] {
            result_ = simt::launch(heap_.executor(), shape, kernel);
            ended_.store(true, std::memory_order_release);  // pairs with `has_ended`
        });
    }

    heap& heap_;
    std::unique_ptr<memory_driver> driver_;  ///< has the reports
    std::span<lane_report> reports_;
    lane_report::word* over_ = nullptr;
    simt::launch_result result_;
    std::atomic<bool> ended_{false};
    std::thread kernel_;
};

}  // namespace orchard::test
