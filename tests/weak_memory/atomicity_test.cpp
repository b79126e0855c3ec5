// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Read-modify-writes are atomic: no store comes between their read and their write.
///
/// Compared with: PTX ISA, memory consistency model, the axiom of atomicity. It applies to morally strong accesses
/// only, so it does not hold for scopes that do not include each other. Lustig et al., ASPLOS 2019.

#include "tests/weak_memory/litmus.hpp"

namespace orchard::litmus {
namespace {

template <scope S>
void add_twice(shared& s) {
    s.x.add<order::relaxed, S>(1);
    s.x.add<order::relaxed, S>(1);
}

/// Returns whether `o` is the only outcome.
testing::AssertionResult only(const program& p, const outcome& o) {
    const outcomes all = explore(p);
    if (all.seen.size() == 1 && all.seen.begin()->first == o && all.violations.empty()) {
        return testing::AssertionSuccess();
    }
    return testing::AssertionFailure() << "seen:\n" << all.text();
}

TEST(atomicity, no_increment_is_lost) {
    const auto add = add_twice<scope::device>;
    EXPECT_TRUE(only({{{in_block(0), add}, {in_block(0, 1), add}, {in_block(1), add}}, 0, {&shared::x}}, {6}));
}

TEST(atomicity, one_compare_and_swap_wins) {
    const program p{{{in_block(0), [](shared& s) { s.r[0] = s.x.compare_exchange(0, 1); }},
                     {in_block(1), [](shared& s) { s.r[1] = s.x.compare_exchange(0, 2); }}},
                    2,
                    {&shared::x}};
    EXPECT_TRUE(never(p, {0, 0, 1}));
    EXPECT_TRUE(never(p, {0, 0, 2}));
    EXPECT_TRUE(allowed(p, {0, 1, 1}));
    EXPECT_TRUE(allowed(p, {2, 0, 2}));
}

TEST(atomicity, no_store_comes_between_reading_and_writing) {
    const program p{
        {{in_block(0), [](shared& s) { s.r[0] = s.x.add(1); }}, {in_block(1), [](shared& s) { s.x.store(5); }}},
        1,
        {&shared::x}};
    EXPECT_TRUE(never(p, {0, 1}));
    EXPECT_TRUE(never(p, {5, 5}));
    EXPECT_TRUE(allowed(p, {0, 5}));
    EXPECT_TRUE(allowed(p, {5, 6}));
}

TEST(atomicity, block_scope_is_enough_in_one_block) {
    const auto add = add_twice<scope::block>;
    EXPECT_TRUE(only({{{in_block(0), add}, {in_block(0, 1), add}}, 0, {&shared::x}}, {4}));
}

TEST(atomicity, block_scope_loses_increments_of_two_blocks) {
    const auto add = add_twice<scope::block>;
    EXPECT_TRUE(allowed({{{in_block(0), add}, {in_block(1), add}}, 0, {&shared::x}}, {2}));
    EXPECT_TRUE(allowed({{{in_block(0), add}, {in_block(1), add}}, 0, {&shared::x}}, {4}));
}

TEST(atomicity, one_wide_scope_does_not_help_the_other) {
    const program p{{{in_block(0), [](shared& s) { s.r[0] = s.x.add<order::relaxed, scope::block>(1); }},
                     {in_block(1), [](shared& s) { s.r[1] = s.x.add<order::relaxed, scope::device>(1); }}}};
    EXPECT_TRUE(allowed(p, {0, 0}));
}

/// An access of another block with too narrow a scope does not make the accesses of one block less atomic.
TEST(atomicity, an_outsider_does_not_divide_a_block) {
    const program p{{{in_block(0, 0), [](shared& s) { s.r[0] = s.x.add<order::relaxed, scope::block>(1); }},
                     {in_block(0, 1), [](shared& s) { s.r[1] = s.x.add<order::relaxed, scope::block>(1); }},
                     {in_block(1), [](shared& s) { s.r[2] = s.x.add<order::relaxed, scope::block>(4); }}},
                    3};
    EXPECT_TRUE(never(p, {0, 0, 0}));
    EXPECT_TRUE(never(p, {0, 0, 1}));
    EXPECT_TRUE(never(p, {0, 0, 2}));
    EXPECT_TRUE(never(p, {4, 4, 0}));
    EXPECT_TRUE(allowed(p, {0, 1, 0}));
    EXPECT_TRUE(allowed(p, {0, 1, 1}));
    EXPECT_TRUE(allowed(p, {4, 5, 0}));
}

/// It does not let a store of that block come in between, either.
TEST(atomicity, an_outsider_does_not_hide_a_store) {
    const program p{{{in_block(0, 0), [](shared& s) { s.r[0] = s.x.add<order::relaxed, scope::block>(1); }},
                     {in_block(0, 1), [](shared& s) { s.x.store<order::relaxed, scope::block>(10); }},
                     {in_block(1), [](shared& s) { s.x.add<order::relaxed, scope::block>(4); }}},
                    1,
                    {&shared::x}};
    EXPECT_TRUE(never(p, {0, 1}));
    EXPECT_TRUE(allowed(p, {0, 10}));
    EXPECT_TRUE(allowed(p, {10, 11}));
}

TEST(atomicity, a_word_of_32_bits_wraps) {
    const program p{{{in_block(0),
                      [](shared& s) {
                          s.x.add(0xffffffffu);
                          s.x.add(0xffffffffu);
                          s.r[0] = s.x.compare_exchange(0xfffffffeu, 7);
                      }}},
                    1,
                    {&shared::x}};
    EXPECT_TRUE(only(p, {0xfffffffeu, 7}));
}

}  // namespace
}  // namespace orchard::litmus
