// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Exceptions on the actors' stacks: those that end a run, and those that actors throw and catch themselves.

#include <gtest/gtest.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/simulation/rig.hpp"

namespace orchard::simt::explore {
namespace {

/// Counts its lives and deaths; holds memory, so that a stack that is forgotten is a leak.
class witness {
public:
    explicit witness(std::vector<int>& deaths) : deaths_{deaths}, number_{deaths.size()} { deaths.push_back(0); }
    ~witness() { ++deaths_[number_]; }
    witness(const witness&) = delete;
    witness& operator=(const witness&) = delete;

private:
    std::vector<int>& deaths_;
    std::size_t number_;
    std::string memory_ = std::string(100, 'x');
};

void expect_each_died_once(const std::vector<int>& deaths, std::size_t count) {
    EXPECT_EQ(deaths.size(), count);
    for (const int d : deaths) {
        EXPECT_EQ(d, 1);
    }
}

TEST(Unwinding, DestroysWhatIsOnTheStacksOnce) {
    with_seeds(40, {}, [](simulation& s) {
        std::vector<int> deaths;
        host32 door{0};
        s.add_daemon("daemon", [&] {
            const witness w(deaths);
            for (;;) {
                pause(100);
            }
        });
        s.add_host("waiter", [&] {
            const witness w(deaths);
            door.wait(0);
        });
        s.add_kernel({{4}}, [&](thread_position at) {
            const witness outer(deaths);
            const auto nested = [&] {
                const witness inner(deaths);
                switch (at.thread) {
                    case 0: sync(3); break;
                    case 1: s.stop_for_good(s.self()); break;
                    case 2: pause(10'000'000); break;
                    default:
                        pause(100'000);
                        s.check(false, "over");
                        break;
                }
            };
            nested();
        });
        EXPECT_FALSE(s.run());
        EXPECT_NE(s.result().violation.find(": over"), std::string::npos) << s.result().violation;
        expect_each_died_once(deaths, 10);
    });
}

TEST(Unwinding, DaemonsLiveAsLongAsTheSimulation) {
    std::vector<int> deaths;
    {
        calm_simulation calm;
        calm.s.add_daemon("daemon", [&] {
            const witness w(deaths);
            for (;;) {
                pause(100);
            }
        });
        calm.s.add_host("host", [] { pause(1000); });
        EXPECT_TRUE(calm.s.run());
        EXPECT_EQ(deaths, std::vector<int>{0});
    }
    EXPECT_EQ(deaths, std::vector<int>{1});
}

TEST(Unwinding, EndAllTakesDaemonsOutBeforeWhatTheyUse) {
    calm_simulation calm;
    {
        std::vector<int> deaths;
        calm.s.add_daemon("daemon", [&] {
            const witness w(deaths);
            for (;;) {
                pause(100);
            }
        });
        calm.s.add_host("host", [] { pause(1000); });
        EXPECT_TRUE(calm.s.run());
        calm.s.end_all();
        EXPECT_EQ(deaths, std::vector<int>{1});
    }
    EXPECT_TRUE(calm.s.result().ok());
    calm.s.check(false, "still the scenario's to say");
    EXPECT_FALSE(calm.s.result().ok());
}

TEST(Unwinding, ActorsThatHaveNotBegunNeverDo) {
    bool begun = false;
    calm_simulation calm;
    calm.s.add_host("first", [&] { calm.s.check(false, "over"); });
    calm.s.add_host("second", [&] { begun = true; });
    EXPECT_FALSE(calm.s.run());
    EXPECT_FALSE(begun);
}

/// Calls everything that a destructor might call, including calls that would wait for other actors, while an exception
/// is in flight.
class busy_destructor {
public:
    busy_destructor(simulation& s, word32& word, int& calls) : s_{s}, word_{word}, calls_{calls} {}
    ~busy_destructor() noexcept(false) {
        (void)word_.load<order::relaxed>();
        word_.store<order::relaxed>(1);
        (void)word_.fetch_add<order::relaxed>(1);
        std::uint32_t expected = 0;
        (void)word_.compare_exchange<order::relaxed>(expected, 1);
        fence<scope::device>();
        pause(100);
        (void)converge();
        sync(1u << lane_id());
        (void)clock_ns();
        s_.check(std::uncaught_exceptions() == 0, "said while an exception is in flight");
        ++calls_;
    }
    busy_destructor(const busy_destructor&) = delete;
    busy_destructor& operator=(const busy_destructor&) = delete;

private:
    simulation& s_;
    word32& word_;
    int& calls_;
};

TEST(Unwinding, DestructorsMayCallTheSeam) {
    with_seeds(100, {}, [](simulation& s) {
        word32 word{0};
        int calls = 0;
        int left = 0;
        s.add_kernel({{3}}, [&](thread_position at) {
            if (at.thread == 2) {
                pause(100);
                s.check(false, "over");
            }
            try {
                const busy_destructor here(s, word, calls);  // may be the one in which the end finds it
                pause(at.thread == 0 ? 1 : 10'000'000);
            } catch (const std::exception&) {
                ADD_FAILURE() << "the end of a run is no std::exception";
            }
            ++left;
            (void)word.load<order::relaxed>();
            pause(10'000'000);
            ++left;
        });
        EXPECT_FALSE(s.run());
        EXPECT_EQ(s.result().violation, "b0.w0.l2: over");
        EXPECT_LE(left, 2);
    });
}

TEST(InFlight, NobodyElseRunsUntilTheExceptionIsCaught) {
    with_seeds(100, {}, [](simulation& s) {
        word32 word{0};
        struct two_steps {
            word32& word;
            ~two_steps() {
                word.store<order::relaxed>(1);
                pause(1000);
                word.store<order::relaxed>(2);
            }
        };
        s.add_kernel({{1}, {2}}, [&](thread_position at) {
            if (at.block == 0) {
                try {
                    const two_steps steps{word};
                    throw std::runtime_error("its own affair");
                } catch (const std::runtime_error&) {
                    (void)newest(word);
                }
            } else {
                for (int i = 0; i < 10; ++i) {
                    s.check(newest(word) != 1, "was let in between");
                    pause(100);
                }
            }
        });
        EXPECT_TRUE(s.run()) << s.result().violation;
    });
}

/// An operation that is impossible while no other actor may run is reported after the destructor has completed.
TEST(InFlight, WaitingForOthersIsAViolation) {
    host32 door{0};
    struct waits_for_door {
        host32& door;
        ~waits_for_door() { door.wait(0); }
    };
    calm_simulation hosts;
    hosts.s.add_host("host", [&] {
        const waits_for_door w{door};
        throw std::runtime_error("any");
    });
    EXPECT_FALSE(hosts.s.run());
    EXPECT_EQ(hosts.s.result().violation, "host: waits for a word while an exception is in flight");

    struct meets {
        ~meets() { sync(3); }
    };
    calm_simulation lanes;
    lanes.s.add_kernel({{2}}, [&](thread_position) {
        const meets m;
        throw std::runtime_error("any");
    });
    EXPECT_FALSE(lanes.s.run());
    EXPECT_EQ(lanes.s.result().violation, "b0.w0.l0: meets other lanes while an exception is in flight");
}

TEST(InFlight, ARaceInADestructorIsAViolation) {
    plain<std::uint32_t> data{};
    struct writes {
        plain<std::uint32_t>& data;
        ~writes() { data.set(1); }
    };
    calm_simulation calm;
    calm.s.add_kernel({{1}, {1}}, [&](thread_position) {
        try {
            const writes w{data};
            throw std::runtime_error("any");
        } catch (const std::runtime_error&) {
        }
    });
    EXPECT_FALSE(calm.s.run());
    EXPECT_NE(calm.s.result().violation.find("a race: the plain store"), std::string::npos);
}

TEST(Handlers, KeepTheirOwnExceptionWhileOthersRun) {
    with_seeds(100, {}, [](simulation& s) {
        word32 word{0};
        s.add_kernel({{3}, {2}}, [&](thread_position at) {
            const std::string own = "of " + std::to_string(at.block) + "." + std::to_string(at.thread);
            for (int i = 0; i < 3; ++i) {
                try {
                    throw std::runtime_error(own);
                } catch (const std::runtime_error& first) {
                    (void)word.fetch_add<order::relaxed>(1);
                    pause(100);
                    s.check(own == first.what(), "an exception changed in its handler");
                    s.check(std::uncaught_exceptions() == 0, "another actor's exception is seen in flight");
                    try {
                        throw;
                    } catch (const std::runtime_error& again) {
                        (void)word.fetch_add<order::relaxed>(1);
                        s.check(own == again.what(), "another actor's exception was thrown again");
                    }
                }
            }
        });
        EXPECT_TRUE(s.run()) << s.result().violation;
        EXPECT_EQ(std::current_exception(), nullptr);
    });
}

TEST(Handlers, OfTheCallerOfARunKeepTheirs) {
    try {
        throw std::runtime_error("outer");
    } catch (const std::runtime_error&) {
        calm_simulation calm;
        calm.s.add_host("host", [&] {
            calm.s.check(std::current_exception() == nullptr, "the caller's exception is seen");
            throw std::runtime_error("inner");
        });
        EXPECT_FALSE(calm.s.run());
        EXPECT_EQ(calm.s.result().violation, "host threw an exception: inner");
        try {
            throw;
        } catch (const std::runtime_error& again) {
            EXPECT_STREQ(again.what(), "outer");
        }
    }
}

}  // namespace
}  // namespace orchard::simt::explore
