// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Calls of an application that may wait for a kernel which runs, while that kernel waits for its heap to grow, which
// such a call may hold up: the kernel always ends, each request with memory or with `commit_blocked`. On a GPU only:
// the emulated device has no such calls.

#include <unistd.h>

#include <thread>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "tests/deadlock/cuda_calls.hpp"
#include "tests/deadlock/kernel_graph.hpp"
#include "tests/support/heap_fixture.hpp"
#include "uvm/memory_driver.hpp"

namespace orchard::test {
namespace {

constexpr std::uint32_t warps = 64;
constexpr std::uint32_t rounds = 12;
constexpr absl::Duration timeout = absl::Seconds(2);

/// Of calls that leave something until the kernel has ended: what one leaves, how many there are at most, and how far
/// they are apart, so that together they last about as long as a kernel that nothing holds up.
constexpr std::uint64_t bytes_a_call = 16 << 20;
constexpr int most_calls = 64;
constexpr absl::Duration apart = absl::Milliseconds(2);

/// What the warps say, in device memory that the host copies from.
struct progress {
    simt::device_word<std::uint64_t> begun;
    simt::device_word<std::uint64_t> blocks;
    simt::device_word<std::uint64_t> nulls;
    simt::device_word<std::uint64_t> longest_ns;
};

/// Each warp's first lane asks for a segment after the other, and keeps them: the heap has to grow all the time.
struct keep_growing {
    heap_ref heap;
    progress* seen;

    ORCHARD_FN void operator()(simt::thread_position) const {
        if (simt::lane_id() != 0) {
            return;
        }
        seen->begun.fetch_add<simt::order::relaxed>(1);
        for (std::uint32_t i = 0; i < rounds; ++i) {
            const std::uint64_t began = simt::clock_ns();
            auto* p = static_cast<std::uint64_t*>(heap.malloc(segment_bytes));
            seen->longest_ns.raise<simt::order::relaxed>(simt::clock_ns() - began);
            (p != nullptr ? seen->blocks : seen->nulls).fetch_add<simt::order::relaxed>(1);
            if (p != nullptr) {
                *p = i;
            }
            for (int wait = 0; wait < 200; ++wait) {
                simt::pause(50'000);
            }
        }
    }
};

/// Never preloaded, so that its first launch has to load it.
struct never_loaded_before {
    std::uint64_t* to;
    ORCHARD_FN void operator()(simt::thread_position at) const { to[at.global_thread()] = 1; }
};

class blocking_calls : public ::testing::TestWithParam<device_option> {
protected:
    void SetUp() override {
        if (const auto choice = choose_device(GetParam()); !choice.ok()) {
            GTEST_SKIP() << "needs a GPU: " << choice.status().message();
        }
        options values;
        values.device = device_option::cuda;
        values.backing = backing_option::elastic;
        values.capacity = segments(warps * rounds + 256);
        values.extent = values.most_extent = segments(2);
        values.commit_ahead = 0;
        values.request_timeout = timeout;
        auto made = heap::create(values);
        ASSERT_TRUE(made.ok()) << made.status();
        heap_.emplace(*std::move(made));
        auto driver = make_cuda_driver();
        ASSERT_TRUE(driver.ok()) << driver.status();
        driver_ = *std::move(driver);
        other_ = heap_->executor();
        other_.stream = driver_->stream();
        const auto shared = driver_->allocate(sizeof(progress));
        ASSERT_TRUE(shared.ok()) << shared.status();
        seen_ = static_cast<progress*>(*shared);
        ASSERT_TRUE(heap_->preload<keep_growing>().ok());
    }
    std::uint64_t read(const simt::device_word<std::uint64_t>& from) {
        simt::device_word<std::uint64_t> word{0};
        EXPECT_TRUE(driver_->read(static_cast<void*>(&word), static_cast<const void*>(&from), sizeof(word)).ok());
        return word.load<simt::order::relaxed>();
    }
    simt::device_word<std::uint64_t>* make_word() {
        const auto made = driver_->allocate(sizeof(simt::device_word<std::uint64_t>));
        EXPECT_TRUE(made.ok()) << made.status();
        return made.ok() ? static_cast<simt::device_word<std::uint64_t>*>(*made) : nullptr;
    }
    /// Makes `call` again and again, or `most` times, while the kernel runs on the legacy default stream.
    template <class Call>
    void expect_end_beside(const char* what, Call call, int most = 0) {
        expect_end_beside_kernel_on(heap_->executor(), what, call, most);
    }
    /// The same with the kernel where one likes; then looks at how both ended.
    template <class Call>
    void expect_end_beside_kernel_on(const simt::executor& on, const char* what, Call call, int most = 0) {
        simt::launch_result result;
        std::atomic<bool> over{false};
        std::jthread kernel([&] {
            result = simt::launch(on, {warps, 32}, keep_growing{heap_->ref(), seen_});
            over.store(true);
        });
        while (read(seen_->begun) == 0 && !over.load()) {
            absl::SleepFor(absl::Milliseconds(1));
        }
        absl::Duration longest;
        int calls = 0;
        while (!over.load() && (most == 0 || calls < most)) {
            const absl::Time began = absl::Now();
            call();
            longest = std::max(longest, absl::Now() - began);
            ++calls;
            if (most != 0) {
                absl::SleepFor(apart);
            }
        }
        kernel.join();
        EXPECT_TRUE(result.ok) << result.error;
        EXPECT_GT(calls, 0);
        EXPECT_EQ(read(seen_->blocks) + read(seen_->nulls), std::uint64_t{warps} * rounds);
        std::string reason = "none";
        if (read(seen_->nulls) != 0) {
            ASSERT_TRUE(heap_->last_failure().has_value());
            EXPECT_EQ(heap_->last_failure()->reason, failure_reason::commit_blocked);
            reason = name_of(heap_->last_failure()->reason);
        }
        EXPECT_TRUE(heap_->validate().ok()) << heap_->validate();
        RecordProperty("call", what);
        RecordProperty("calls", calls);
        RecordProperty("longest_call_ms", absl::StrFormat("%.1f", absl::ToDoubleMilliseconds(longest)));
        RecordProperty("longest_request_ms",
                       absl::StrFormat("%.1f", static_cast<double>(read(seen_->longest_ns)) / 1e6));
        RecordProperty("nulls", static_cast<int>(read(seen_->nulls)));
        RecordProperty("reason", reason);
    }

