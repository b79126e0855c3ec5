// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Where a simulation's choices come from: a seed, a record, or an exhaustive search. All that is not determined in a
/// run is asked for here, so that the same choices give the same run.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace orchard::simt::explore {

/// A lane or a host thread of a simulation.
using actor_id = std::uint32_t;

/// What is chosen. Possibility 0 is always the plain one, which a machine that surprises nobody would take.
enum class decision : std::uint8_t {
    actor,     ///< who goes on; 0: who ran last, if it can
    version,   ///< which version of a word a load sees; 0: the newest
    place,     ///< where a store comes among stores of others that its writer has not seen; 0: behind all of them
    alone,     ///< 1: a lane leaves a `converge` without waiting for those of its warp that still run
    group,     ///< 1: only some of the lanes that wait in a `converge` leave it together
    member,    ///< 1: this one does not
    delay,     ///< 1: the actor stands still for long
    scenario,  ///< what a scenario asks for itself
};

/// A pseudo-random sequence: the same on every machine. Method: splitmix64 (Steele et al., OOPSLA 2014).
class random_sequence {
public:
    explicit random_sequence(std::uint64_t seed) : state_{seed} {}
    std::uint64_t next();
    /// 0 to n - 1. @param n at least 1
    std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>((next() >> 32) * n >> 32); }
    /// True once in `n` times; never where `n` is 0.
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

    /// One of `n` possibilities, 0 to n - 1. @param n at least 1
    std::uint32_t choose(decision what, std::uint32_t n) { return n == 1 ? 0 : note(pick(what, n)); }
    /// Returns an index into `eligible`, whose first is the actor that ran last where `can_go_on`.
    std::uint32_t choose_actor(std::span<const actor_id> eligible, bool can_go_on) {
        return eligible.size() == 1 ? 0 : note(pick_actor(eligible, can_go_on));
    }
    /// An actor waits of its own will: others are to come first.
    virtual void yielded(actor_id) {}

    /// What was chosen so far.
    [[nodiscard]] const std::vector<std::uint32_t>& record() const { return record_; }

protected:
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
    uniform,   ///< every eligible actor is as likely; how often the rest surprises is drawn once a run
    priority,  ///< the eligible actor of highest priority goes on; priorities change at a few random points
};

/// The name as the command line takes it.
const char* name_of(strategy s);

/// Source of `priority`: Burckhardt et al., A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs
/// (PCT), ASPLOS 2010; an actor that waits of its own will falls behind all others, since a waiting loop would
/// otherwise keep whom it waits for from running.
std::unique_ptr<choices> choices_of(strategy s, std::uint64_t seed);

/// As `strategy::priority`, with `changes` points where priorities change among the first `horizon` choices of the
/// next actor, and none of the machine's other surprises: to look for faults of known depth.
std::unique_ptr<choices> priority_choices(std::uint64_t seed, std::uint32_t changes, std::uint32_t horizon);

/// The choices of an earlier run; 0 where the record ends or says more than there is. Used to shrink a failing run.
std::unique_ptr<choices> recorded_choices(std::vector<std::uint32_t> record);

/// Every run that takes at most so many possibilities other than 0 (a switch where the last actor could go on, an old
/// version, a divided group, ...), one after another, depth first. Delays are left out: they change only how long
/// things take. Throws std::logic_error through the run where a program does not repeat itself under the same choices.
class bounded_search {
public:
    /// @param surprises how many choices of a run may be other than 0; actors are also chosen freely where the last
    ///                  one cannot go on
    explicit bounded_search(std::uint32_t surprises) : surprises_{surprises} {}
    bounded_search(const bounded_search&) = delete;
    bounded_search& operator=(const bounded_search&) = delete;

    /// The next run's choices; valid until the next call. Null when all were made.
    choices* next();

private:
    struct node {
        std::uint32_t chosen;
        std::uint32_t count;     ///< possibilities that the budget leaves
        std::uint32_t possible;  ///< possibilities that there were
        bool free;               ///< costs nothing
    };
    class run;

    std::uint32_t surprises_;
    bool begun_ = false;
    std::vector<node> path_;
    std::shared_ptr<run> run_;
};

}  // namespace orchard::simt::explore
