// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The life of actors: those that stop for good, daemons, one kernel after another.

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <stdexcept>

#include "device/simt/block.cuh"
#include "tests/simulation/rig.hpp"

namespace orchard::simt::explore {
namespace {

TEST(Stopping, LanesThatWaitForAStoppedOneAreNoDeadlock) {
    with_seeds(40, {}, [](simulation& s) {
        std::array<int, 4> passed{};
        int others = 0;
        s.add_kernel({{4, 2}, {2}}, [&](thread_position at) {
            if (at.block != 0 || at.thread >= 32) {
                pause(1000);
                ++others;
            } else {
                if (at.thread == 2) {
                    s.stop_for_good(s.self());
                }
                sync(at.thread == 3 ? 0x8u : 0x7u);
                ++passed[at.thread];
            }
        });
        EXPECT_TRUE(s.run()) << s.result().violation;
        EXPECT_EQ(passed, (std::array<int, 4>{0, 0, 0, 1}));
        EXPECT_EQ(others, 4) << "the rest ends";
        EXPECT_TRUE(s.run()) << "no actor is waited for any more";
    });
}

TEST(Stopping, WhoWaitsForOneThatIsHeldIsHeld) {
    calm_simulation calm;
    calm.s.add_kernel({{3}}, [&](thread_position at) {
        if (at.thread == 2) {
            calm.s.stop_for_good(calm.s.self());
        }
        sync(at.thread == 0 ? 0x3u : 0x6u);  // lane 0 waits for lane 1, which waits for lane 2
    });
    EXPECT_TRUE(calm.s.run()) << calm.s.result().violation;
}

TEST(Stopping, ThreadsThatWaitForTheirBlockAreHeld) {
    with_seeds(40, {}, [](simulation& s) {
        int passed = 0;
        s.add_kernel({{2, 2}, {1}}, [&](thread_position at) {
            if (at.block == 0 && at.thread == 33) {
                s.stop_for_good(s.self());
            }
            if (at.block == 0 && at.thread == 1) {
                sync(3);  // for lane 0, which waits for the block
            }
            sync_in_block();
            ++passed;
        });
        EXPECT_TRUE(s.run()) << s.result().violation;
        EXPECT_EQ(passed, 1);
    });
}

TEST(Stopping, ARealDeadlockBesideIsReported) {
    calm_simulation calm;
    calm.s.add_kernel({{2, 2}}, [&](thread_position at) {
        if (at.thread == 1) {
            calm.s.stop_for_good(calm.s.self());
        }
        if (at.thread == 33) {
            (void)ballot(3, true);
        } else {
            sync(3);
        }
    });
    EXPECT_FALSE(calm.s.run());
    EXPECT_NE(calm.s.result().violation.find("b0.w0.l1  stopped for good"), std::string::npos);
}

TEST(Stopping, InACollectiveItHoldsNobodyUpButNeverReturns) {
    std::array<bool, 3> passed{};
    calm_simulation calm;
    calm.s.add_kernel({{3}}, [&](thread_position at) {
        pause(at.thread == 0 ? 1 : 1000);
        sync(7);
        passed[at.thread] = true;
    });
    calm.s.add_host("host", [&] {
        pause(500);
        calm.s.stop_for_good(calm.s.lanes()[0]);
    });
    EXPECT_TRUE(calm.s.run()) << calm.s.result().violation;
    EXPECT_EQ(passed, (std::array<bool, 3>{false, true, true}));
}

TEST(Stopping, WhoHasEndedIsLeftAlone) {
    calm_simulation calm;
    const actor_id host = calm.s.add_host("host", [] {});
    EXPECT_TRUE(calm.s.run());
    calm.s.stop_for_good(host);
    EXPECT_TRUE(calm.s.run());
    EXPECT_THROW(calm.s.stop_for_good(17), std::out_of_range);
}

TEST(Stopping, AServiceThatDiesAnswersNoMore) {
    host32 asked{0};
    host32 answered{0};
    calm_simulation calm;
    const actor_id service = calm.s.add_daemon("service", [&] {
        for (;;) {
            if (asked.load<order::acquire>() != answered.load<order::relaxed>()) {
                answered.store<order::release>(asked.load<order::acquire>());
            }
            pause(10);
        }
    });
    std::uint32_t in_time = 0;
    calm.s.add_kernel({{1}}, [&](thread_position) {
        for (std::uint32_t i = 1; i <= 3; ++i) {
            asked.store<order::release>(i);
            for (int wait = 0; wait < 5 && answered.load<order::acquire>() != i; ++wait) {
                pause(100);
            }
            in_time += answered.load<order::acquire>() == i ? 1 : 0;
            if (i == 2) {
                calm.s.stop_for_good(service);
            }
        }
    });
    EXPECT_TRUE(calm.s.run()) << calm.s.result().violation;
    EXPECT_EQ(in_time, 2u);
}

TEST(Daemons, DoNotKeepARunAliveAndGoOnInTheNext) {
    with_seeds(20, {}, [](simulation& s) {
        int rounds = 0;
        s.add_daemon("service", [&] {
            for (;;) {
                ++rounds;
                pause(100);
            }
        });
        s.add_host("host", [] { pause(100'000); });
        ASSERT_TRUE(s.run()) << s.result().violation;
        const int before = rounds;
        EXPECT_GT(before, 1);
        s.add_kernel({{1}}, [](thread_position) { pause(100'000); });
        ASSERT_TRUE(s.run()) << s.result().violation;
        EXPECT_GT(rounds, before + 1);
        s.end_all();
    });
}

TEST(Daemons, AloneAreNoRun) {
    bool ran = false;
    calm_simulation calm;
    calm.s.add_daemon("service", [&] { ran = true; });
    EXPECT_TRUE(calm.s.run());
    EXPECT_FALSE(ran);
}

TEST(Daemons, ThatFailEndTheRun) {
    calm_simulation calm;
    calm.s.add_daemon("service", [&] { calm.s.check(false, "a wrong request"); });
    calm.s.add_host("host", [] { pause(1000); });
    EXPECT_FALSE(calm.s.run());
    EXPECT_EQ(calm.s.result().violation, "service: a wrong request");
}

/// Returns the value in memory, bypassing the seam.
std::uint32_t in_memory(const word32& w) {
    std::uint32_t value = 0;
    std::memcpy(&value, &w, sizeof(value));
    return value;
}

TEST(Kernels, TheSecondSeesWhatTheFirstWrote) {
    int old_values_in_one_kernel = 0;
    with_seeds(100, {}, [&](simulation& s) {
        std::array<word32, 4> words{};
        s.add_kernel({{2}, {2}}, [&](thread_position at) {
            const std::uint32_t own = at.block * 2 + at.thread;
            words[own].store<order::relaxed>(1);
            words[own].store<order::relaxed>(2);
            const std::uint32_t there = in_memory(words[3 - own]);
            old_values_in_one_kernel += words[3 - own].load<order::relaxed>() < there ? 1 : 0;
        });
        ASSERT_TRUE(s.run()) << s.result().violation;
        s.add_kernel({{2}, {2}}, [&](thread_position) {
            for (const auto& w : words) {
                s.check(w.load<order::relaxed>() == 2, "a value of before the first kernel's end");
            }
        });
        ASSERT_TRUE(s.run()) << s.result().violation;
    });
    EXPECT_GT(old_values_in_one_kernel, 10) << "otherwise this shows nothing";
}

TEST(Kernels, SeeWhatWasWrittenOutsideBetweenRuns) {
    with_seeds(60, {}, [](simulation& s) {
        word32 word{1};
        std::uint32_t want = 1;
        for (; want < 5; ++want) {
            word.store<order::relaxed>(want);
            s.add_kernel({{2}, {1}}, [&, want](thread_position) {
                s.check(word.load<order::relaxed>() == want, "an old value");
                sync(converge());
            });
            ASSERT_TRUE(s.run()) << s.result().violation;
        }
        s.add_host("host", [&] { word.store<order::relaxed>(9); });
        ASSERT_TRUE(s.run());
        EXPECT_EQ(word.load<order::relaxed>(), 9u) << "outside, memory is as the run has left it";
    });
}

TEST(Kernels, AddedByAnActorBeginBehindWhatItDid) {
    with_seeds(60, {}, [](simulation& s) {
        plain<std::uint32_t> data{};
        int lanes_run = 0;
        s.add_host("launcher", [&] {
            data.set(7);
            s.add_kernel({{2}}, [&](thread_position) {
                s.check(data.get() == 7, "an old value");
                ++lanes_run;
            });
        });
        EXPECT_TRUE(s.run()) << s.result().violation;
        EXPECT_EQ(lanes_run, 2);
    });
}

}  // namespace
}  // namespace orchard::simt::explore
