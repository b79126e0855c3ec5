// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Where a simulation's choices come from: a seed, a record, or an exhaustive search. Everything that is not determined
/// in a run is asked for here, so that the same choices give the same run.
///
///     the run asks                     possibilities                       chosen    record
///     which actor continues            lane 0 (ran last), lane 1, host       1       1
///     which version lane 1 loads       newest, one older                     0       1 0
///     whether the host is delayed      no, yes                               0       1 0 0
///
/// A question with one possibility is not asked, and is not in the record.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace orchard::simt::explore {

/// A lane or a host thread of a simulation.
using actor_id = std::uint32_t;

/// The kinds of choice. Possibility 0 is always the one without a surprise, which an in-order machine with strong
/// memory would take.
enum class decision : std::uint8_t {
    actor,     ///< the actor that continues; 0: the one that ran last, if it can
    version,   ///< the version of a word that a load sees; 0: the newest
    place,     ///< the position of a store among other actors' stores that its writer has not seen; 0: after all of
               ///< them
    alone,     ///< 1: a lane leaves a `converge` without waiting for those of its warp that still run
    group,     ///< 1: only some of the lanes that wait in a `converge` leave it together
    member,    ///< 1: this lane does not leave it
    delay,     ///< 1: the actor is delayed for long
    scenario,  ///< a choice that a scenario asks for
};

/// A pseudo-random sequence that is the same on every machine. Method: splitmix64 (Steele et al., OOPSLA 2014).
class random_sequence {
public:
    explicit random_sequence(std::uint64_t seed) : state_{seed} {}
    std::uint64_t next();
    /// Returns a number from 0 to n - 1. @param n at least 1
    std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>((next() >> 32) * n >> 32); }
    /// Returns true once in `n` times on average; never if `n` is 0.
    bool once_in(std::uint32_t n) { return n != 0 && below(n) == 0; }

private:
    std::uint64_t state_;
};

/// A source of choices for one run.
class choices {
public:
    choices() = default;
    choices(const choices&) = delete;
    choices& operator=(const choices&) = delete;
    virtual ~choices() = default;

    /// Returns one of `n` possibilities, 0 to n - 1. @param n at least 1
    std::uint32_t choose(decision what, std::uint32_t n) { return n == 1 ? 0 : note(pick(what, n)); }
    /// Returns an index into `eligible`. If `can_go_on`, the first element is the actor that ran last.
    std::uint32_t choose_actor(std::span<const actor_id> eligible, bool can_go_on) {
        return eligible.size() == 1 ? 0 : note(pick_actor(eligible, can_go_on));
    }
    /// Notes that an actor waits voluntarily (`pause`): other actors should run first. Only `priority` uses it.
    virtual void yielded(actor_id) {}

    /// Returns the choices so far.
    [[nodiscard]] const std::vector<std::uint32_t>& record() const { return record_; }

protected:
    // The same questions for the source itself, which does not see those with one possibility.
    virtual std::uint32_t pick(decision what, std::uint32_t n) = 0;
    virtual std::uint32_t pick_actor(std::span<const actor_id> eligible, bool can_go_on) = 0;

private:
    std::uint32_t note(std::uint32_t chosen) {
        record_.push_back(chosen);
        return chosen;
    }
    std::vector<std::uint32_t> record_;
};

/// How a seed is turned into choices.
enum class strategy : std::uint8_t {
    uniform,   ///< every eligible actor has the same probability; the rate of other surprises is drawn once a run
    priority,  ///< the eligible actor of the highest priority continues; priorities change at a few random points
};

/// Returns the strategy's name on the command line.
const char* name_of(strategy s);

/// Returns the choices of a seed. Source of `priority`: Burckhardt et al., A Randomized Scheduler with Probabilistic
/// Guarantees of Finding Bugs (PCT), ASPLOS 2010. An actor that waits voluntarily gets the lowest priority; otherwise
/// its waiting loop would keep the actor that it waits for from running.
std::unique_ptr<choices> choices_of(strategy s, std::uint64_t seed);

/// Returns the choices of a seed as `strategy::priority`, with `changes` points where priorities change among the first
/// `horizon` choices of an actor, and no other surprises: for the search of faults of known depth.
std::unique_ptr<choices> priority_choices(std::uint64_t seed, std::uint32_t changes, std::uint32_t horizon);

/// Returns the choices of an earlier run; 0 after the end of the record, or if the record exceeds the possibilities.
/// For shrinking a failing run.
std::unique_ptr<choices> recorded_choices(std::vector<std::uint32_t> record);

/// Produces every run that takes at most a given number of possibilities other than 0 (a switch although the last actor
/// could continue, an old version, a divided group, ...), one after another, depth first. Delays are excluded, since
/// they change only how long things take. If a program does not repeat itself under the same choices, the run throws
/// std::logic_error.
class bounded_search {
public:
    /// @param surprises  the most choices of a run that are not 0; the choice of an actor is free if the last one
    ///   cannot continue
    explicit bounded_search(std::uint32_t surprises) : surprises_{surprises} {}
    bounded_search(const bounded_search&) = delete;
    bounded_search& operator=(const bounded_search&) = delete;

    /// Returns the next run's choices, valid until the next call; null after the last run.
    choices* next();

private:
    struct node {
        std::uint32_t chosen;
        std::uint32_t count;     ///< number of possibilities that the budget allows
        std::uint32_t possible;  ///< number of possibilities that there were
        bool free;               ///< does not count as a surprise
    };
    class run;

    std::uint32_t surprises_;
    bool begun_ = false;
    std::vector<node> path_;  // the choices of the current run; between runs, those that the next one begins with
    std::shared_ptr<run> run_;
};

}  // namespace orchard::simt::explore
