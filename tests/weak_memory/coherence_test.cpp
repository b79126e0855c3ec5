// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Coherence: all threads agree on the order of the stores to one word.
///
/// Held against: PTX ISA, memory consistency model, the axioms of coherence, of sequential consistency per location and
/// of causality; Lustig et al., ASPLOS 2019 (CoRR, CoRW, CoWR, CoWW). Alglave et al., ASPLOS 2015, saw CoRR violated on
/// older GPUs; PTX forbids it for accesses that are strong.

#include "tests/weak_memory/litmus.hpp"

namespace orchard::litmus {
namespace {

TEST(coherence, reads_do_not_go_back) {  // CoRR
    const program p{{{in_block(0), [](shared& s) { s.x.store(1); }}, {in_block(1), [](shared& s) {
                                                                          s.r[0] = s.x.load();
                                                                          s.r[1] = s.x.load();
                                                                      }}}};
    EXPECT_TRUE(never(p, {1, 0}));
    EXPECT_TRUE(allowed(p, {0, 1}));
    EXPECT_TRUE(allowed(p, {0, 0}));
}

TEST(coherence, readers_agree) {  // CoRR2
    const program p{{{in_block(0), [](shared& s) { s.x.store(1); }},
                     {in_block(1), [](shared& s) { s.x.store(2); }},
                     {in_block(2),
                      [](shared& s) {
                          s.r[0] = s.x.load();
                          s.r[1] = s.x.load();
                      }},
                     {in_block(3),
                      [](shared& s) {
                          s.r[2] = s.x.load();
                          s.r[3] = s.x.load();
                      }}},
                    4};
    EXPECT_TRUE(never(p, {1, 2, 2, 1}));
    EXPECT_TRUE(never(p, {2, 1, 1, 2}));
    EXPECT_TRUE(allowed(p, {1, 2, 1, 2}));
    EXPECT_TRUE(allowed(p, {2, 1, 2, 1}));
}

TEST(coherence, a_thread_sees_its_own_store_or_a_later_one) {  // CoWR
    const program p{{{in_block(0),
                      [](shared& s) {
                          s.x.store(1);
                          s.r[0] = s.x.load();
                      }},
                     {in_block(1), [](shared& s) { s.x.store(2); }}},
                    1,
                    {&shared::x}};
    EXPECT_TRUE(never(p, {0, 1}));
    EXPECT_TRUE(never(p, {0, 2}));
    EXPECT_TRUE(never(p, {2, 1}));
    EXPECT_TRUE(allowed(p, {2, 2}));
    EXPECT_TRUE(allowed(p, {1, 1}));
    EXPECT_TRUE(allowed(p, {1, 2}));
}

TEST(coherence, a_load_does_not_see_a_later_store_of_its_thread) {  // CoRW1
    const program p{{{in_block(0),
                      [](shared& s) {
                          s.r[0] = s.x.load();
                          s.x.store(1);
                      }}},
                    1};
    EXPECT_TRUE(never(p, {1}));
    EXPECT_TRUE(never_with_promises(p, {1}));
}

TEST(coherence, a_store_comes_behind_what_its_thread_has_read) {  // CoRW2
    const program p{{{in_block(0),
                      [](shared& s) {
                          s.r[0] = s.x.load();
                          s.x.store(1);
                      }},
                     {in_block(1), [](shared& s) { s.x.store(2); }}},
                    1,
                    {&shared::x}};
    EXPECT_TRUE(never(p, {2, 2}));
    EXPECT_TRUE(never_with_promises(p, {2, 2}));
    EXPECT_TRUE(allowed(p, {2, 1}));
    EXPECT_TRUE(allowed(p, {0, 2}));
}

TEST(coherence, stores_of_a_thread_stay_in_order) {  // CoWW
    const program p{{{in_block(0),
                      [](shared& s) {
                          s.x.store(1);
                          s.x.store(2);
                      }},
                     {in_block(1),
                      [](shared& s) {
                          s.r[0] = s.x.load();
                          s.r[1] = s.x.load();
                      }}},
                    2,
                    {&shared::x}};
    EXPECT_TRUE(never(p, {0, 0, 1}));
    EXPECT_TRUE(never(p, {2, 1, 2}));
    EXPECT_TRUE(allowed(p, {1, 2, 2}));
}

/// A store may be ordered before an earlier store of which its thread does not know.
TEST(coherence, a_store_may_come_in_front_of_an_unseen_one) {
    const program p{{{in_block(0),
                      [](shared& s) {
                          s.x.store(1);
                          s.y.store(1);
                      }},
                     {in_block(1),
                      [](shared& s) {
                          s.r[0] = s.y.load();
                          s.x.store(2);
                      }}},
                    1,
                    {&shared::x}};
    EXPECT_TRUE(allowed(p, {1, 1}));
}

}  // namespace
}  // namespace orchard::litmus
