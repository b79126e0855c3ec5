// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Scopes along a chain of read-modify-writes: one thread releases, another thread's read-modify-write passes that on,
/// a third acquires. The third is ordered after the first if the scopes of the two include each other, and if each link
/// of the chain reaches the next. The outcome in question: the last value was seen, the data was not.
///
/// Compared with: PTX ISA, memory consistency model: observation order has morally strong links, and the synchronizing
/// operations are morally strong, whatever lies between them.

#include "tests/weak_memory/litmus.hpp"

namespace orchard::litmus {
namespace {

template <scope S>
void release(shared& s) {
    s.x.store(1);
    s.y.store<order::release, S>(1);
}
template <scope S>
void hand_on(shared& s) {
    s.y.compare_exchange<order::relaxed, S>(1, 2);
}
template <scope S>
void acquire(shared& s) {
    s.r[0] = s.y.load<order::acquire, S>();
    s.r[1] = s.x.load();
}
const outcome stale_chain{2, 0};

program chain(thread first, thread middle, thread last) {
    return {{std::move(first), std::move(middle), std::move(last)}};
}

TEST(scoped_chains, all_of_device_scope_order) {
    EXPECT_TRUE(never(chain({in_block(0), release<scope::device>}, {in_block(1), hand_on<scope::device>},
                            {in_block(2), acquire<scope::device>}),
                      stale_chain));
}

TEST(scoped_chains, a_middle_of_too_narrow_a_scope_breaks_the_chain) {
    EXPECT_TRUE(allowed(chain({in_block(0), release<scope::device>}, {in_block(1), hand_on<scope::block>},
                              {in_block(1, 1), acquire<scope::device>}),
                        stale_chain));
}

TEST(scoped_chains, an_acquire_that_reaches_the_middle_does_not_reach_the_first) {
    EXPECT_TRUE(allowed(chain({in_block(0), release<scope::device>}, {in_block(1), hand_on<scope::device>},
                              {in_block(1, 1), acquire<scope::block>}),
                        stale_chain));
    EXPECT_TRUE(never(chain({in_block(0), release<scope::device>}, {in_block(1), hand_on<scope::device>},
                            {in_block(1, 1), acquire<scope::device>}),
                      stale_chain));
}

TEST(scoped_chains, a_release_of_too_narrow_a_scope_is_not_widened) {
    EXPECT_TRUE(allowed(chain({in_block(0), release<scope::block>}, {in_block(0, 1), hand_on<scope::device>},
                              {in_block(1), acquire<scope::device>}),
                        stale_chain));
}

/// First and last are of one block, and a fence of that block is enough for them, although the middle is of another:
/// the accesses reach each other by their own scopes.
TEST(scoped_chains, a_narrow_fence_is_enough_where_the_ends_are_of_one_block) {
    const auto last = [](shared& s) {
        s.r[0] = s.y.load();
        fence<scope::block>();
        s.r[1] = s.x.load();
    };
    EXPECT_TRUE(never(
        chain({in_block(0), release<scope::device>}, {in_block(1), hand_on<scope::device>}, {in_block(0, 1), last}),
        stale_chain));
    const auto acquire_and_hand_on = [](shared& s) { s.y.compare_exchange<order::acq_rel>(1, 2); };
    EXPECT_TRUE(
        never(chain({in_block(0), release<scope::device>}, {in_block(1), acquire_and_hand_on}, {in_block(0, 1), last}),
              stale_chain));
    EXPECT_TRUE(allowed(
        chain({in_block(0), release<scope::device>}, {in_block(1), hand_on<scope::device>}, {in_block(2), last}),
        stale_chain));
}

/// A fence of device scope before a store of block scope: the store need only reach the next link.
TEST(scoped_chains, a_wide_fence_before_a_narrow_store_reaches_through_the_chain) {
    const auto first = [](shared& s) {
        s.x.store(1);
        fence<scope::device>();
        s.y.store<order::relaxed, scope::block>(1);
    };
    EXPECT_TRUE(never(
        chain({in_block(0), first}, {in_block(0, 1), hand_on<scope::device>}, {in_block(1), acquire<scope::device>}),
        stale_chain));
}

}  // namespace
}  // namespace orchard::litmus
