// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Scopes: operations that provide order or coherence within a block do not affect another block, nor the host.
///
/// Compared with: PTX ISA, memory consistency model: morally strong operations (each names a scope that includes both
/// threads), and its rules for release patterns, observation order and synchronization; Lustig et al., ASPLOS 2019,
/// scoped MP and SB.

#include "tests/weak_memory/litmus.hpp"

namespace orchard::litmus {
namespace {

/// Message passing with the release and the acquire at the given scopes. {1, 0}: not ordered.
template <scope Writer, scope Reader>
program mp(place writer, place reader) {
    return {{{writer,
              [](shared& s) {
                  s.x.store<order::relaxed, Writer>(1);
                  s.y.store<order::release, Writer>(1);
              }},
             {reader, [](shared& s) {
                  s.r[0] = s.y.load<order::acquire, Reader>();
                  s.r[1] = s.x.load<order::relaxed, Reader>();
              }}}};
}
const outcome stale{1, 0};

TEST(scopes, block_scope_orders_within_a_block) {
    EXPECT_TRUE(never((mp<scope::block, scope::block>(in_block(0), in_block(0, 1))), stale));
    EXPECT_TRUE(never((mp<scope::block, scope::device>(in_block(0), in_block(0, 1))), stale));
    EXPECT_TRUE(never((mp<scope::device, scope::block>(in_block(0), in_block(0))), stale));
}

TEST(scopes, block_scope_does_not_order_across_blocks) {
    EXPECT_TRUE(allowed((mp<scope::block, scope::block>(in_block(0), in_block(1))), stale));
    EXPECT_TRUE(allowed((mp<scope::block, scope::device>(in_block(0), in_block(1))), stale));
    EXPECT_TRUE(allowed((mp<scope::device, scope::block>(in_block(0), in_block(1))), stale));
    EXPECT_TRUE(never((mp<scope::device, scope::device>(in_block(0), in_block(1))), stale));
    EXPECT_TRUE(never((mp<scope::system, scope::device>(in_block(0), in_block(1))), stale));
}

TEST(scopes, only_system_scope_orders_device_and_host) {
    EXPECT_TRUE(allowed((mp<scope::device, scope::device>(in_block(0), on_host)), stale));
    EXPECT_TRUE(allowed((mp<scope::device, scope::system>(in_block(0), on_host)), stale));
    EXPECT_TRUE(allowed((mp<scope::system, scope::device>(on_host, in_block(0))), stale));
    EXPECT_TRUE(never((mp<scope::system, scope::system>(in_block(0), on_host)), stale));
    EXPECT_TRUE(never((mp<scope::system, scope::system>(on_host, in_block(0))), stale));
    EXPECT_TRUE(never((mp<scope::system, scope::system>(on_host, on_host)), stale));
}

template <scope Writer, scope Reader, scope Access>
program fenced_mp(place writer, place reader) {
    return {{{writer,
              [](shared& s) {
                  s.x.store(1);
                  fence<Writer>();
                  s.y.store<order::relaxed, Access>(1);
              }},
             {reader, [](shared& s) {
                  s.r[0] = s.y.load<order::relaxed, Access>();
                  fence<Reader>();
                  s.r[1] = s.x.load();
              }}}};
}

constexpr scope block = scope::block;
constexpr scope device = scope::device;

TEST(scopes, a_fence_has_a_scope_of_its_own) {
    EXPECT_TRUE(allowed((fenced_mp<block, block, device>(in_block(0), in_block(1))), stale));
    EXPECT_TRUE(allowed((fenced_mp<block, device, device>(in_block(0), in_block(1))), stale));
    EXPECT_TRUE(allowed((fenced_mp<device, block, device>(in_block(0), in_block(1))), stale));
    EXPECT_TRUE(allowed((fenced_mp<device, device, block>(in_block(0), in_block(1))), stale));
    EXPECT_TRUE(never((fenced_mp<device, device, device>(in_block(0), in_block(1))), stale));
    EXPECT_TRUE(never((fenced_mp<block, block, device>(in_block(0), in_block(0, 1))), stale));
    EXPECT_TRUE(never((fenced_mp<device, device, block>(in_block(0), in_block(0, 1))), stale));
}

template <scope S>
program corr(place writer, place reader) {
    return {{{writer, [](shared& s) { s.x.store<order::relaxed, S>(1); }}, {reader, [](shared& s) {
                                                                                s.r[0] = s.x.load<order::relaxed, S>();
                                                                                s.r[1] = s.x.load<order::relaxed, S>();
                                                                            }}}};
}

TEST(scopes, coherence_has_a_scope) {  // CoRR
    EXPECT_TRUE(never(corr<scope::block>(in_block(0), in_block(0, 1)), {1, 0}));
    EXPECT_TRUE(allowed(corr<scope::block>(in_block(0), in_block(1)), {1, 0}));
    EXPECT_TRUE(never(corr<scope::device>(in_block(0), in_block(1)), {1, 0}));
    EXPECT_TRUE(allowed(corr<scope::device>(in_block(0), on_host), {1, 0}));
    EXPECT_TRUE(never(corr<scope::system>(in_block(0), on_host), {1, 0}));
}

template <scope S>
program sb(place left, place right) {
    return {{{left,
              [](shared& s) {
                  s.x.store<order::release, S>(1);
                  s.r[0] = s.y.load<order::acquire, S>();
              }},
             {right, [](shared& s) {
                  s.y.store<order::release, S>(1);
                  s.r[1] = s.x.load<order::acquire, S>();
              }}}};
}

TEST(scopes, no_scope_forbids_store_buffering) {
    EXPECT_TRUE(allowed(sb<scope::block>(in_block(0), in_block(0)), {0, 0}));
    EXPECT_TRUE(allowed(sb<scope::device>(in_block(0), in_block(1)), {0, 0}));
    EXPECT_TRUE(allowed(sb<scope::system>(in_block(0), on_host), {0, 0}));
}

/// Synchronizations of different scopes add up to one order (ISA2 with scopes; Lustig et al.).
TEST(scopes, order_goes_on_from_a_narrow_scope_into_a_wide_one) {
    const auto middle = [](shared& s) {
        s.r[0] = s.y.load<order::acquire, scope::block>();
        s.z.store<order::release>(1);
    };
    const auto last = [](shared& s) {
        s.r[1] = s.z.load<order::acquire>();
        s.r[2] = s.x.load();
    };
    const auto first = [](shared& s) {
        s.x.store(1);
        s.y.store<order::release, scope::block>(1);
    };
    EXPECT_TRUE(never({{{in_block(0), first}, {in_block(0, 1), middle}, {in_block(1), last}}, 3}, {1, 1, 0}));
    EXPECT_TRUE(allowed({{{in_block(0), first}, {in_block(2), middle}, {in_block(1), last}}, 3}, {1, 1, 0}));
}

TEST(scopes, order_goes_on_from_a_wide_scope_into_a_narrow_one) {
    const program p{{{on_host,
                      [](shared& s) {
                          s.x.store<order::relaxed, scope::system>(1);
                          s.y.store<order::release, scope::system>(1);
                      }},
                     {in_block(0),
                      [](shared& s) {
                          s.r[0] = s.y.load<order::acquire, scope::system>();
                          s.z.store<order::release, scope::block>(1);
                      }},
                     {in_block(0, 1),
                      [](shared& s) {
                          s.r[1] = s.z.load<order::acquire, scope::block>();
                          s.r[2] = s.x.load<order::relaxed, scope::system>();
                      }}},
                    3};
    EXPECT_TRUE(never(p, {1, 1, 0}));
    EXPECT_TRUE(allowed(p, {1, 1, 1}));
}

}  // namespace
}  // namespace orchard::litmus
