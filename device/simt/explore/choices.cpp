// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The sources of choices; see choices.hpp.
///
///     random_choices           a random actor, surprises at random rates            strategy uniform
///       choices_by_priority    the actor of the highest priority; the same rates    strategy priority
///     replayed_choices         a record                                             to repeat and to shrink a run
///     bounded_search::run      a path of a depth-first search                       exhaustive search

#include "device/simt/explore/choices.hpp"

#include <algorithm>
#include <initializer_list>
#include <stdexcept>
#include <utility>

#include "device/simt/random.hpp"

namespace orchard::simt::explore {

namespace {

/// The rates of surprises. They are drawn once a run, so that a run may have few surprises of one kind and many of
/// another. Each is "once in n"; 0: never.
struct temper {
    std::uint32_t switch_;
    std::uint32_t version;
    std::uint32_t place;
    std::uint32_t alone;
    std::uint32_t group;
    std::uint32_t delay;
};

/// Returns one of the values, each with the same probability. A value that is listed twice is twice as likely.
std::uint32_t one_of(random_sequence& random, std::initializer_list<std::uint32_t> values) {
    return values.begin()[random.below(static_cast<std::uint32_t>(values.size()))];
}

/// Draws the rates of a run. Braces are evaluated from left to right, so that a seed gives the same rates with every
/// compiler.
temper temper_of(random_sequence& random) {
    return {one_of(random, {1, 1, 2, 8, 32}), one_of(random, {0, 2, 4, 16}), one_of(random, {0, 4, 16}),
            one_of(random, {0, 2, 4, 16}),    one_of(random, {0, 2, 4, 8}),  one_of(random, {0, 0, 200, 2000})};
}

/// The choices of a seed. The rates are drawn once; with them, each choice is drawn by itself.
class random_choices : public choices {
public:
    explicit random_choices(std::uint64_t seed) : random_{seed}, temper_{temper_of(random_)} {}
    random_choices(std::uint64_t seed, const temper& with) : random_{seed}, temper_{with} {}

protected:
    std::uint32_t pick(decision what, std::uint32_t n) override {
        switch (what) {
            case decision::version: return surprise(temper_.version, n);
            case decision::place: return surprise(temper_.place, n);
            case decision::alone: return surprise(temper_.alone, n);
            case decision::group: return surprise(temper_.group, n);
            case decision::delay: return surprise(temper_.delay, n);
            default: return random_.below(n);  // members of a group, and choices of a scenario: all alike
        }
    }
    /// Usually lets the actor that ran last continue, so that a run has long stretches of one actor, too; once in
    /// `switch_` times, any actor is as likely.
    std::uint32_t pick_actor(std::span<const actor_id> eligible, bool can_go_on) override {
        const auto n = static_cast<std::uint32_t>(eligible.size());
        return can_go_on && !random_.once_in(temper_.switch_) ? 0 : random_.below(n);
    }

    random_sequence random_;

private:
    /// Returns 0, or once in `once_in` times any other possibility.
    std::uint32_t surprise(std::uint32_t once_in, std::uint32_t n) {
        return random_.once_in(once_in) ? 1 + random_.below(n - 1) : 0;
    }

    temper temper_;
};

/// The choices of a seed by PCT. A fault of depth d (it needs d events in a certain order) appears if the first
/// priorities are right and d - 1 changes fall on the right points. A random actor at every point would rarely keep one
/// actor back for long.
///
///     priority    0 to 2^63 - 1    drawn when the actor is first seen
///                 -1, -2, ...      after change number 0, 1, ... has hit the actor
///                 below these      after the actor has waited voluntarily; the last one to wait is lowest
class choices_by_priority final : public random_choices {
public:
    explicit choices_by_priority(std::uint64_t seed) : random_choices{seed} {
        constexpr std::uint32_t max_changes = 5;
        // Runs have some hundred to some thousand points; a change after the end has no effect.
        const std::uint32_t horizon = one_of(random_, {300, 1000, 4000});
        draw_changes(random_.below(max_changes + 1), horizon);
    }
    /// Without surprises of memory and groups: all rates are 0.
    choices_by_priority(std::uint64_t seed, std::uint32_t changes, std::uint32_t horizon)
        : random_choices{seed, temper{}} {
        draw_changes(changes, horizon);
    }
    void yielded(actor_id id) override { priority(id) = --lowest_; }

protected:
    std::uint32_t pick_actor(std::span<const actor_id> eligible, bool) override {
        // A change takes effect on the actor that would run at this point.
        std::uint32_t best = highest(eligible);
        const auto change = std::ranges::find(changes_, points_++);
        if (change != changes_.end()) {
            // The new priority depends on the number of the change, not on the time at which it takes effect. An actor
            // of an earlier change may thus run before one of a later change, or after it.
            priority(eligible[best]) = -1 - (change - changes_.begin());
            best = highest(eligible);
        }
        return best;
    }

private:
    /// Draws the points of `count` changes among the first `horizon` choices of an actor, and puts `lowest_` below the
    /// priorities of all changes.
    void draw_changes(std::uint32_t count, std::uint32_t horizon) {
        for (; count != 0; --count) {
            changes_.push_back(random_.below(horizon));
        }
        lowest_ = -static_cast<std::int64_t>(changes_.size());
    }
    /// Returns the index of the eligible actor with the highest priority.
    std::uint32_t highest(std::span<const actor_id> eligible) {
        std::uint32_t best = 0;
        for (std::uint32_t i = 1; i < eligible.size(); ++i) {
            best = priority(eligible[i]) > priority(eligible[best]) ? i : best;
        }
        return best;
    }
    /// Returns an actor's priority, and draws it when the actor is first seen: actors may be added in the middle of a
    /// run. Half of the range of 64 bits, so that it is not negative.
    std::int64_t& priority(actor_id id) {
        while (priorities_.size() <= id) {
            priorities_.push_back(static_cast<std::int64_t>(random_.next() >> 1));
        }
        return priorities_[id];
    }

