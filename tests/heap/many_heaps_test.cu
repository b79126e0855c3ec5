// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Many heaps: in one process, one after another, in two processes at once, and alive when the process ends.

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/asking_lanes.cuh"
#include "tests/support/heap_fixture.hpp"
#include "uvm/memory/memory_driver.hpp"
#if ORCHARD_HAS_CUDA
#include "device/simt/current_device.hpp"
#endif

namespace orchard::test {
namespace {

#if ORCHARD_HAS_CUDA
using on_gpu = simt::current_device;
#else
struct on_gpu {
    explicit on_gpu(int) {}
};
#endif

class heaps : public ::testing::TestWithParam<heap_case> {
protected:
    void SetUp() override {
        if (const auto choice = choose_device(GetParam().device); !choice.ok()) {
            GTEST_SKIP() << "needs a GPU: " << choice.status().message();
        }
    }
    /// A heap, and the memory that it lies in if the case supplies it. The order of the members matters: if a heap is
    /// replaced, its memory must live until it has ended.
    struct placed_heap {
        callers_memory memory;
        heap h;
    };
    static placed_heap make(int gpu = -1) {
        const on_gpu here(gpu);
        callers_memory memory;
        heap h = make_in(memory, GetParam().values());
        return {std::move(memory), std::move(h)};
    }
    static heap make_in(callers_memory& memory, const options& values) {
        auto made = make_heap(GetParam().where, values, memory);
        EXPECT_TRUE(made.ok()) << made.status();
        return *std::move(made);
    }
    /// Lets 256 threads allocate in `h`, write, and free; returns false on an error.
    static bool use(heap& h) {
        constexpr std::uint64_t n = 256;
        auto sizes = device_array<std::uint64_t>::create(h.executor(), n);
        auto blocks = device_array<block>::create(h.executor(), n);
        auto errors = device_array<simt::device_word<std::uint32_t>>::create(h.executor(), 1);
        if (!sizes.ok() || !blocks.ok() || !errors.ok()) {
            return false;
        }
        std::vector<std::uint64_t> each(n);
        for (std::uint64_t i = 0; i < n; ++i) {
            each[i] = 16 << i % 10;
        }
        bool ok = sizes->upload(each).ok();
        const simt::grid shape = simt::grid_for(n, 64);
        ok = ok && simt::launch(h.executor(), shape, allocate_each{h.ref(), sizes->data(), blocks->data(), n}).ok;
        ok = ok && simt::launch(h.executor(), shape, stamp_each{blocks->data(), n}).ok;
        ok = ok && simt::launch(h.executor(), shape, verify_each{blocks->data(), n, errors->data()}).ok;
        ok = ok && simt::launch(h.executor(), shape, free_each{h.ref(), blocks->data(), n}).ok;
        std::array<simt::device_word<std::uint32_t>, 1> wrong{};
        ok = ok && errors->download(wrong).ok() && wrong[0].load<simt::order::relaxed>() == 0;
        return ok && h.validate().ok();
    }
};
/// Every backing and all memory of the caller's, each with the default segment cache and mailbox.
std::vector<heap_case> cases_of_many() {
    std::vector<heap_case> cases;
    for (const heap_case& c : heap_cases()) {
        if (c.cached_segments != 0 && c.capacity == segments(32)) {
            cases.push_back(c);
        }
    }
    return cases;
}
INSTANTIATE_TEST_SUITE_P(all, heaps, ::testing::ValuesIn(cases_of_many()), case_name);

TEST_P(heaps, live_side_by_side_and_end_in_any_order) {
    std::vector<placed_heap> all;
    for (int i = 0; i < 5; ++i) {
        all.push_back(make());
        EXPECT_TRUE(use(all.back().h));
    }
    for (const std::size_t gone : {std::size_t{2}, std::size_t{0}, std::size_t{2}}) {
        all.erase(all.begin() + static_cast<std::ptrdiff_t>(gone));
        for (placed_heap& each : all) {
            EXPECT_TRUE(use(each.h));
        }
    }
}

// The test leaves the calling thread's current GPU as it is, because a heap knows its own GPU.
TEST_P(heaps, of_several_devices_are_used_in_turn) {
    const bool cuda = GetParam().device == device_option::cuda;
    if (const std::size_t gpus = describe_machine().gpus.size(); cuda && gpus < 2) {
        GTEST_SKIP() << "needs two GPUs: this machine has " << gpus;
    }
    std::vector<placed_heap> all;
    for (const int gpu : {0, 1, 0, 1}) {
        all.push_back(make(cuda ? gpu : -1));
        EXPECT_EQ(all.back().h.executor().device, cuda ? gpu : -1);
    }
    for (const int current : {1, 0}) {
        const on_gpu here(cuda ? current : -1);
        for (placed_heap& each : all) {
            heap& h = each.h;
            EXPECT_TRUE(use(h));
            EXPECT_TRUE(h.trim().ok());
            EXPECT_TRUE(h.reserve(std::uint64_t{8} << 20).ok());
            EXPECT_TRUE(h.stats().ok());
            void* const p = h.allocate_on_host(1000).value_or(nullptr);
            EXPECT_TRUE(p == nullptr || h.free_on_host(p).ok());
        }
        all.erase(all.begin());
    }
}

/// Resources of the process that heaps might leak.
struct held {
    std::uint64_t threads = 0;
    std::uint64_t mappings = 0;
    std::uint64_t files = 0;
    std::uint64_t device_free = 0;
};
held held_now(bool cuda) {
    held now;
    for ([[maybe_unused]] const auto& t : std::filesystem::directory_iterator("/proc/self/task")) {
        ++now.threads;
    }
    for ([[maybe_unused]] const auto& f : std::filesystem::directory_iterator("/proc/self/fd")) {
        ++now.files;
    }
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        ++now.mappings;
    }
    if (cuda) {
        if (const auto memory = cuda_device_memory(); memory.ok()) {
            now.device_free = memory->free;
        }
    }
    return now;
}

TEST_P(heaps, a_thousand_of_them_leave_nothing_behind) {
    const bool cuda = GetParam().device == device_option::cuda;
    auto values = GetParam().values();
    values.emulated_workers = 1;  // with more, the first launch in which another has work maps stacks, and keeps them
    callers_memory memory;        // one after another lies in it
    const auto some = [&](std::uint64_t n) {
        for (std::uint64_t i = 0; i < n; ++i) {
            heap h = make_in(memory, values);
            if (i % 100 == 0) {
                EXPECT_TRUE(use(h));
            }
        }
    };
    some(20);  // resources that are allocated once exist now
    const held before = held_now(cuda);
    some(scaled(1000, 100));
    // A thread that has been joined may still be on its way out of the kernel's list.
    EXPECT_TRUE(
        asking_lanes::wait_until(asking_lanes::patience, [&] { return held_now(cuda).threads <= before.threads; }))
        << held_now(cuda).threads << " threads, " << before.threads << " before";
    const held after = held_now(cuda);
    EXPECT_EQ(after.files, before.files);
    EXPECT_LE(after.mappings, before.mappings + 20) << "one for each heap would be many more";
    // A driver may take 100 MiB for itself at some time, but a leak of heaps grows each time.
    const auto is_less = [](const held& now, const held& then) {
        return now.device_free + (std::uint64_t{64} << 20) < then.device_free;
    };
    bool lost = is_less(after, before);
    for (int again = 0; lost && again < 3; ++again) {
        const held then = held_now(cuda);
        some(scaled(1000, 100));
        lost = is_less(held_now(cuda), then);
    }
    EXPECT_FALSE(lost) << "device memory is missing after each thousand";
}

/// The exit code of a child that ran its test; a program whose filter matches no test ends with 0.
constexpr int ran_to_its_end = 77;

/// Returns the environment of this process without the variables that divide its tests among processes: a child has one
/// test, which must not fall to another.
std::vector<char*> environment_of_children() {
    std::vector<char*> kept;
    for (char** variable = environ; *variable != nullptr; ++variable) {
        const std::string_view text = *variable;
        if (!text.starts_with("GTEST_TOTAL_SHARDS=") && !text.starts_with("GTEST_SHARD_INDEX=")) {
            kept.push_back(*variable);
        }
    }
    kept.push_back(nullptr);
    return kept;
}

/// Runs the tests of this program that match `filter` in two processes at once; how each ended.
std::array<int, 2> run_twice(const std::string& filter) {
    const std::string self = std::filesystem::read_symlink("/proc/self/exe");
    std::string which = "--gtest_filter=" + filter;
    std::string also = "--gtest_also_run_disabled_tests";
    std::string name = self;
    std::array<char*, 4> arguments{name.data(), which.data(), also.data(), nullptr};
    std::vector<char*> environment = environment_of_children();
    std::array<pid_t, 2> children{};
    for (pid_t& child : children) {
        EXPECT_EQ(posix_spawn(&child, self.c_str(), nullptr, nullptr, arguments.data(), environment.data()), 0);
    }
    std::array<int, 2> ended{-1, -1};
    for (std::size_t i = 0; i < children.size(); ++i) {
        int status = 0;
        if (waitpid(children[i], &status, 0) == children[i] && WIFEXITED(status)) {
            ended[i] = WEXITSTATUS(status);
        }
    }
    return ended;
}

// The work of each of the two processes. It ends the process itself, so that this exit code proves that the work was
// done.
TEST_P(heaps, DISABLED_of_a_child) {
    {
        placed_heap mine = make();
        for (int i = 0; i < 20; ++i) {
            ASSERT_TRUE(use(mine.h));
        }
        ASSERT_TRUE(mine.h.trim().ok());
    }
    std::exit(HasFailure() ? EXIT_FAILURE : ran_to_its_end);
}

TEST_P(heaps, of_two_processes_share_a_device) {
    const std::string child = std::string("all/heaps.DISABLED_of_a_child/") + GetParam().name;
    EXPECT_EQ(run_twice(child), (std::array<int, 2>{ran_to_its_end, ran_to_its_end}));
}

using heaps_DeathTest = heaps;
INSTANTIATE_TEST_SUITE_P(all, heaps_DeathTest, ::testing::ValuesIn(cases_of_many()), case_name);

TEST_P(heaps_DeathTest, a_process_may_end_with_a_heap_that_lives) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            static placed_heap never_destroyed = make();
            // Destroyed last of all, or never, because the device's runtime may have ended by then.
            static auto* const leaked = new placed_heap(make());
            std::exit(use(never_destroyed.h) && use(leaked->h) ? 0 : 1);
        },
        ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace orchard::test
