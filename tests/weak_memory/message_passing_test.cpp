// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Message passing (MP): one thread writes data and then a flag, another sees the flag and reads the data. The outcome
/// in question is always: the flag was seen, the data was not.
///
/// Compared with: PTX ISA, memory consistency model, causality order (a release pattern that an acquire pattern
/// observes synchronizes); Lustig et al., ASPLOS 2019, derive the same. For the relaxed forms also Alglave et al., GPU
/// concurrency: weak behaviours and programming assumptions, ASPLOS 2015, which observed MP on several NVIDIA GPUs.

#include "tests/weak_memory/litmus.hpp"

namespace orchard::litmus {
namespace {

const outcome stale{1, 0};  // r0: the flag y, r1: the data x

program mp(std::function<void(shared&)> writer, std::function<void(shared&)> reader) {
    return {{{in_block(0), std::move(writer)}, {in_block(1), std::move(reader)}}};
}

void write_relaxed(shared& s) {
    s.x.store(1);
    s.y.store(1);
}
void write_release(shared& s) {
    s.x.store(1);
    s.y.store<order::release>(1);
}
void write_fenced(shared& s) {
    s.x.store(1);
    fence();
    s.y.store(1);
}
void read_relaxed(shared& s) {
    s.r[0] = s.y.load();
    s.r[1] = s.x.load();
}
void read_acquire(shared& s) {
    s.r[0] = s.y.load<order::acquire>();
    s.r[1] = s.x.load();
}
void read_fenced(shared& s) {
    s.r[0] = s.y.load();
    fence();
    s.r[1] = s.x.load();
}

TEST(message_passing, relaxed_may_be_stale) { EXPECT_TRUE(allowed(mp(write_relaxed, read_relaxed), stale)); }

TEST(message_passing, release_and_acquire_order) { EXPECT_TRUE(never(mp(write_release, read_acquire), stale)); }

TEST(message_passing, fences_on_both_sides_order) { EXPECT_TRUE(never(mp(write_fenced, read_fenced), stale)); }

TEST(message_passing, a_fence_pairs_with_release_and_acquire) {
    EXPECT_TRUE(never(mp(write_fenced, read_acquire), stale));
    EXPECT_TRUE(never(mp(write_release, read_fenced), stale));
}

TEST(message_passing, one_side_alone_orders_nothing) {
    EXPECT_TRUE(allowed(mp(write_release, read_relaxed), stale));
    EXPECT_TRUE(allowed(mp(write_relaxed, read_acquire), stale));
    EXPECT_TRUE(allowed(mp(write_fenced, read_relaxed), stale));
    EXPECT_TRUE(allowed(mp(write_relaxed, read_fenced), stale));
}

TEST(message_passing, the_new_values_are_seen_too) {
    EXPECT_TRUE(allowed(mp(write_release, read_acquire), {1, 1}));
    EXPECT_TRUE(allowed(mp(write_release, read_acquire), {0, 0}));
    EXPECT_TRUE(allowed(mp(write_release, read_acquire), {0, 1}));
}

TEST(message_passing, a_fence_after_the_flag_or_before_it_is_read_is_too_late) {
    const auto late = [](shared& s) {
        s.x.store(1);
        s.y.store(1);
        fence();
    };
    const auto early = [](shared& s) {
        fence();
        s.r[0] = s.y.load();
        s.r[1] = s.x.load();
    };
    EXPECT_TRUE(allowed(mp(late, read_acquire), stale));
    EXPECT_TRUE(allowed(mp(write_release, early), stale));
}

TEST(message_passing, read_modify_writes_release_and_acquire) {
    const auto write = [](shared& s) {
        s.x.store(1);
        s.y.add<order::release>(1);
    };
    const auto read = [](shared& s) {
        s.r[0] = s.y.add<order::acquire>(0);
        s.r[1] = s.x.load();
    };
    EXPECT_TRUE(never(mp(write, read), stale));
    EXPECT_TRUE(never(mp(write, read_acquire), stale));
    EXPECT_TRUE(never(mp(write_release, read), stale));
}

TEST(message_passing, relaxed_read_modify_writes_order_nothing) {
    const auto write = [](shared& s) {
        s.x.store(1);
        s.y.add(1);
    };
    EXPECT_TRUE(allowed(mp(write, read_acquire), stale));
}

/// A failed compare-and-swap stores nothing, so it has no release order.
TEST(message_passing, a_failed_compare_and_swap_acquires) {
    const auto read = [](shared& s) {
        s.r[0] = s.y.compare_exchange<order::acq_rel>(7, 8);
        s.r[1] = s.x.load();
    };
    EXPECT_TRUE(never(mp(write_release, read), stale));
    const auto read_weakly = [](shared& s) {
        s.r[0] = s.y.compare_exchange<order::release>(7, 8);
        s.r[1] = s.x.load();
    };
    EXPECT_TRUE(allowed(mp(write_release, read_weakly), stale));
}

/// PTX, observation order: a chain of read-modify-writes hands on the release that began it, whatever their order.
TEST(message_passing, a_release_goes_on_through_read_modify_writes_of_others) {
    const program p{{{in_block(0), write_release},
                     {in_block(1), [](shared& s) { s.y.compare_exchange(1, 2); }},
                     {in_block(2), [](shared& s) {
                          s.r[0] = s.y.load<order::acquire>();
                          s.r[1] = s.x.load();
                      }}}};
    EXPECT_TRUE(never(p, {2, 0}));
    EXPECT_TRUE(allowed(p, {2, 1}));
}

TEST(message_passing, a_release_ends_at_a_store_of_another) {
    const program p{{{in_block(0), write_release},
                     {in_block(1),
                      [](shared& s) {
                          if (s.y.load() == 1) {
                              s.y.store(2);
                          }
                      }},
                     {in_block(2), read_acquire}}};
    EXPECT_TRUE(allowed(p, {2, 0}));
}

/// A later read-modify-write in the chain releases its own thread's writes in addition to those that it passes on.
TEST(message_passing, a_release_in_the_middle_of_a_chain_adds_to_it) {
    const program p{{{in_block(0), write_release},
                     {in_block(1),
                      [](shared& s) {
                          s.z.store(1);
                          s.y.compare_exchange<order::release>(1, 2);
                      }},
                     {in_block(2),
                      [](shared& s) {
                          s.r[0] = s.y.load<order::acquire>();
                          s.r[1] = s.x.load();
                          s.r[2] = s.z.load();
                      }}},
                    3};
    EXPECT_TRUE(never(p, {2, 0, 1}));
    EXPECT_TRUE(never(p, {2, 1, 0}));
    EXPECT_TRUE(never(p, {2, 0, 0}));
    EXPECT_TRUE(allowed(p, {2, 1, 1}));
}

/// In C++20, a later relaxed store of the releasing thread is no part of its release; in PTX it is. Code must work with
/// the weaker rule.
TEST(message_passing, a_later_relaxed_store_does_not_release) {
    const auto write = [](shared& s) {
        s.x.store(1);
        s.y.store<order::release>(2);
        s.z.store(1);
        s.y.store(1);
    };
    const auto read = [](shared& s) {
        s.r[0] = s.y.load<order::acquire>();
        s.r[1] = s.z.load();
    };
    EXPECT_TRUE(allowed(mp(write, read), stale));
}

}  // namespace
}  // namespace orchard::litmus