    std::vector<std::uint32_t> changes_;  // points, by the number of the change
    std::vector<std::int64_t> priorities_;
    std::int64_t lowest_ = 0;   // no actor has a lower priority
    std::uint32_t points_ = 0;  // choices of an actor so far
};

/// The choices of a record. A changed record may lead elsewhere, where it fits no longer; 0, the choice without a
/// surprise, then always exists.
class replayed_choices final : public choices {
public:
    explicit replayed_choices(std::vector<std::uint32_t> from) : from_{std::move(from)} {}

protected:
    std::uint32_t pick(decision, std::uint32_t n) override { return take(n); }
    std::uint32_t pick_actor(std::span<const actor_id> eligible, bool) override {
        return take(static_cast<std::uint32_t>(eligible.size()));
    }

private:
    std::uint32_t take(std::uint32_t n) {
        const std::uint32_t chosen = next_ < from_.size() ? from_[next_] : 0;
        ++next_;
        return chosen < n ? chosen : 0;
    }

    std::vector<std::uint32_t> from_;
    std::size_t next_ = 0;
};

}  // namespace

std::uint64_t random_sequence::next() { return mix64(std::exchange(state_, state_ + splitmix_step)); }

const char* name_of(strategy s) { return s == strategy::uniform ? "uniform" : "priority"; }

std::unique_ptr<choices> choices_of(strategy s, std::uint64_t seed) {
    if (s == strategy::priority) {
        return std::make_unique<choices_by_priority>(seed);
    }
    return std::make_unique<random_choices>(seed);
}

std::unique_ptr<choices> priority_choices(std::uint64_t seed, std::uint32_t changes, std::uint32_t horizon) {
    return std::make_unique<choices_by_priority>(seed, changes, horizon);
}

std::unique_ptr<choices> recorded_choices(std::vector<std::uint32_t> record) {
    return std::make_unique<replayed_choices>(std::move(record));
}

/// Follows the path to its end, then chooses 0 and extends the path. With a budget of one surprise and three questions,
/// of 2, 3 and 2 possibilities, the runs are, with the new choice of each in brackets:
///
///     0 0 0      0 0 [1]      0 [1] 0      0 [2] 0      [1] 0 0
///
/// After a surprise, the questions that follow have one possibility, 0, because the budget is spent.
class bounded_search::run final : public choices {
public:
    explicit run(bounded_search& search) : search_{search} {}

protected:
    std::uint32_t pick(decision what, std::uint32_t n) override {
        // The choices of a scenario are no surprises.
        return what == decision::delay ? 0 : step(n, what == decision::scenario);
    }
    std::uint32_t pick_actor(std::span<const actor_id> eligible, bool can_go_on) override {
        return step(static_cast<std::uint32_t>(eligible.size()), !can_go_on);
    }

private:
    std::uint32_t step(std::uint32_t n, bool free) {
        auto& path = search_.path_;
        // A new node. `count` is 1 where no surprise is left, so that `next` does not come back to it.
        if (at_ == path.size()) {
            const bool open = free || spent_ < search_.surprises_;
            path.push_back({0, open ? n : 1, n, free});
        }
        const node& here = path[at_++];
        // The path was laid by a run with the same choices before this one. If the question is another one now, the
        // program depends on something else, such as addresses or the time, and the search is no search.
        if (here.possible != n || here.free != free) {
            throw std::logic_error("the program does not repeat itself: the same choices have led it elsewhere");
        }
        spent_ += !here.free && here.chosen != 0 ? 1 : 0;
        return here.chosen;
    }

    bounded_search& search_;
    std::size_t at_ = 0;       // the next node of the path
    std::uint32_t spent_ = 0;  // surprises on the path before it
};

choices* bounded_search::next() {
    // The next run differs from the last one in the last node that has an untried possibility.
    if (begun_) {
        while (!path_.empty() && path_.back().chosen + 1 >= path_.back().count) {
            path_.pop_back();
        }
        if (path_.empty()) {
            return nullptr;
        }
        ++path_.back().chosen;
    }
    begun_ = true;
    run_ = std::make_shared<run>(*this);
    return run_.get();
}

}  // namespace orchard::simt::explore