    std::optional<heap> heap_;
    std::unique_ptr<memory_driver> driver_;
    simt::executor other_;  ///< another stream than the kernel's
    progress* seen_ = nullptr;
};

std::string name_of_gpu(const ::testing::TestParamInfo<device_option>&) { return "cuda"; }
INSTANTIATE_TEST_SUITE_P(all, blocking_calls, ::testing::Values(device_option::cuda), name_of_gpu);

TEST_P(blocking_calls, malloc) {
    std::vector<void*> taken;
    expect_end_beside(
        "cudaMalloc",
        [&] {
            const auto p = call_malloc(bytes_a_call);
            EXPECT_TRUE(p.ok()) << p.status();
            taken.push_back(p.ok() ? *p : nullptr);
        },
        most_calls);
    for (void* p : taken) {
        EXPECT_TRUE(call_free(p).ok());
    }
}

TEST_P(blocking_calls, free) {
    std::vector<void*> taken;
    for (int i = 0; i < most_calls; ++i) {
        const auto p = call_malloc(bytes_a_call);
        ASSERT_TRUE(p.ok()) << p.status();
        taken.push_back(*p);
    }
    expect_end_beside(
        "cudaFree",
        [&] {
            EXPECT_TRUE(call_free(taken.back()).ok());
            taken.pop_back();
        },
        most_calls);
    for (void* p : taken) {
        EXPECT_TRUE(call_free(p).ok());
    }
}

TEST_P(blocking_calls, pageable_copy_beside_another_stream) {
    const auto to = driver_->allocate(8 << 20);
    ASSERT_TRUE(to.ok());
    const std::vector<char> from(8 << 20);
    expect_end_beside_kernel_on(other_, "cudaMemcpy of pageable memory, the kernel on another stream",
                                [&] { EXPECT_TRUE(call_memcpy(*to, from.data(), from.size()).ok()); });
}

// CUDA has it wait for the kernel, which is before it on the same stream.
TEST_P(blocking_calls, pageable_copy_on_the_kernels_stream) {
    const auto to = driver_->allocate(8 << 20);
    ASSERT_TRUE(to.ok());
    const std::vector<char> from(8 << 20);
    expect_end_beside("cudaMemcpy of pageable memory, the kernel on the same stream",
                      [&] { EXPECT_TRUE(call_memcpy(*to, from.data(), from.size()).ok()); });
}

TEST_P(blocking_calls, asynchronous_pageable_copy) {
    const auto to = driver_->allocate(8 << 20);
    ASSERT_TRUE(to.ok());
    const std::vector<char> from(8 << 20);
    expect_end_beside("cudaMemcpyAsync of pageable memory, and waiting for it",
                      [&] { EXPECT_TRUE(copy_to_device(other_, *to, from.data(), from.size()).ok()); });
}

TEST_P(blocking_calls, first_launch_of_a_kernel) {
    const auto to = driver_->allocate(4096);
    ASSERT_TRUE(to.ok());
    expect_end_beside("first launch of a kernel that is not loaded", [&] {
        EXPECT_TRUE(simt::launch(other_, {1, 32}, never_loaded_before{static_cast<std::uint64_t*>(*to)}).ok);
    });
}

TEST_P(blocking_calls, graph_instantiation) {
    auto* const word = make_word();
    ASSERT_NE(word, nullptr);
    kernel_graph graph(other_, word);
    ASSERT_TRUE(graph.build().ok());
    expect_end_beside(
        "instantiating a graph", [&] { EXPECT_TRUE(graph.instantiate().ok()); }, most_calls);
    for (std::size_t i = 0; i < graph.instances(); ++i) {
        const absl::Status launched = graph.launch(i);
        EXPECT_TRUE(launched.ok()) << launched;
    }
    EXPECT_EQ(read(*word), kernel_graph::nodes * graph.instances()) << "each instance is a whole graph";
}

TEST_P(blocking_calls, graph_launch) {
    auto* const word = make_word();
    ASSERT_NE(word, nullptr);
    kernel_graph graph(other_, word);
    ASSERT_TRUE(graph.build().ok());
    ASSERT_TRUE(graph.instantiate().ok());
    std::uint64_t launches = 0;
    expect_end_beside("launching a graph that was instantiated before", [&] {
        EXPECT_TRUE(graph.launch(0).ok());
        ++launches;
    });
    EXPECT_EQ(read(*word), kernel_graph::nodes * launches);
}

TEST_P(blocking_calls, all_that_is_reserved_waits_for_nothing) {
    ASSERT_TRUE(heap_->reserve(segments(warps * rounds + 64)).ok());
    expect_end_beside("cudaMalloc, cudaFree; all reserved before", [&] {
        const auto p = call_malloc(bytes_a_call);
        EXPECT_TRUE(p.ok()) << p.status();
        EXPECT_TRUE(p.ok() && call_free(*p).ok());
    });
    EXPECT_EQ(read(seen_->nulls), 0u);
}

using blocking_calls_DeathTest = blocking_calls;
INSTANTIATE_TEST_SUITE_P(all, blocking_calls_DeathTest, ::testing::Values(device_option::cuda), name_of_gpu);

TEST_P(blocking_calls_DeathTest, exit_of_the_process) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            alarm(60);  // a hang is an end, too: by a signal
            std::thread([this] {
                (void)simt::launch(heap_->executor(), {warps, 32}, keep_growing{heap_->ref(), seen_});
            }).detach();
            while (read(seen_->begun) == 0) {
                absl::SleepFor(absl::Milliseconds(1));
            }
            std::exit(0);
        },
        ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace orchard::test
