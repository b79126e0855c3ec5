// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Collectives of the lanes of a warp: a sync of a mask orders them, the other collectives do not.
///
/// Compared with: CUDA programming guide (`__syncwarp` orders memory accesses of the lanes that take part; shuffle,
/// vote, match and reduce functions imply no memory barrier); PTX ISA, `bar.warp.sync` and causality order.

#include "tests/weak_memory/litmus.hpp"

namespace orchard::litmus {
namespace {

constexpr simt::lane_mask both = 3;

/// Lane 0 writes plainly, the two meet, lane 1 reads plainly.
program within_a_warp(void (*meet)()) {
    return {{{in_block(0),
              [meet](shared& s) {
                  s.x.set(1);
                  meet();
              }},
             {in_block(0),
              [meet](shared& s) {
                  meet();
                  s.r[0] = s.x.get();
              }}},
            1};
}

/// Lane 0 writes, the two meet, lane 1 releases for both; another block acquires and reads.
program leader_releases(void (*meet)()) {
    return {{{in_block(0),
              [meet](shared& s) {
                  s.x.set(1);
                  meet();
              }},
             {in_block(0),
              [meet](shared& s) {
                  meet();
                  s.y.store<order::release>(1);
              }},
             {in_block(1), [](shared& s) {
                  s.r[0] = s.y.load<order::acquire>();
                  s.r[1] = s.r[0] == 1 ? s.x.get() : 2;
              }}}};
}

/// Another block writes and releases; lane 0 acquires for both, the two meet, lane 1 reads.
program leader_acquires(void (*meet)()) {
    return {{{in_block(1),
              [](shared& s) {
                  s.x.set(1);
                  s.y.store<order::release>(1);
              }},
             {in_block(0),
              [meet](shared& s) {
                  s.r[0] = s.y.load<order::acquire>();
                  meet();
              }},
             {in_block(0), [meet](shared& s) {
                  meet();
                  s.r[1] = s.r[0] == 1 ? s.x.get() : 2;
              }}}};
}

void by_sync() { simt::sync(both); }

TEST(warps, a_sync_orders_its_lanes) {
    EXPECT_TRUE(allowed(within_a_warp(by_sync), {1}));
    EXPECT_TRUE(never(within_a_warp(by_sync), {0}));
}

TEST(warps, a_leader_releases_for_those_that_it_was_synced_with) {
    EXPECT_TRUE(allowed(leader_releases(by_sync), {1, 1}));
    EXPECT_TRUE(never(leader_releases(by_sync), {1, 0}));
}

TEST(warps, a_leader_acquires_for_those_that_it_is_synced_with) {
    EXPECT_TRUE(allowed(leader_acquires(by_sync), {1, 1}));
    EXPECT_TRUE(never(leader_acquires(by_sync), {1, 0}));
}

TEST(warps, a_sync_that_lacks_a_lane_does_not_order_it) {
    const program p{{{in_block(0), [](shared& s) { s.x.set(1); }},
                     {in_block(0), [](shared&) { simt::sync(simt::lane_mask{2}); }},
                     {in_block(0),
                      [](shared& s) {
                          simt::sync(simt::lane_mask{4});
                          s.r[0] = s.x.get();
                      }}},
                    1};
    EXPECT_TRUE(races(p));
}

struct collective {
    const char* name;
    void (*meet)();
};

class other_collectives : public testing::TestWithParam<collective> {};

TEST_P(other_collectives, order_nothing) {
    EXPECT_TRUE(races(within_a_warp(GetParam().meet)));
    EXPECT_TRUE(races(leader_releases(GetParam().meet)));
    EXPECT_TRUE(races(leader_acquires(GetParam().meet)));
}

INSTANTIATE_TEST_SUITE_P(warps, other_collectives,
                         testing::Values(collective{"ballot", [] { (void)simt::ballot(both, true); }},
                                         collective{"shuffle", [] { (void)simt::shuffle(both, 1u, 0); }},
                                         collective{"match", [] { (void)simt::match(both, 1u); }},
                                         collective{"reduce_add", [] { (void)simt::reduce_add(both, 1); }},
                                         collective{"reduce_max", [] { (void)simt::reduce_max(both, 1); }},
                                         collective{"reduce_or", [] { (void)simt::reduce_or(both, 1); }}),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace orchard::litmus
