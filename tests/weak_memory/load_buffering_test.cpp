// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Load buffering (LB): each of two threads reads the word that the other stores afterwards. {1, 1}: both loads saw the
/// later stores.
///
/// Compared with: PTX ISA, memory consistency model. The causality axiom forbids this if both sides synchronize, and
/// the axiom of no thin air forbids it if both have dependencies; otherwise it is allowed. Promises and their
/// certification are from Kang et al., POPL 2017 (LB, LBd, LBfd). Alglave et al., ASPLOS 2015, observed LB on several
/// NVIDIA GPUs.

#include "tests/weak_memory/litmus.hpp"

namespace orchard::litmus {
namespace {

program lb(std::function<void(shared&)> left, std::function<void(shared&)> right) {
    return {{{in_block(0), std::move(left)}, {in_block(1), std::move(right)}}};
}

void left(shared& s) {
    s.r[0] = s.x.load();
    s.y.store(1);
}
void right(shared& s) {
    s.r[1] = s.y.load();
    s.x.store(1);
}
void copy_x_to_y(shared& s) {
    s.r[0] = s.x.load();
    s.y.store(s.r[0]);
}
void copy_y_to_x(shared& s) {
    s.r[1] = s.y.load();
    s.x.store(s.r[1]);
}

/// Not modelled: in runs without promises no load sees a later store.
TEST(load_buffering, is_not_seen_without_promises) { EXPECT_TRUE(never(lb(left, right), {1, 1})); }

TEST(load_buffering, relaxed_is_allowed) { EXPECT_TRUE(allowed_with_promises(lb(left, right), {1, 1})); }

TEST(load_buffering, one_dependency_does_not_forbid_it) {
    EXPECT_TRUE(allowed_with_promises(lb(left, copy_y_to_x), {1, 1}));
    EXPECT_TRUE(allowed_with_promises(lb(copy_x_to_y, right), {1, 1}));
}

/// No thin air: no thread stores a 1 that it has not read.
TEST(load_buffering, dependencies_on_both_sides_forbid_it) {
    EXPECT_TRUE(never_with_promises(lb(copy_x_to_y, copy_y_to_x), {1, 1}));
}

TEST(load_buffering, conditions_on_both_sides_forbid_it) {
    const auto if_x = [](shared& s) {
        s.r[0] = s.x.load();
        if (s.r[0] == 1) {
            s.y.store(1);
        }
    };
    const auto if_y = [](shared& s) {
        s.r[1] = s.y.load();
        if (s.r[1] == 1) {
            s.x.store(1);
        }
    };
    EXPECT_TRUE(never_with_promises(lb(if_x, if_y), {1, 1}));
    EXPECT_TRUE(allowed_with_promises(lb(left, if_y), {1, 1}));
}

/// A false dependency: both branches store the same value, so a compiler may remove it (Kang et al., LBfd).
TEST(load_buffering, a_false_dependency_does_not_forbid_it) {
    const auto either = [](shared& s) {
        s.r[1] = s.y.load();
        if (s.r[1] == 1) {
            s.x.store(1);
        } else {
            s.x.store(1);
        }
    };
    EXPECT_TRUE(allowed_with_promises(lb(copy_x_to_y, either), {1, 1}));
}

/// The right thread, alone at first, would store 1. Once it has read y, it stores what z holds, which is 1 only because
/// its promise was believed: certification at each later point excludes this.
TEST(load_buffering, a_promise_does_not_justify_itself) {
    const auto believe = [](shared& s) {
        s.r[0] = s.x.load();
        if (s.r[0] == 1) {
            s.z.store(1);
            s.y.store<order::release>(1);
        }
    };
    const auto lean = [](shared& s) {
        s.r[1] = s.y.load<order::acquire>();
        s.x.store(s.r[1] == 0 ? 1 : s.z.load());
    };
    EXPECT_TRUE(never_with_promises(lb(believe, lean), {1, 1}));
    const auto lean_relaxed = [](shared& s) {
        s.r[1] = s.y.load();
        if (s.r[1] == 0) {
            s.x.store(1);
            return;
        }
        s.r[2] = s.z.load();
        s.x.store(s.r[2]);
    };
    const auto believe_late = [](shared& s) {
        s.r[0] = s.x.load();
        if (s.r[0] == 1) {
            s.y.store(1);
            s.z.store(1);
        }
    };
    program p = lb(believe_late, lean_relaxed);
    p.registers = 3;
    EXPECT_TRUE(never_with_promises(p, {1, 1, 1}));
}

TEST(load_buffering, release_and_acquire_on_both_sides_forbid_it) {
    const auto l = [](shared& s) {
        s.r[0] = s.x.load<order::acquire>();
        s.y.store<order::release>(1);
    };
    const auto r = [](shared& s) {
        s.r[1] = s.y.load<order::acquire>();
        s.x.store<order::release>(1);
    };
    EXPECT_TRUE(never_with_promises(lb(l, r), {1, 1}));
}

/// One synchronization is enough: the load of x is before the store to x that it would see.
TEST(load_buffering, release_to_acquire_on_one_side_forbids_it) {
    const auto l = [](shared& s) {
        s.r[0] = s.x.load();
        s.y.store<order::release>(1);
    };
    const auto r = [](shared& s) {
        s.r[1] = s.y.load<order::acquire>();
        s.x.store(1);
    };
    EXPECT_TRUE(never_with_promises(lb(l, r), {1, 1}));
}

TEST(load_buffering, fences_on_both_sides_forbid_it) {
    const auto l = [](shared& s) {
        s.r[0] = s.x.load();
        fence();
        s.y.store(1);
    };
    const auto r = [](shared& s) {
        s.r[1] = s.y.load();
        fence();
        s.x.store(1);
    };
    EXPECT_TRUE(never_with_promises(lb(l, r), {1, 1}));
    EXPECT_TRUE(allowed_with_promises(lb(l, right), {1, 1}));
}

/// The promise was made as if no fence came before its store; if the thread executes a fence first, it is not kept.
TEST(load_buffering, a_promise_does_not_pass_a_fence) {
    const auto l = [](shared& s) {
        s.r[0] = s.x.load<order::acquire>();
        s.y.store(1);
    };
    const auto r = [](shared& s) {
        s.r[1] = s.y.load();
        if (s.r[1] == 1) {
            fence();
        }
        s.x.store(1);
    };
    EXPECT_TRUE(never_with_promises(lb(l, r), {1, 1}));
}

}  // namespace
}  // namespace orchard::litmus
