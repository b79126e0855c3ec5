// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Words that host and device share: they arrive in any order, the device never modifies them in one step, and they
/// arrive eventually.
///
/// Compared with: PTX ISA, memory consistency model (system scope). PCI Express does not order any two of the device's
/// reads, and the design does not rely on an order of its writes either. Read-modify-writes of the device over PCI
/// Express are not available on all platforms.

#include "tests/weak_memory/litmus.hpp"
#include "tests/weak_memory/one_run.hpp"

namespace orchard::litmus {
namespace {

constexpr scope wide = scope::system;

void store_both(shared& s) {
    s.x.store<order::relaxed, wide>(1);
    s.y.store<order::relaxed, wide>(1);
}
void load_both(shared& s) {
    s.r[0] = s.y.load<order::acquire, wide>();
    s.r[1] = s.x.load<order::acquire, wide>();
}

TEST(host_words, arrive_in_any_order) {
    EXPECT_TRUE(allowed({{{in_block(0), store_both}, {on_host, load_both}}}, {1, 0}));
    EXPECT_TRUE(allowed({{{in_block(0), store_both}, {on_host, load_both}}}, {0, 1}));
    EXPECT_TRUE(allowed({{{on_host, store_both}, {in_block(0), load_both}}}, {1, 0}));
    EXPECT_TRUE(allowed({{{on_host, store_both}, {in_block(0), load_both}}}, {0, 1}));
}

/// One stores x; one has read that and stores z; one has read z and stores x. {1, 1, 1}: the last store came in front.
template <scope S>
program store_after_a_look(place reader) {
    return {{{in_block(0), [](shared& s) { s.x.store<order::relaxed, S>(1); }},
             {reader,
              [](shared& s) {
                  s.r[0] = s.x.load<order::relaxed, S>();
                  s.z.store<order::relaxed, S>(1);
              }},
             {in_block(1),
              [](shared& s) {
                  s.r[1] = s.z.load<order::relaxed, S>();
                  s.x.store<order::relaxed, S>(2);
              }}},
            2,
            {&shared::x}};
}

/// Stronger than PTX, which allows this outcome: a value that the host has read is in its memory, and later stores are
/// ordered after it.
TEST(host_words, a_store_comes_behind_what_the_host_has_read) {
    EXPECT_TRUE(never(store_after_a_look<wide>(on_host), {1, 1, 1}));
    EXPECT_TRUE(allowed(store_after_a_look<wide>(on_host), {1, 1, 2}));
    EXPECT_TRUE(allowed(store_after_a_look<scope::device>(in_block(2)), {1, 1, 1}));
}

TEST(host_words, may_not_be_modified_by_the_device) {
    const auto add = [](shared& s) { s.x.add<order::relaxed, wide>(1); };
    const auto swap = [](shared& s) { s.x.compare_exchange<order::relaxed, wide>(1, 2); };
    EXPECT_TRUE(is_violation({{{in_block(0), add}}}, "read-modify-write of host-visible memory"));
    EXPECT_TRUE(is_violation({{{in_block(0), swap}}}, "read-modify-write of host-visible memory"));
}

TEST(host_words, may_be_modified_by_the_host) {
    const auto add = [](shared& s) { s.x.add<order::relaxed, wide>(1); };
    EXPECT_TRUE(allowed({{{on_host, add}, {on_host, add}}, 0, {&shared::x}}, {2}));
    EXPECT_TRUE(never({{{on_host, add}, {on_host, add}}, 0, {&shared::x}}, {1}));
}

/// Everything as late as can be: the oldest version of every word, and turns for all.
class slowest final : public simt::explore::choices {
protected:
    std::uint32_t pick(simt::explore::decision what, std::uint32_t n) override {
        return what == simt::explore::decision::version ? n - 1 : 0;
    }
    std::uint32_t pick_actor(std::span<const simt::explore::actor_id> eligible, bool) override {
        return ++turns_ % static_cast<std::uint32_t>(eligible.size());
    }

private:
    std::uint32_t turns_ = 0;
};

/// Progress: a loop that waits for a store by relaxed loads ends (runs are bounded).
TEST(visibility, a_store_is_seen_some_time) {
    const program p{{{in_block(0), [](shared& s) { s.x.store(1); }},
                     {in_block(1),
                      [](shared& s) {
                          while (s.x.load() == 0) {
                              simt::pause(100);
                          }
                          s.r[0] = 1;
                      }}},
                    1};
    EXPECT_TRUE(allowed(p, {1}));
    slowest from;
    outcomes all;
    one_run(p, from).count(all);
    EXPECT_TRUE(all.seen.contains({1})) << all.text();
}

/// The loop really waits: it sees old values for a while.
TEST(visibility, a_store_may_be_seen_late) {
    const program p{{{in_block(0),
                      [](shared& s) {
                          s.x.store(1);
                          s.y.store(1);
                      }},
                     {in_block(1), [](shared& s) {
                          while (s.y.load() == 0) {
                              simt::pause(100);
                          }
                          s.r[0] = s.x.load();
                          s.r[1] = s.x.load();
                      }}}};
    EXPECT_TRUE(allowed(p, {0, 0}));
    EXPECT_TRUE(allowed(p, {0, 1}));
}

}  // namespace
}  // namespace orchard::litmus
