// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Simulations one after another, several at the same time on different threads, and their rejection if started in a
/// wrong place.

#include <gtest/gtest.h>

#include <array>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/simulation/rig.hpp"

namespace orchard::simt::explore {
namespace {

std::uint64_t run_counters(std::uint64_t seed) {
    const auto from = choices_of(strategy::uniform, seed);
    simulation s(*from);
    std::array<word32, 3> words{};
    s.add_daemon("daemon", [&] {
        for (;;) {
            (void)words[2].fetch_add<order::relaxed>(1);
            pause(100);
        }
    });
    s.add_kernel({{4}, {3}}, [&](thread_position at) {
        for (int i = 0; i < 5; ++i) {
            (void)words[at.block].fetch_add<order::relaxed>(1);
            const lane_mask mask = converge();
            words[at.block].store<order::release>(ballot(mask, true));
        }
    });
    EXPECT_TRUE(s.run()) << s.result().violation;
    s.end_all();
    return s.result().trace_hash;
}

std::vector<std::uint64_t> run_some() {
    std::vector<std::uint64_t> hashes;
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
        hashes.push_back(run_counters(seed));
    }
    return hashes;
}

TEST(Threads, OneSimulationAfterAnotherIsAsTheFirst) { EXPECT_EQ(run_some(), run_some()); }

TEST(Threads, SideBySideTheyAreAsAlone) {
    const std::vector<std::uint64_t> alone = run_some();
    std::array<std::vector<std::uint64_t>, 4> found;
    std::vector<std::thread> threads;
    for (auto& f : found) {
        threads.emplace_back([&f] { f = run_some(); });
    }
    for (auto& t : threads) {
        t.join();
    }
    for (const auto& f : found) {
        EXPECT_EQ(f, alone);
    }
}

TEST(Threads, AFailedRunLeavesNothingBehindForTheNext) {
    const std::uint64_t before = run_counters(1);
    {
        calm_simulation calm;
        word32 word{0};
        calm.s.add_kernel({{2}}, [&](thread_position at) {
            (void)word.load<order::relaxed>();
            calm.s.check(at.thread == 0, "over");
            sync(3);
        });
        EXPECT_FALSE(calm.s.run());
    }
    EXPECT_EQ(emulated::current_simulation, nullptr);
    EXPECT_EQ(run_counters(1), before);
}

TEST(Threads, AnotherThreadMayNotUseIt) {
    calm_simulation calm;
    std::thread([&] {
        EXPECT_THROW((void)calm.s.run(), std::logic_error);
        EXPECT_THROW((void)calm.s.add_host("host", [] {}), std::logic_error);
        EXPECT_THROW(calm.s.check(false, "any"), std::logic_error);
        EXPECT_THROW(calm.s.own(&calm, 1, "any"), std::logic_error);
    }).join();
    EXPECT_TRUE(calm.s.run());
}

TEST(Threads, AnActorNeitherRunsNorEndsASimulation) {
    calm_simulation calm;
    calm.s.add_host("host", [&] { (void)calm.s.run(); });
    EXPECT_FALSE(calm.s.run());
    EXPECT_EQ(calm.s.result().violation, "host threw an exception: a simulation is run by an actor of a simulation");
    calm_simulation other;
    other.s.add_host("host", [&] { other.s.end_all(); });
    EXPECT_FALSE(other.s.run());
    EXPECT_EQ(other.s.result().violation, "host threw an exception: a simulation is ended by one of its actors");
}

TEST(Threads, OutsideARunTheSeamGoesToMemory) {
    calm_simulation calm;
    word32 word{0};
    word.store<order::relaxed>(1);
    EXPECT_EQ(newest(word), 1u);
    EXPECT_EQ(lane_id(), 0);
    EXPECT_EQ(calm.s.result().points, 0u);
    EXPECT_TRUE(calm.s.run());
    EXPECT_EQ(word.load<order::relaxed>(), 1u);
    EXPECT_EQ(calm.s.result().points, 0u);
}

}  // namespace
}  // namespace orchard::simt::explore
