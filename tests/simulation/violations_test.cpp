// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Faults of a program are found, and reported in an understandable form.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "device/simt/block.cuh"
#include "tests/simulation/rig.hpp"

namespace orchard::simt::explore {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string violation_of(const std::vector<block_shape>& blocks, const std::function<void(thread_position)>& body) {
    calm_simulation calm;
    calm.s.add_kernel(blocks, body);
    EXPECT_FALSE(calm.s.run());
    EXPECT_FALSE(calm.s.run()) << "a run that has failed does not go on";
    return calm.s.result().violation;
}

TEST(Masks, MustNameTheirCaller) {
    const std::string said = violation_of({{2}}, [](thread_position at) { sync(at.thread == 1 ? 1u : 2u); });
    EXPECT_THAT(said, HasSubstr("block 0, thread 0"));
    EXPECT_THAT(said, HasSubstr("mask 0x00000002, which does not name its caller, lane 0"));
}

TEST(Masks, MustNameLanesOfTheWarp) {
    const std::string said = violation_of({{2}}, [](thread_position) { (void)ballot(0xf, true); });
    EXPECT_THAT(said, HasSubstr("ballot"));
    EXPECT_THAT(said, HasSubstr("names lanes 0x0000000c, which this warp of 2 lanes does not have"));
}

TEST(Masks, MustHoldTheSourceOfAShuffle) {
    const std::string said = violation_of({{2}}, [](thread_position at) { (void)shuffle(1u << at.thread, 5u, 1); });
    EXPECT_THAT(said, HasSubstr("reads from lane 1, which is not in its mask 0x00000001"));
}

TEST(Masks, LanesThatHaveEndedAreNotWaitedFor) {
    const std::string late = violation_of({{2}}, [](thread_position at) {
        if (at.thread == 1) {
            pause(100);
            sync(3);
        }
    });
    EXPECT_THAT(late, HasSubstr("names lanes 0x00000001, which have ended"));
    const std::string early = violation_of({{2}}, [](thread_position at) {
        if (at.thread == 0) {
            sync(3);
        }
    });
    EXPECT_THAT(early, HasSubstr("block 0, thread 1 (warp 0, lane 1) ended while others wait for it"));
    EXPECT_THAT(early, HasSubstr("missing 0x00000002 ended"));
}

TEST(Blocks, ThreadsThatHaveEndedAreNotWaitedFor) {
    const std::string late = violation_of({{1, 1}}, [](thread_position at) {
        if (at.thread != 0) {
            pause(100);
            sync_in_block();
        }
    });
    EXPECT_THAT(late, HasSubstr("b0.w1.l0: waits for the threads of its block, one of which has left the kernel"));
    const std::string early = violation_of({{1, 1}}, [](thread_position at) {
        if (at.thread == 0) {
            sync_in_block();
        }
    });
    EXPECT_THAT(early, HasSubstr("b0.w1.l0 left the kernel while 1 threads wait for its block\n"));
    EXPECT_THAT(early, HasSubstr("b0.w0.l0  waiting for a block at sum_in_block ("));
}

TEST(Deadlock, NamesEachActorItsPlaceAndWhatItWaitsFor) {
    int sync_line = 0;
    int wait_line = 0;
    host32 door{0};
    calm_simulation calm;
    calm.s.name_words(&door, sizeof(door), "door");
    calm.s.add_host("keeper", [&] {
        wait_line = __LINE__ + 1;
        door.wait(0);
    });
    calm.s.add_kernel({{3}}, [&](thread_position at) {
        if (at.thread == 1) {
            (void)ballot(3, true);
        } else if (at.thread == 0) {
            sync_line = __LINE__ + 1;
            sync(3);
        }
    });
    EXPECT_FALSE(calm.s.run());
    const std::string& said = calm.s.result().violation;
    EXPECT_THAT(said, StartsWith("deadlock: no actor can go on\n"));
    EXPECT_THAT(said, HasSubstr("keeper    waiting for a word at wait (" + here(__FILE__, wait_line) + "), door\n"));
    EXPECT_THAT(said, HasSubstr("b0.w0.l0  waiting for lanes  at sync (" + here(__FILE__, sync_line) +
                                "), mask 0x00000003, missing 0x00000002\n"));
    EXPECT_THAT(said, HasSubstr("b0.w0.l1  waiting for lanes  at ballot ("));
    EXPECT_THAT(said, ::testing::Not(HasSubstr("b0.w0.l2"))) << "an actor that has ended waits for nothing";
}

TEST(Deadlock, AWordWithoutANameIsNumbered) {
    host32 first{0};
    host32 door{0};
    calm_simulation calm;
    calm.s.add_host("keeper", [&] {
        (void)first.load<order::relaxed>();
        door.wait(0);
    });
    EXPECT_FALSE(calm.s.run());
    EXPECT_THAT(calm.s.result().violation, HasSubstr("word 1\n"));
}

TEST(Livelock, IsReportedAfterSoManyOperations) {
    settings how = plain_settings();
    how.most_points = 500;
    word32 flag{0};
    calm_simulation calm(how);
    calm.s.add_host("other", [&] { pause(4'000'000'000u); });
    calm.s.add_kernel({{1}}, [&](thread_position) {
        while (flag.load<order::relaxed>() == 0) {
            pause(100);
        }
    });
    EXPECT_FALSE(calm.s.run());
    const std::string& said = calm.s.result().violation;
    EXPECT_THAT(said, StartsWith("livelock: no end after 500 operations\n"));
    EXPECT_THAT(said, HasSubstr("b0.w0.l0  ready              at "));
    EXPECT_THAT(said, HasSubstr("violations_test.cpp:"));
    EXPECT_THAT(said, HasSubstr("other     sleeping           at pause ("));
    EXPECT_THAT(said, HasSubstr(" ns more\n"));
    EXPECT_EQ(calm.s.result().points, 501u);
}

TEST(Livelock, WhoLooksOnlyAtTheClockGetsOnOrIsReported) {
    settings how = plain_settings();
    how.most_points = 500;
    calm_simulation calm(how);
    calm.s.add_host("short", [&] {
        const std::uint64_t start = clock_ns();
        while (clock_ns() < start + 1000) {
        }
    });
    EXPECT_TRUE(calm.s.run()) << calm.s.result().violation;
    calm.s.add_host("for ever", [&] {
        for (;;) {
            (void)clock_ns();
        }
    });
    EXPECT_FALSE(calm.s.run());
    EXPECT_THAT(calm.s.result().violation, HasSubstr("for ever  ready"));
}

TEST(Livelock, ADaemonThatOnlyNotifiesIsReportedToo) {
    settings how = plain_settings();
    how.most_points = 500;
    host32 door{0};
    calm_simulation calm(how);
    calm.s.add_daemon("bell", [&] {
        for (;;) {
            door.notify_all();
        }
    });
    calm.s.add_host("keeper", [&] { door.wait(0); });
    EXPECT_FALSE(calm.s.run());
    EXPECT_THAT(calm.s.result().violation, StartsWith("livelock"));
}

TEST(Checks, EndTheRunAtOnceInAnActor) {
    bool went_on = false;
    calm_simulation calm;
    calm.s.add_kernel({{2}}, [&](thread_position at) {
        if (at.thread == 0) {
            pause(10);
            went_on = true;
        }
        calm.s.check(at.thread == 0, "lane 1 is not wanted");
        went_on = true;
    });
    EXPECT_FALSE(calm.s.run());
    EXPECT_EQ(calm.s.result().violation, "b0.w0.l1: lane 1 is not wanted");
    EXPECT_FALSE(went_on);
    calm.s.check(false, "too late");
    EXPECT_EQ(calm.s.result().violation, "b0.w0.l1: lane 1 is not wanted") << "the first one is kept";
}

TEST(Checks, OutsideAreTheScenariosOwn) {
    calm_simulation calm;
    EXPECT_TRUE(calm.s.run());
    calm.s.check(true, "never said");
    EXPECT_TRUE(calm.s.result().ok());
    calm.s.check(false, "two are missing");
    EXPECT_EQ(calm.s.result().violation, "two are missing");
    EXPECT_FALSE(calm.s.run());
}

TEST(Exceptions, OfAnActorAreViolations) {
    EXPECT_EQ(violation_of({{1}}, [](thread_position) { throw std::runtime_error("no more apples"); }),
              "b0.w0.l0 threw an exception: no more apples");
    EXPECT_EQ(violation_of({{1}}, [](thread_position) { throw 5; }), "b0.w0.l0 threw what is no std::exception");
    EXPECT_EQ(violation_of({{1}}, [](thread_position) { stop_kernel("a trap"); }),
              "b0.w0.l0 threw an exception: a trap");
}

TEST(Ownership, FindsAnOverlap) {
    std::array<char, 64> memory{};
    calm_simulation calm;
    calm.s.name_words(memory.data(), memory.size(), "memory");
    calm.s.add_kernel({{2}}, [&](thread_position at) {
        calm.s.own(memory.data() + at.thread * 15, 16, "16 B");
        pause(100);
        calm.s.disown(memory.data() + at.thread * 15);
    });
    EXPECT_FALSE(calm.s.run());
    EXPECT_EQ(calm.s.result().violation,
              "b0.w0.l1: was given 16 B &memory+15, which overlaps 16 B &memory+0 of b0.w0.l0");
}

TEST(Ownership, NeighboursAndSuccessorsDoNotOverlap) {
    with_seeds(20, {}, [](simulation& s) {
        std::array<char, 64> memory{};
        s.add_kernel({{2, 2}}, [&](thread_position at) {
            const std::size_t place = (at.thread / 32 * 2 + at.thread % 32) * 16;
            for (int i = 0; i < 3; ++i) {
                s.own(&memory[place], 16, "16 B");
                pause(100);
                s.disown(&memory[place]);
            }
        });
        EXPECT_TRUE(s.run()) << s.result().violation;
        EXPECT_EQ(s.owned(), 0u);
    });
}

TEST(Ownership, WhatNobodyOwnsIsNotGivenBack) {
    std::array<char, 16> memory{};
    EXPECT_EQ(violation_of({{1}},
                           [&](thread_position) {
                               static_cast<simulation*>(emulated::current_simulation)->disown(memory.data());
                           }),
              "b0.w0.l0: gives back what no actor owns");
}

TEST(Ownership, OfTheScenarioItself) {
    std::array<char, 16> memory{};
    calm_simulation calm;
    calm.s.name_words(memory.data(), memory.size(), "memory");
    calm.s.own(memory.data(), 16, "the whole");
    calm.s.add_host("host", [&] { calm.s.own(&memory[8], 1, "a byte"); });
    EXPECT_FALSE(calm.s.run());
    EXPECT_EQ(calm.s.result().violation,
              "host: was given a byte &memory+8, which overlaps the whole &memory+0 of the scenario");
}

}  // namespace
}  // namespace orchard::simt::explore
