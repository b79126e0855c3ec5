// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Litmus tests: a few threads with a few accesses each, run in very many ways. The set of outcomes is compared with
/// the outcomes that the memory model allows.
///
///     const program mp{{{in_block(0), [](shared& s) { s.x.store(1); s.y.store<order::release>(1); }},
///                       {in_block(1), [](shared& s) { s.r[0] = s.y.load<order::acquire>(); s.r[1] = s.x.load(); }}}};
///     EXPECT_TRUE(never(mp, {1, 0}));
///
/// In the names of tests and in comments, an outcome is written as the registers r0, r1, ... followed by the last
/// values of the words that the program names.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "device/simt/atomic.cuh"
#include "device/simt/explore/simulation.hpp"
#include "device/simt/lane.cuh"

namespace orchard::litmus {

using simt::order;
using simt::scope;
using simt::site;

/// A word for which each access chooses its order and its scope.
class cell {
public:
    template <order O = order::relaxed, scope S = scope::device>
    std::uint32_t load(site where = site::here()) const {
        return static_cast<std::uint32_t>(hooks().load({&value_, 4, O, S, false, where}));
    }
    template <order O = order::relaxed, scope S = scope::device>
    void store(std::uint32_t value, site where = site::here()) {
        will_store({&value_, 4, O, S, false, where}, value, O == order::relaxed);
        hooks().store({&value_, 4, O, S, false, where}, value);
    }
    template <order O = order::relaxed, scope S = scope::device>
    std::uint32_t add(std::uint32_t value, site where = site::here()) {
        const simt::emulated::shared_access a{&value_, 4, O, S, false, where};
        will_store(a, value, false);
        return static_cast<std::uint32_t>(hooks().modify(a, simt::emulated::modification::add, value));
    }
    template <order O = order::relaxed, scope S = scope::device>
    std::uint32_t exchange(std::uint32_t value, site where = site::here()) {
        const simt::emulated::shared_access a{&value_, 4, O, S, false, where};
        will_store(a, value, false);
        return static_cast<std::uint32_t>(hooks().modify(a, simt::emulated::modification::exchange, value));
    }
    /// Returns the value found.
    template <order O = order::relaxed, scope S = scope::device>
    std::uint32_t compare_exchange(std::uint32_t expected, std::uint32_t desired, site where = site::here()) {
        const simt::emulated::shared_access a{&value_, 4, O, S, false, where};
        will_store(a, desired, false);
        std::uint64_t found = expected;
        hooks().compare_exchange(a, simt::detail::failure_order<O>, found, desired);
        return static_cast<std::uint32_t>(found);
    }
    /// Plain accesses.
    std::uint32_t get(site where = site::here()) const {
        return static_cast<std::uint32_t>(hooks().load({&value_, 4, order::relaxed, scope::device, true, where}));
    }
    void set(std::uint32_t value, site where = site::here()) {
        hooks().store({&value_, 4, order::relaxed, scope::device, true, where}, value);
    }

    /// The last value, after a run.
    [[nodiscard]] std::uint32_t last() const { return value_; }

private:
    static simt::emulated::simulation_hooks& hooks() { return *simt::emulated::current_simulation; }
    static void will_store(const simt::emulated::shared_access& a, std::uint32_t value, bool may_be_promised);

    std::uint32_t value_ = 0;
};

/// An acquiring and releasing fence.
template <scope S = scope::device>
void fence(site where = site::here());

/// The words that the threads of a program share, and their results.
struct shared {
    cell x, y, z, a, b;
    std::array<std::uint32_t, 4> r{};  ///< each written by one thread
};

/// Where a thread runs. Threads of one warp are its lanes, in the order in which they are listed.
struct place {
    bool host = false;
    int block = 0;
    int warp = 0;
};
inline constexpr place on_host{true, 0, 0};
constexpr place in_block(int block, int warp = 0) { return {false, block, warp}; }

struct thread {
    place at;
    std::function<void(shared&)> body;
};

struct program {
    std::vector<thread> threads;
    int registers = 2;                          ///< r0 to r(n-1) belong to the outcome
    std::vector<cell shared::*> last_values{};  ///< words whose last values are part of the outcome
    bool races_are_violations = true;
};

using outcome = std::vector<std::uint32_t>;

/// The outcomes of all runs.
struct outcomes {
    std::map<outcome, int> seen;            ///< how often
    std::map<std::string, int> violations;  ///< how often, by text
    bool searched_all = false;              ///< whether the exhaustive search came to its end
    [[nodiscard]] std::string text() const;
};

/// The extent of the search. It takes every run of at most this many surprises.
struct effort {
    int seeds = 1000;  ///< with each strategy
    std::uint32_t surprises = 3;
    int max_runs = 4'000;  ///< of the search
};

/// Runs it with both strategies and by bounded search.
outcomes explore(const program& p, const effort& how = {});

/// Runs the program with one store promised in each run (`weak_memory::promise`), so that loads may see later stores.
/// Only runs that keep their promise count. The threads may neither wait nor pause.
outcomes explore_with_promises(const program& p, int seeds = 3000);

/// Returns whether `o` never occurred, and no violation either.
testing::AssertionResult never(const program& p, const outcome& o);
/// Returns whether `o` occurred at least once, and no violation.
testing::AssertionResult allowed(const program& p, const outcome& o);
/// Returns whether some run has a violation with this text.
testing::AssertionResult is_violation(const program& p, const std::string& text);
/// Returns whether some run has a race.
testing::AssertionResult races(const program& p);

/// As `never` and `allowed`, with promises.
testing::AssertionResult never_with_promises(const program& p, const outcome& o);
testing::AssertionResult allowed_with_promises(const program& p, const outcome& o);

namespace detail {
void will_fence();
}

template <scope S>
void fence(site where) {
    detail::will_fence();
    simt::fence<S>(where);
}

}  // namespace orchard::litmus
