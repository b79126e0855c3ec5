// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Runs in which a load may see a later store: promises, in a restricted form (one for each run, fulfilled by a relaxed
/// store).
///
/// For each seed, a point of the run and a thread are drawn. One run goes to that point and then lets only this thread
/// continue. If its first store is relaxed, this is the store that it may promise. A second run makes the same choices
/// up to that point, adds the promised version, and continues freely. The second run counts if the thread keeps its
/// promise, and if it could also have kept it by continuing alone from every later point (the certification of Kang et
/// al., POPL 2017). Without certification, promises could justify each other, and values would come out of thin air.

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>

#include "tests/weak_memory/one_run.hpp"

namespace orchard::litmus {

namespace ex = simt::explore;

namespace {

struct stored {
    simt::emulated::shared_access how;
    std::uint32_t value;
};

/// The first store of the thread that continues alone.
struct search_for_store {
    const ex::simulation* in;
    ex::actor_id id;
    bool alone = false;  // the thread now continues alone
    bool ended = false;
    std::optional<stored> found;
};
thread_local search_for_store* searching = nullptr;

/// A seed's choices up to a point at which one actor continues alone, and an event at another point.
class steered final : public ex::choices {
public:
    explicit steered(std::uint64_t seed)
        : from_{ex::choices_of(seed % 2 == 0 ? ex::strategy::uniform : ex::strategy::priority, seed)} {}

    void alone_from(std::uint32_t point, ex::actor_id id) {
        alone_from_ = point;
        id_ = id;
    }
    /// `happens` at the point; afterwards, `passes` at every point.
    void at_point(std::uint32_t point, std::function<void()> happens, std::function<void(std::uint32_t)> passes) {
        happens_at_ = point;
        happens_ = std::move(happens);
        passes_ = std::move(passes);
    }
    void yielded(ex::actor_id id) override { from_->yielded(id); }

protected:
    std::uint32_t pick(ex::decision what, std::uint32_t n) override {
        return points_ > alone_from_ ? 0 : from_->choose(what, n);
    }
    std::uint32_t pick_actor(std::span<const ex::actor_id> eligible, bool can_go_on) override {
        const std::uint32_t point = points_++;
        if (point == happens_at_) {
            happens_();
        }
        if (point >= happens_at_ && passes_) {
            passes_(point);
        }
        if (point >= alone_from_) {
            const auto me = std::ranges::find(eligible, id_);
            return me == eligible.end() ? 0 : static_cast<std::uint32_t>(me - eligible.begin());
        }
        return from_->choose_actor(eligible, can_go_on);
    }

private:
    static constexpr std::uint32_t nowhere = 0xffffffffu;
    std::unique_ptr<ex::choices> from_;
    std::uint32_t points_ = 0;
    std::uint32_t alone_from_ = nowhere;
    ex::actor_id id_ = 0;
    std::uint32_t happens_at_ = nowhere;
    std::function<void()> happens_;
    std::function<void(std::uint32_t)> passes_;
};

/// A promise: which thread, at which point of a seed's run.
struct attempt {
    const program& p;
    std::uint64_t seed;
    std::uint32_t point;
    std::size_t thread;
};

std::optional<stored> what_it_may_promise(const attempt& t) {
    steered from{t.seed};
    one_run run{t.p, from};
    const ex::actor_id id = run.actor_of(t.thread);
    search_for_store search{&run.simulated(), id, false, false, {}};
    from.alone_from(t.point, id);
    from.at_point(t.point, [&search] { search.alone = true; }, {});
    searching = &search;
    outcomes none;
    run.count(none);
    searching = nullptr;
    return search.found;
}

/// Runs with the promise; returns the point by which it was kept, if it was. @param alone_from where its thread
/// continues alone
std::optional<std::uint32_t> run_with(const attempt& t, const stored& promised, std::uint32_t alone_from,
                                      outcomes& to) {
    steered from{t.seed};
    one_run run{t.p, from};
    ex::weak_memory& memory = run.simulated().memory();
    std::uint32_t open_until = t.point;
    from.alone_from(alone_from, run.actor_of(t.thread));
    from.at_point(
        t.point, [&] { memory.promise(run.actor_of(t.thread), promised.how, promised.value); },
        [&](std::uint32_t point) { open_until = memory.promises_kept() ? open_until : point; });
    outcomes mine;
    run.count(mine);
    if (!memory.promises_kept() || mine.seen.empty()) {
        return std::nullopt;
    }
    ++to.seen[mine.seen.begin()->first];
    return open_until;
}

void attempt_one(const attempt& t, outcomes& to) {
    constexpr std::uint32_t nowhere = 0xffffffffu;
    const std::optional<stored> promised = what_it_may_promise(t);
    outcomes mine;
    if (!promised.has_value()) {
        return;
    }
    const std::optional<std::uint32_t> open_until = run_with(t, *promised, nowhere, mine);
    if (!open_until.has_value()) {
        return;
    }
    for (std::uint32_t point = t.point + 1; point <= *open_until; ++point) {
        outcomes ignored;
        if (!run_with(t, *promised, point, ignored).has_value()) {
            return;
        }
    }
    ++to.seen[mine.seen.begin()->first];
}

}  // namespace

void cell::will_store(const simt::emulated::shared_access& a, std::uint32_t value, bool may_be_promised) {
    if (searching != nullptr && searching->alone && !searching->ended && searching->in->self() == searching->id) {
        searching->ended = true;
        if (may_be_promised) {
            searching->found = stored{a, value};
        }
    }
}

void detail::will_fence() {
    if (searching != nullptr && searching->alone && searching->in->self() == searching->id) {
        searching->ended = true;
    }
}

outcomes explore_with_promises(const program& p, int seeds) {
    constexpr std::uint32_t latest_point = 12;
    outcomes all;
    for (int seed = 0; seed < seeds; ++seed) {
        simt::explore::random_sequence random{static_cast<std::uint64_t>(seed)};
        const std::uint32_t point = random.below(latest_point);
        const std::size_t thread = random.below(static_cast<std::uint32_t>(p.threads.size()));
        attempt_one({p, static_cast<std::uint64_t>(seed), point, thread}, all);
    }
    return all;
}

}  // namespace orchard::litmus
