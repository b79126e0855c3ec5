// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Store buffering (SB): each of two threads stores to one word and then reads the other's. {0, 0}: neither saw the
/// other.
///
/// Compared with: PTX ISA, memory consistency model: only a fence.sc on both sides forbids it, and the seam has none;
/// Lustig et al., ASPLOS 2019 (SB). Alglave et al., ASPLOS 2015, observed SB on all GPUs that they tried.

#include "tests/weak_memory/litmus.hpp"

namespace orchard::litmus {
namespace {

program sb(std::function<void(shared&)> left, std::function<void(shared&)> right) {
    return {{{in_block(0), std::move(left)}, {in_block(1), std::move(right)}}};
}

template <order Store, order Load>
program sb_of() {
    return sb(
        [](shared& s) {
            s.x.store<Store>(1);
            s.r[0] = s.y.load<Load>();
        },
        [](shared& s) {
            s.y.store<Store>(1);
            s.r[1] = s.x.load<Load>();
        });
}

TEST(store_buffering, relaxed_is_allowed) {
    EXPECT_TRUE(allowed((sb_of<order::relaxed, order::relaxed>()), {0, 0}));
    EXPECT_TRUE(allowed((sb_of<order::relaxed, order::relaxed>()), {1, 1}));
    EXPECT_TRUE(allowed((sb_of<order::relaxed, order::relaxed>()), {0, 1}));
}

TEST(store_buffering, release_and_acquire_do_not_forbid_it) {
    EXPECT_TRUE(allowed((sb_of<order::release, order::acquire>()), {0, 0}));
}

TEST(store_buffering, acquiring_and_releasing_fences_do_not_forbid_it) {
    const program p = sb(
        [](shared& s) {
            s.x.store(1);
            fence();
            s.r[0] = s.y.load();
        },
        [](shared& s) {
            s.y.store(1);
            fence();
            s.r[1] = s.x.load();
        });
    EXPECT_TRUE(allowed(p, {0, 0}));
}

/// One of two read-modify-writes of one word is later than the other, and acquires the writes that the other released.
TEST(store_buffering, read_modify_writes_of_a_third_word_forbid_it) {
    const program p = sb(
        [](shared& s) {
            s.x.store(1);
            s.z.add<order::acq_rel>(1);
            s.r[0] = s.y.load();
        },
        [](shared& s) {
            s.y.store(1);
            s.z.add<order::acq_rel>(1);
            s.r[1] = s.x.load();
        });
    EXPECT_TRUE(never(p, {0, 0}));
    EXPECT_TRUE(allowed(p, {0, 1}));
    EXPECT_TRUE(allowed(p, {1, 0}));
}

}  // namespace
}  // namespace orchard::litmus
