// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The exhaustive search takes each run once; numbers counted by hand. Priorities find deep faults that luck does not.

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <span>
#include <string>

#include "tests/simulation/rig.hpp"

namespace orchard::simt::explore {
namespace {

/// The results of a search.
struct searched {
    int runs = 0;
    std::set<std::string> outcomes;
    std::set<std::string> violations;
    std::set<std::uint64_t> traces;
};

/// Makes every run of a program with at most this many surprises. The program returns its outcome.
searched search(std::uint32_t surprises, const std::function<std::string(simulation&)>& program) {
    searched result;
    bounded_search from(surprises);
    while (choices* const next = from.next()) {
        simulation s(*next, plain_settings());
        result.outcomes.insert(program(s));
        result.violations.insert(s.result().violation);
        result.traces.insert(s.result().trace_hash);
        if (++result.runs > 100'000) {
            ADD_FAILURE() << "the search does not end";
            break;
        }
    }
    return result;
}

/// Two host threads of two stores each, to words of their own. Each is in three pieces: up to its first store, up to
/// its second, to its end; so there are 6! / (3! 3!) = 20 interleavings, and 4! / (2! 2!) = 6 orders of the stores.
std::string two_by_two(simulation& s) {
    std::array<host32, 4> words{};
    std::string stores;
    for (std::size_t host = 0; host < 2; ++host) {
        s.add_host(host == 0 ? "a" : "b", [&, host] {
            for (std::size_t i = 0; i < 2; ++i) {
                words[host * 2 + i].store<order::relaxed>(1);
                stores += host == 0 ? 'a' : 'b';
            }
        });
    }
    EXPECT_TRUE(s.run());
    return stores;
}

TEST(BoundedSearch, TakesEachInterleavingOnce) {
    // Without a switch: a first, or b first. With one: a first, switched away before its first store, before its
    // second, or never; and so on. `a` may be interrupted before a store, and then `b` before one of its own, ...
    constexpr int runs[] = {2, 6, 14, 18, 20, 20};
    constexpr std::size_t orders[] = {2, 4, 6, 6, 6, 6};
    for (std::uint32_t surprises = 0; surprises < std::size(runs); ++surprises) {
        const searched found = search(surprises, two_by_two);
        EXPECT_EQ(found.runs, runs[surprises]) << surprises;
        EXPECT_EQ(found.outcomes.size(), orders[surprises]) << surprises;
        EXPECT_EQ(found.traces.size(), orders[surprises]) << surprises;
        EXPECT_EQ(found.violations, std::set<std::string>{""});
    }
}

/// One store and one load, in two pieces each: 4! / (2! 2!) = 6 interleavings. In three of them the store comes before
/// the load, which may also see the old value. By surprises: a switch away from the writer before its store, one away
/// from the reader before its load, one back, an old value.
TEST(BoundedSearch, CountsAnOldValueAsASurprise) {
    constexpr int runs[] = {2, 5, 8, 9, 9};
    for (std::uint32_t surprises = 0; surprises < std::size(runs); ++surprises) {
        const searched found = search(surprises, [](simulation& s) {
            host32 word{0};
            std::string seen;
            s.add_host("writer", [&] { word.store<order::relaxed>(1); });
            s.add_host("reader", [&] { seen = std::to_string(word.load<order::relaxed>()); });
            EXPECT_TRUE(s.run());
            return seen;
        });
        EXPECT_EQ(found.runs, runs[surprises]) << surprises;
        EXPECT_EQ(found.outcomes.size(), 2u);
    }
}

/// Two lanes wait for each other, unless one is surprisingly fast.
TEST(BoundedSearch, DividesGroups) {
    const auto lanes = [](simulation& s) {
        std::array<lane_mask, 2> masks{};
        s.add_kernel({{2}}, [&](thread_position at) { masks[at.thread] = converge(); });
        EXPECT_TRUE(s.run());
        return std::to_string(masks[0]) + std::to_string(masks[1]);
    };
    EXPECT_EQ(search(0, lanes).outcomes, std::set<std::string>{"33"});
    EXPECT_EQ(search(1, lanes).outcomes, (std::set<std::string>{"12", "33"}));
}

/// Occurs only if the writer is interrupted between its two stores and the reader between its two loads.
std::string needs_two_switches(simulation& s) {
    host32 word{0};
    s.add_host("writer", [&] {
        word.store<order::relaxed>(1);
        word.store<order::relaxed>(2);
    });
    s.add_host("reader", [&] {
        const std::uint32_t first = newest(word);
        const std::uint32_t second = newest(word);
        s.check(first != 1 || second != 2, "changed while it was read");
    });
    (void)s.run();
    return {};
}

TEST(BoundedSearch, FindsWhatNeedsTwoSwitchesWithTwoAndNotWithOne) {
    EXPECT_EQ(search(1, needs_two_switches).violations, std::set<std::string>{""});
    EXPECT_EQ(search(2, needs_two_switches).violations,
              (std::set<std::string>{"", "reader: changed while it was read"}));
}

TEST(BoundedSearch, GivesEveryChoiceOfTheScenarioFreely) {
    const searched found =
        search(0, [](simulation& s) { return std::to_string(s.pick(3)) + std::to_string(s.pick(2)); });
    EXPECT_EQ(found.runs, 6);
    EXPECT_EQ(found.outcomes.size(), 6u);
}

TEST(BoundedSearch, SaysWhereAProgramDoesNotRepeatItself) {
    int runs = 0;
    const searched found = search(1, [&](simulation& s) {
        host32 word{0};
        const int stores = ++runs % 2;
        for (const char* name : {"a", "b"}) {
            s.add_host(name, [&] {
                for (int i = 0; i < stores; ++i) {
                    word.store<order::relaxed>(1);
                }
                (void)s.pick(2 + static_cast<std::uint32_t>(stores));
            });
        }
        (void)s.run();
        return std::string();
    });
    bool said = false;
    for (const std::string& v : found.violations) {
        said = said || v.find("does not repeat itself") != std::string::npos;
    }
    EXPECT_TRUE(said);
}

TEST(Choices, AllCalmIsTheFirstRunOfASearch) {
    bounded_search from(0);
    simulation first(*from.next(), plain_settings());
    const std::string searched_first = two_by_two(first);
    calm_simulation calm;
    EXPECT_EQ(two_by_two(calm.s), searched_first);
    EXPECT_EQ(calm.s.result().trace_hash, first.result().trace_hash);
}

// --- priorities ---

/// A fault of depth 2: `b` must complete all of its steps while `a` is interrupted in its window. A fault of depth 3:
/// `b` also has a window in which it must be interrupted, while `c` completes all of its steps.
std::string deep_fault(simulation& s, std::uint32_t depth) {
    constexpr int before = 3;
    constexpr int window = 8;
    constexpr int long_way = 30;
    std::array<word32, 3> words{};
    const auto work = [&words](std::size_t host, int steps) {
        for (; steps != 0; --steps) {
            (void)newest(words[host]);
        }
    };
    bool a_is_inside = false;
    bool b_is_inside = false;
    bool c_came_through = depth == 2;
    s.add_host("a", [&] {
        work(0, before);
        a_is_inside = true;
        work(0, window);
        a_is_inside = false;
    });
    s.add_host("b", [&] {
        work(1, before);
        const bool at_begin = a_is_inside;
        b_is_inside = true;
        work(1, window);
        b_is_inside = false;
        work(1, long_way);
        s.check(!at_begin || !a_is_inside || !c_came_through, "the deep fault");
    });
    if (depth == 3) {
        s.add_host("c", [&] {
            work(2, before);
            const bool at_begin = b_is_inside;
            work(2, long_way);
            c_came_through = at_begin && b_is_inside;
        });
    }
    (void)s.run();
    s.end_all();
    return s.result().violation;
}

/// Returns the number of seeds, of this many, in which the fault is found.
template <class MakeChoices>
int found_in(std::uint64_t seeds, std::uint32_t depth, MakeChoices make) {
    int found = 0;
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
        const std::unique_ptr<choices> from = make(seed);
        simulation s(*from, plain_settings());
        found += deep_fault(s, depth).empty() ? 0 : 1;
    }
    return found;
}

/// Everybody is as likely at every point.
class by_lot final : public choices {
public:
    explicit by_lot(std::uint64_t seed) : random_{seed} {}

protected:
    std::uint32_t pick(decision, std::uint32_t) override { return 0; }
    std::uint32_t pick_actor(std::span<const actor_id> eligible, bool) override {
        return random_.below(static_cast<std::uint32_t>(eligible.size()));
    }

private:
    random_sequence random_;
};

TEST(Priorities, FindDeepFaultsThatLuckDoesNot) {
    constexpr std::uint64_t seeds = 5000;
    for (const std::uint32_t depth : {2u, 3u}) {
        const std::uint32_t points = depth == 2 ? 54 : 90;  // about as many as a run has
        const auto found_with = [&](std::uint32_t changes) {
            return found_in(seeds, depth, [&](std::uint64_t seed) { return priority_choices(seed, changes, points); });
        };
        const int by_luck = found_in(seeds, depth, [](std::uint64_t seed) { return std::make_unique<by_lot>(seed); });
        EXPECT_EQ(by_luck, 0) << depth;
        EXPECT_EQ(found_with(depth - 2), 0) << "one change fewer than depth " << depth << " asks for";
        // Half of the priorities' orders (a sixth, for three), and each change at one of 8 points of about so many.
        EXPECT_GE(found_with(depth - 1), depth == 2 ? 300 : 3) << depth;
    }
}

/// A waiting actor loses priority. Otherwise one of high priority would check again after each step of the actor that
/// it waits for.
TEST(Priorities, FallForThoseWhoPause) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const auto from = priority_choices(seed, 0, 1);
        simulation s(*from, plain_settings());
        word32 word{0};
        int looks = 0;
        s.add_host("worker", [&] {
            for (int i = 0; i < 50; ++i) {
                (void)word.fetch_add<order::relaxed>(1);
            }
        });
        s.add_host("poller", [&] {
            for (; newest(word) < 50; pause(1)) {
                ++looks;
            }
        });
        ASSERT_TRUE(s.run()) << s.result().violation;
        EXPECT_LE(looks, 1);
    }
}

}  // namespace
}  // namespace orchard::simt::explore
