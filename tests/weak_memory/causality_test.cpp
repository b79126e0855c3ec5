// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Order through third threads: WRC, ISA2, IRIW.
///
/// Compared with: PTX ISA, memory consistency model. Causality order begins with an observation and continues through
/// any number of synchronizations (cumulativity). It provides no order that all threads share; this requires fence.sc.
/// Lustig et al., ASPLOS 2019 (WRC, ISA2, IRIW).

#include "tests/weak_memory/litmus.hpp"

namespace orchard::litmus {
namespace {

/// One stores x; one sees that and stores y; one sees y and reads x. {1, 1, 0}: the first store was lost on the way.
template <order Store, order Load>
program wrc(void (*first)(shared&) = [](shared& s) { s.x.store(1); }) {
    return {{{in_block(0), first},
             {in_block(1),
              [](shared& s) {
                  s.r[0] = s.x.load();
                  s.y.store<Store>(1);
              }},
             {in_block(2),
              [](shared& s) {
                  s.r[1] = s.y.load<Load>();
                  s.r[2] = s.x.load();
              }}},
            3};
}

TEST(causality, what_a_thread_has_read_it_releases) {  // WRC
    EXPECT_TRUE(never((wrc<order::release, order::acquire>()), {1, 1, 0}));
    EXPECT_TRUE(allowed((wrc<order::release, order::acquire>()), {1, 1, 1}));
    EXPECT_TRUE(allowed((wrc<order::relaxed, order::acquire>()), {1, 1, 0}));
    EXPECT_TRUE(allowed((wrc<order::release, order::relaxed>()), {1, 1, 0}));
    EXPECT_TRUE(allowed((wrc<order::relaxed, order::relaxed>()), {1, 1, 0}));
}

/// The first store is of block scope and so is not observed, in the sense of the model, by another block.
TEST(causality, what_a_thread_has_read_out_of_scope_it_does_not_release) {
    const auto p = wrc<order::release, order::acquire>([](shared& s) { s.x.store<order::relaxed, scope::block>(1); });
    EXPECT_TRUE(allowed(p, {1, 1, 0}));
}

template <order Middle>
program isa2() {
    return {{{in_block(0),
              [](shared& s) {
                  s.x.store(1);
                  s.y.store<order::release>(1);
              }},
             {in_block(1),
              [](shared& s) {
                  s.r[0] = s.y.load<Middle>();
                  s.z.store<order::release>(1);
              }},
             {in_block(2),
              [](shared& s) {
                  s.r[1] = s.z.load<order::acquire>();
                  s.r[2] = s.x.load();
              }}},
            3};
}

TEST(causality, synchronization_is_transitive) {  // ISA2
    EXPECT_TRUE(never(isa2<order::acquire>(), {1, 1, 0}));
    EXPECT_TRUE(allowed(isa2<order::acquire>(), {1, 1, 1}));
}

/// A relaxed read passes on the flag, not what was released with it.
TEST(causality, a_relaxed_read_in_the_middle_breaks_the_chain) {
    EXPECT_TRUE(allowed(isa2<order::relaxed>(), {1, 1, 0}));
}

/// Each of two readers sees one store and not the other. {1, 0, 1, 0}: they saw them in opposite orders.
template <order Store, order Load, bool Fenced>
program iriw() {
    return {{{in_block(0), [](shared& s) { s.x.store<Store>(1); }},
             {in_block(1), [](shared& s) { s.y.store<Store>(1); }},
             {in_block(2),
              [](shared& s) {
                  s.r[0] = s.x.load<Load>();
                  Fenced ? fence() : void();
                  s.r[1] = s.y.load<Load>();
              }},
             {in_block(3),
              [](shared& s) {
                  s.r[2] = s.y.load<Load>();
                  Fenced ? fence() : void();
                  s.r[3] = s.x.load<Load>();
              }}},
            4};
}

TEST(causality, readers_may_disagree_on_the_order_of_independent_stores) {  // IRIW
    EXPECT_TRUE(allowed((iriw<order::relaxed, order::relaxed, false>()), {1, 0, 1, 0}));
    EXPECT_TRUE(allowed((iriw<order::release, order::acquire, false>()), {1, 0, 1, 0}));
    EXPECT_TRUE(allowed((iriw<order::release, order::acquire, true>()), {1, 0, 1, 0}));
}

}  // namespace
}  // namespace orchard::litmus
