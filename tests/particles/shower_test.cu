// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A particle shower in a heap and in a pool, against a plain loop on the host.

#include <gmock/gmock.h>

#include "examples/particles/shower_run.hpp"
#include "tests/support/hardened_fixture.hpp"
#include "tests/support/run_command.hpp"

namespace orchard::examples {
namespace {

using test::name_of_device;
using testing::HasSubstr;

shower_options small() {
    shower_options o;
    o.primaries = 40;
    o.rule.energy_kev = 20'000;
    o.track_bytes = 512;
    return o;
}

options on(device_option device, std::uint64_t capacity, std::uint64_t host_budget) {
    options o;
    o.device = device;
    o.backing = backing_option::elastic;
    o.capacity = capacity;
    o.host_budget = host_budget;
    o.move_unit = host_budget != 0 ? 2 << 20 : 0;
    o.commit_ahead = 0;
    o.cached_segments = 0;
    o.emulated_workers = 2;
    return o;
}

TEST(shower_rule, loses_no_energy) {
    const shower_rule rule{.seed = 3, .energy_kev = 5'000};
    for (std::uint64_t i = 0; i < 100; ++i) {
        particle p = rule.primary(i);
        for (bool ends = false; !ends;) {
            const shower_step s = rule.next(p);
            ASSERT_EQ(p.energy_kev, s.deposited_kev + s.after.energy_kev + s.secondaries * s.secondary_kev);
            ASSERT_EQ(s.after.step, p.step + 1);
            ASSERT_LT(s.after.layer, shower_layers);
            ASSERT_LE(s.secondaries, most_secondaries);
            ends = s.ends;
            p = s.after;
        }
        EXPECT_EQ(p.energy_kev, 0u);
    }
}

TEST(shower_rule, deposits_all_energy_on_the_host) {
    const shower_options o = small();
    const shower_totals all = run_on_host(o).totals;
    std::uint64_t sum = 0;
    for (const std::uint64_t kev : all.deposited_kev) {
        sum += kev;
    }
    EXPECT_EQ(sum, o.primaries * o.rule.energy_kev);
    EXPECT_EQ(all.particles, all.ended);
    EXPECT_GT(all.particles, 10 * o.primaries);
}

TEST(shower_rule, says_how_many_tracks_there_are_at_once) {
    shower_options o = small();
    o.primaries = 3;
    o.rule.energy_kev = 10;
    EXPECT_EQ(run_on_host(o).most_tracks, 3u) << "all end in the first step";
    o.rule.energy_kev = 20'000;
    o.steps = 1'000'000;
    const host_shower all = run_on_host(o);
    EXPECT_GT(all.most_tracks, 3u);
    EXPECT_LT(all.most_tracks, all.totals.particles) << "tracks of the first kernel end in it";
}

TEST(shower_memory, that_the_host_lacks_is_one_error_with_the_remedy) {
    shower_options o = small();
    o.track_bytes = 1024;
    const std::uint64_t mib = 1 << 20;
    const auto check = [&](simt::device_kind device, std::uint64_t capacity, std::uint64_t host_budget,
                           std::uint64_t slots, std::uint64_t have) {
        return check_shower_memory(o, 8192, on(device_option::automatic, capacity, host_budget), device, slots, have);
    };
    const auto emulated = simt::device_kind::emulated;
    const auto cuda = simt::device_kind::cuda;
    EXPECT_TRUE(check(emulated, 2 * mib, 30 * mib, 0, 8 * mib).ok());
    const absl::Status lacks = check(emulated, 2 * mib, 30 * mib, 0, 8 * mib - 1);
    EXPECT_TRUE(absl::IsResourceExhausted(lacks));
    EXPECT_THAT(std::string(lacks.message()),
                HasSubstr("the shower of 8192 tracks of 1024 B at once needs 0.0 GiB of host memory"));
    EXPECT_THAT(std::string(lacks.message()),
                HasSubstr("give fewer --primaries, less --energy, smaller --track-bytes"));
    EXPECT_TRUE(check(emulated, 2 * mib, mib, 0, 3 * mib).ok()) << "the heap takes no more than its budgets";
    EXPECT_TRUE(check(cuda, 2 * mib, 30 * mib, 0, 6 * mib).ok()) << "the rest lies on the GPU";
    EXPECT_FALSE(check(cuda, 2 * mib, 30 * mib, 0, 6 * mib - 1).ok());
    EXPECT_TRUE(check(cuda, 16 * mib, 30 * mib, 1 << 20, 0).ok());
    EXPECT_THAT(std::string(check(emulated, 8 * mib, 0, 10'000, 8 * mib).message()),
                HasSubstr("give a smaller --pool"));
}

class shower : public test::on_each_device {};
INSTANTIATE_TEST_SUITE_P(all, shower, testing::Values(device_option::emulated, device_option::cuda), name_of_device);

TEST_P(shower, goes_beyond_the_device_and_comes_back) {
    auto h = heap::create(on(GetParam(), 4 << 20, 64 << 20));
    ASSERT_TRUE(h.ok()) << h.status();
    command_line::progress bar(false);
    shower_options o = small();
    o.track_bytes = 4096;
    const auto r = run_in_heap(*h, o, bar);
    ASSERT_TRUE(r.ok()) << r.status();
    EXPECT_TRUE(r->is_complete) << r->why;
    EXPECT_EQ(r->totals, run_on_host(o).totals);
    EXPECT_EQ(r->wrong, 0u);
    EXPECT_GT(r->peak_alive * o.track_bytes, 4u << 20);
    EXPECT_GE(run_on_host(o).most_tracks, r->peak_alive);
    EXPECT_LE(run_on_host(o).most_tracks, 2 * r->peak_alive);
    EXPECT_TRUE(std::ranges::any_of(r->passes, [](const shower_pass& p) { return p.host_bytes != 0; }));
    EXPECT_EQ(r->passes.back().alive, 0u);
    EXPECT_TRUE(h->validate().ok());
    EXPECT_EQ(h->stats()->committed_bytes, 0u);
}

TEST_P(shower, ends_with_the_first_request_without_memory_and_loses_nothing) {
    auto h = heap::create(on(GetParam(), 4 << 20, 0));
    ASSERT_TRUE(h.ok()) << h.status();
    command_line::progress bar(false);
    shower_options o = small();
    o.track_bytes = 4096;
    const auto r = run_in_heap(*h, o, bar);
    ASSERT_TRUE(r.ok()) << r.status();
    EXPECT_FALSE(r->is_complete);
    EXPECT_NE(r->refused, 0u);
    EXPECT_THAT(r->why, HasSubstr("budget"));
    EXPECT_EQ(r->wrong, 0u);
    EXPECT_TRUE(h->validate().ok());
    EXPECT_EQ(h->stats()->committed_bytes, 0u) << "all tracks were freed";
}

TEST_P(shower, in_a_pool_is_the_same_if_the_pool_is_large_enough) {
    const auto device = choose_device(GetParam());
    ASSERT_TRUE(device.ok());
    simt::executor executor;
    executor.kind = device->kind;
    executor.workers = 2;
    command_line::progress bar(false);
    const shower_options o = small();
    const auto whole = run_in_pool(executor, 20'000, o, bar);
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_TRUE(whole->is_complete);
    EXPECT_EQ(whole->totals, run_on_host(o).totals);
    EXPECT_EQ(whole->wrong, 0u);
    const auto ended = run_in_pool(executor, whole->peak_alive / 2, o, bar);
    ASSERT_TRUE(ended.ok()) << ended.status();
    EXPECT_FALSE(ended->is_complete);
    EXPECT_LE(ended->peak_alive, whole->peak_alive / 2);
    // Slots are used again: many more particles than slots.
    const auto tight = run_in_pool(executor, whole->peak_alive * 5 / 2, o, bar);
    ASSERT_TRUE(tight.ok()) << tight.status();
    EXPECT_TRUE(tight->is_complete);
    EXPECT_GT(tight->totals.particles, whole->peak_alive * 5 / 2);
    EXPECT_TRUE(absl::IsInvalidArgument(run_in_pool(executor, 0, o, bar).status()));
}

TEST(particles_command, runs_and_says_what_a_pool_would_do) {
    const auto [code, text] = test::run_emulated(
        "particles", {"--primaries", "30", "--energy", "30", "--track-bytes", "4096", "--capacity", "4MiB"});
    EXPECT_EQ(code, 0) << text;
    EXPECT_THAT(text, HasSubstr("passed  same sums as on the host"));
    EXPECT_THAT(text, HasSubstr("passed  memory of the host was used"));
    EXPECT_THAT(text, HasSubstr("passed  a fixed pool ends too early"));
}

TEST(particles_command, fails_where_the_heap_is_too_small) {
    const auto [code, text] = test::run_emulated("particles", {"--primaries", "30", "--energy", "30", "--track-bytes",
                                                               "4096", "--capacity", "4MiB", "--host-budget", "0"});
    EXPECT_EQ(code, 1);
    EXPECT_THAT(text, HasSubstr("FAILED  followed to their ends"));
    EXPECT_THAT(text, HasSubstr("the heap ran short in kernel"));
}

TEST(particles_command, says_before_the_start_that_the_host_has_too_little_memory) {
    if (available_host_bytes() >= std::uint64_t{1} << 40) {
        GTEST_SKIP() << "this machine has memory for the largest shower";
    }
    const auto [code, text] =
        test::run_emulated("particles", {"--primaries", "16777216", "--track-bytes", "65536", "--quiet"});
    EXPECT_NE(code, 0);
    EXPECT_EQ(std::ranges::count(text, '\n'), 1) << text;
    EXPECT_THAT(text, HasSubstr("the shower of 16777216 tracks of 65536 B at once needs 1024.0 GiB of host memory"));
    EXPECT_THAT(text, HasSubstr("give fewer --primaries"));
}

TEST(particles_command, refuses_what_makes_no_sense) {
    test::expect_refused(
        "particles",
        {{"--track-bytes", "100"}, {"--track-bytes", "16"}, {"--primaries", "0"}, {"--energy", "-1"}, {"--pool", "0"}});
}

}  // namespace
}  // namespace orchard::examples
