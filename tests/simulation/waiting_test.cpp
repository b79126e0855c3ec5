// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Time passes for waiting actors, other actors run meanwhile, and a wake-up that can be lost is lost under some seed.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/simulation/rig.hpp"

namespace orchard::simt::explore {
namespace {

TEST(Pausing, LetsTimePassAndOthersRun) {
    std::uint64_t max_pauses = 0;
    with_seeds(40, {}, [&](simulation& s) {
        word32 flag{0};
        s.add_kernel({{1}, {1}}, [&](thread_position at) {
            if (at.block == 0) {
                const std::uint64_t start = clock_ns();
                pause(1000);
                s.check(clock_ns() >= start + 1000, "a pause that was too short");
                flag.store<order::relaxed>(1);
            } else {
                while (flag.load<order::relaxed>() == 0) {
                    pause(50);
                }
            }
        });
        EXPECT_TRUE(s.run()) << s.result().violation;
        max_pauses = std::max(max_pauses, s.result().lane_costs.pauses);
    });
    EXPECT_GT(max_pauses, 5u) << "the waiting actor was to look more than once";
}

TEST(Pausing, IsStretchedAsTheSettingsSay) {
    for (const std::uint32_t stretch : {1u, 8u}) {
        settings how = plain_settings();
        how.pause_stretch = stretch;
        calm_simulation calm(how);
        const std::uint64_t start = calm.s.now_ns();
        calm.s.add_host("host", [] { pause(1000); });
        ASSERT_TRUE(calm.s.run());
        EXPECT_EQ(calm.s.now_ns() - start, 1000u * stretch + 1);
    }
}

/// Stands still at every opportunity, as long as possible.
class slow_choices final : public choices {
protected:
    std::uint32_t pick(decision what, std::uint32_t n) override {
        return what == decision::delay || what == decision::scenario ? n - 1 : 0;
    }
    std::uint32_t pick_actor(std::span<const actor_id>, bool) override { return 0; }
};

TEST(Delays, LastLongAndAreCounted) {
    settings how = plain_settings();
    how.delays = 2;
    slow_choices slow;
    simulation s(slow, how);
    word32 word{0};
    s.add_kernel({{1}}, [&](thread_position) {
        for (int i = 0; i < 5; ++i) {
            (void)word.load<order::relaxed>();
        }
    });
    const std::uint64_t start = s.now_ns();
    EXPECT_TRUE(s.run());
    EXPECT_GE(s.now_ns() - start, 20'000'000u);
    EXPECT_LT(s.now_ns() - start, 30'000'000u);
}

TEST(Delays, EndAfterSoManyOperationsOfOthers) {
    settings how = plain_settings();
    how.delays = 1;
    slow_choices slow;
    simulation s(slow, how);
    word32 word{0};
    s.add_host("slow", [&] { word.store<order::relaxed>(1); });
    s.add_host("poller", [&] {
        while (newest(word) == 0) {
            pause(1);
        }
    });
    EXPECT_TRUE(s.run()) << s.result().violation;
    EXPECT_GT(s.result().points, 4'000u) << "the others run meanwhile";
    EXPECT_LT(s.result().points, 10'000u);
}

/// A number that increases, and a signal that it has increased: the growth thread is notified in this way.
struct signalled {
    host32 wanted{0};
    host32 signal{0};

    void raise() {
        wanted.fetch_add<order::relaxed>(1);
        signal.fetch_add<order::release>(1);
        signal.notify_all();
    }
};

enum class waits { rightly, with_its_look_before, and_is_told_too_early };

/// One actor raises the number a few times, the other waits until it has seen all of it.
auto signalling(waits how) {
    return [how](simulation& s) {
        const auto w = std::make_shared<signalled>();
        constexpr std::uint32_t times = 3;
        s.name_words(&w->signal, sizeof(w->signal), "signal");
        s.add_host("raiser", [w, how] {
            for (std::uint32_t i = 0; i < times; ++i) {
                if (how == waits::and_is_told_too_early) {
                    w->signal.notify_all();
                    w->wanted.fetch_add<order::relaxed>(1);
                    w->signal.fetch_add<order::release>(1);
                } else {
                    w->raise();
                }
            }
        });
        s.add_host("waiter", [w, how] {
            for (std::uint32_t done = 0; done < times;) {
                std::uint32_t seen = how == waits::with_its_look_before ? 0 : w->signal.load<order::acquire>();
                const std::uint32_t wanted = w->wanted.load<order::relaxed>();
                if (wanted != done) {
                    done = wanted;
                    continue;
                }
                if (how == waits::with_its_look_before) {
                    seen = w->signal.load<order::acquire>();  // a value that is raised in between is lost
                }
                w->signal.wait(seen);
            }
        });
        (void)s.run();
    };
}

TEST(Signals, LoseNoWakeUp) { EXPECT_EQ(first_violation(400, {}, signalling(waits::rightly)), ""); }

TEST(Signals, ALostWakeUpIsADeadlock) {
    for (const waits how : {waits::with_its_look_before, waits::and_is_told_too_early}) {
        const std::string said = first_violation(400, {}, signalling(how));
        EXPECT_EQ(
            said.rfind("deadlock: no actor can go on\n  waiter    waiting for a word at wait (waiting_test.cpp:", 0),
            0u)
            << said;
        EXPECT_NE(said.find("), signal\n"), std::string::npos) << said;
    }
}

TEST(Signals, WhoWaitsHasAcquiredWhatTheRaiserDidBefore) {
    with_seeds(200, {}, [](simulation& s) {
        host32 signal{0};
        plain<std::uint32_t> data{};
        s.add_host("raiser", [&] {
            data.set(5);
            signal.store<order::release>(1);
            signal.notify_all();
        });
        s.add_host("waiter", [&] {
            signal.wait(0);
            s.check(data.get() == 5, "an old value");
        });
        EXPECT_TRUE(s.run()) << s.result().violation;
    });
}

TEST(Signals, OfADifferentWordWakeNobody) {
    host32 door{0};
    host32 window{0};
    calm_simulation calm;
    calm.s.add_host("keeper", [&] { door.wait(0); });
    calm.s.add_host("other", [&] {
        pause(10);
        door.store<order::release>(1);
        window.notify_all();
    });
    EXPECT_FALSE(calm.s.run());
    EXPECT_NE(calm.s.result().violation.find("deadlock"), std::string::npos);
}

}  // namespace
}  // namespace orchard::simt::explore
