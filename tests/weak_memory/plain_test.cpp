// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Plain accesses: unordered accesses are a race, and some run finds it; ordered accesses are never reported.
///
/// Compared with: PTX ISA, memory consistency model, data races: conflicting accesses that are neither in causality
/// order nor morally strong; C++20 [intro.races].

#include "tests/weak_memory/litmus.hpp"

namespace orchard::litmus {
namespace {

void set_x(shared& s) { s.x.set(1); }
void get_x(shared& s) { s.r[0] = s.x.get(); }

program two(std::function<void(shared&)> first, std::function<void(shared&)> second) {
    return {{{in_block(0), std::move(first)}, {in_block(1), std::move(second)}}};
}

TEST(plain, two_stores_race) { EXPECT_TRUE(is_violation(two(set_x, set_x), "plain store")); }

TEST(plain, a_load_and_a_store_race_in_either_order) {
    EXPECT_TRUE(is_violation(two(set_x, get_x), "the plain load at"));
    EXPECT_TRUE(is_violation(two(set_x, get_x), "is not ordered after the plain load"));
}

TEST(plain, two_loads_do_not_race) { EXPECT_TRUE(allowed(two(get_x, get_x), {0, 0})); }

TEST(plain, threads_of_one_block_race_too) {
    EXPECT_TRUE(is_violation({{{in_block(0), set_x}, {in_block(0), set_x}}}, "plain store"));
}

TEST(plain, a_plain_and_an_atomic_access_race) {
    const auto store_atomically = [](shared& s) { s.x.store(1); };
    const auto load_atomically = [](shared& s) { s.r[0] = s.x.load(); };
    const auto add = [](shared& s) { s.x.add(1); };
    EXPECT_TRUE(is_violation(two(set_x, store_atomically), "the store at"));
    EXPECT_TRUE(is_violation(two(get_x, store_atomically), "the store at"));
    EXPECT_TRUE(is_violation(two(get_x, add), "the store at"));
    EXPECT_TRUE(races(two(set_x, load_atomically)));
}

template <order Store, order Load>
program handed_over(bool races_are_violations) {
    return {{{in_block(0),
              [](shared& s) {
                  s.x.set(1);
                  s.y.store<Store>(1);
              }},
             {in_block(1),
              [races_are_violations](shared& s) {
                  s.r[0] = s.y.load<Load>();
                  // If races end the run, the thread reads the data only after it saw the flag.
                  s.r[1] = s.r[0] == 1 || !races_are_violations ? s.x.get() : 0;
              }}},
            2,
            {},
            races_are_violations};
}

TEST(plain, release_and_acquire_order) {
    EXPECT_TRUE(allowed((handed_over<order::release, order::acquire>(true)), {1, 1}));
    EXPECT_TRUE(never((handed_over<order::release, order::acquire>(true)), {1, 0}));
}

TEST(plain, relaxed_accesses_do_not_order) {
    EXPECT_TRUE(races(handed_over<order::relaxed, order::relaxed>(true)));
    EXPECT_TRUE(races(handed_over<order::release, order::relaxed>(true)));
    EXPECT_TRUE(races(handed_over<order::relaxed, order::acquire>(true)));
}

TEST(plain, stale_values_show_where_races_are_no_violations) {
    EXPECT_TRUE(allowed((handed_over<order::release, order::relaxed>(false)), {1, 0}));
    EXPECT_TRUE(allowed((handed_over<order::relaxed, order::acquire>(false)), {1, 0}));
    EXPECT_TRUE(never((handed_over<order::release, order::acquire>(false)), {1, 0}));
}

/// A line of the first-level cache that went stale: a plain load after one that saw the new value sees the old one.
TEST(plain, loads_are_not_even_coherent_where_races_are_no_violations) {
    program p = two(set_x, [](shared& s) {
        s.r[0] = s.x.get();
        s.r[1] = s.x.get();
    });
    p.races_are_violations = false;
    EXPECT_TRUE(allowed(p, {1, 0}));
}

/// A plain load is no part of an acquire, whatever it sees.
TEST(plain, a_plain_load_before_a_fence_does_not_acquire) {
    program p = two(
        [](shared& s) {
            s.x.store(1);
            s.y.store<order::release>(1);
        },
        [](shared& s) {
            s.r[0] = s.y.get();
            fence();
            s.r[1] = s.x.load();
        });
    p.races_are_violations = false;
    EXPECT_TRUE(allowed(p, {1, 0}));
}

/// Handing back and forth, as an owner and the next owner of a page do.
TEST(plain, a_word_may_change_owners) {
    const auto own = [](shared& s) {
        if (s.y.compare_exchange<order::acquire>(0, 1) == 0) {
            s.x.set(s.x.get() + 1);
            s.y.store<order::release>(0);
        }
    };
    EXPECT_TRUE(allowed({{{in_block(0), own}, {in_block(1), own}, {in_block(0, 1), own}}, 0, {&shared::x}}, {3}));
    const auto own_wrongly = [](shared& s) {
        if (s.y.compare_exchange<order::acquire>(0, 1) == 0) {
            s.x.set(s.x.get() + 1);
            s.y.store(0);
        }
    };
    EXPECT_TRUE(races({{{in_block(0), own_wrongly}, {in_block(1), own_wrongly}}, 0, {&shared::x}}));
}

}  // namespace
}  // namespace orchard::litmus
