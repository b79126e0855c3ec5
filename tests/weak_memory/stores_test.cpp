// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Two words, two threads; at least one of the two conflicts is between two stores: 2+2W, S and R.
///
/// Compared with: PTX ISA, memory consistency model: only synchronization creates causality order, and coherence order
/// alone orders no other word. Lustig et al., ASPLOS 2019.

#include "tests/weak_memory/litmus.hpp"

namespace orchard::litmus {
namespace {

template <order Store>
program two_plus_two_w() {
    return {{{in_block(0),
              [](shared& s) {
                  s.x.store(1);
                  s.y.store<Store>(2);
              }},
             {in_block(1),
              [](shared& s) {
                  s.y.store(1);
                  s.x.store<Store>(2);
              }}},
            0,
            {&shared::x, &shared::y}};
}

TEST(stores, the_first_stores_of_both_threads_may_win) {  // 2+2W
    EXPECT_TRUE(allowed(two_plus_two_w<order::relaxed>(), {1, 1}));
    EXPECT_TRUE(allowed(two_plus_two_w<order::release>(), {1, 1}));
    EXPECT_TRUE(allowed(two_plus_two_w<order::relaxed>(), {2, 2}));
}

template <order Store, order Load>
program s_test() {
    return {{{in_block(0),
              [](shared& s) {
                  s.x.store(2);
                  s.y.store<Store>(1);
              }},
             {in_block(1),
              [](shared& s) {
                  s.r[0] = s.y.load<Load>();
                  s.x.store(1);
              }}},
            1,
            {&shared::x}};
}

TEST(stores, a_store_behind_an_acquire_comes_behind_what_was_released) {  // S
    EXPECT_TRUE(never((s_test<order::release, order::acquire>()), {1, 2}));
    EXPECT_TRUE(allowed((s_test<order::release, order::acquire>()), {1, 1}));
    EXPECT_TRUE(allowed((s_test<order::relaxed, order::relaxed>()), {1, 2}));
    EXPECT_TRUE(allowed((s_test<order::release, order::relaxed>()), {1, 2}));
    EXPECT_TRUE(allowed((s_test<order::relaxed, order::acquire>()), {1, 2}));
}

/// The order of the stores to y says nothing about x; this would require a fence.sc on both sides.
TEST(stores, a_store_that_wins_does_not_acquire) {  // R
    const program p{{{in_block(0),
                      [](shared& s) {
                          s.x.store(1);
                          fence();
                          s.y.store<order::release>(1);
                      }},
                     {in_block(1),
                      [](shared& s) {
                          s.y.store(2);
                          fence();
                          s.r[0] = s.x.load<order::acquire>();
                      }}},
                    1,
                    {&shared::y}};
    EXPECT_TRUE(allowed(p, {0, 2}));
    EXPECT_TRUE(allowed(p, {1, 2}));
}

/// The middle thread's store to y is ordered after the first thread's without having read it: this provides no order
/// (Z6.3).
TEST(stores, a_chain_breaks_where_a_store_only_wins) {
    const program p{{{in_block(0),
                      [](shared& s) {
                          s.x.store(1);
                          s.y.store<order::release>(1);
                      }},
                     {in_block(1),
                      [](shared& s) {
                          s.y.store(2);
                          s.z.store<order::release>(1);
                      }},
                     {in_block(2),
                      [](shared& s) {
                          s.r[0] = s.z.load<order::acquire>();
                          s.r[1] = s.x.load();
                      }}},
                    2,
                    {&shared::y}};
    EXPECT_TRUE(allowed(p, {1, 0, 2}));
}

}  // namespace
}  // namespace orchard::litmus
