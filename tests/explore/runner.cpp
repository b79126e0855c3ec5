// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "tests/explore/runner.hpp"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "tests/explore/crash_note.hpp"

namespace orchard::explore {

namespace ex = simt::explore;

namespace {

using steady = std::chrono::steady_clock;

double seconds_since(steady::time_point begin) { return std::chrono::duration<double>(steady::now() - begin).count(); }

/// A tally that several threads add to.
struct shared_tally {
    std::mutex guard;
    tally sum;
};

/// The number of seeds of one scenario before the next scenario's turn.
constexpr std::uint64_t batch = 64;

}  // namespace

ex::strategy strategy_of(std::uint64_t seed, std::optional<ex::strategy> named) {
    return named.value_or(seed % 2 == 0 ? ex::strategy::uniform : ex::strategy::priority);
}

ex::verdict run_once(const scenario& what, const scale& size, ex::choices& from, const ex::settings& how,
                     std::string* timeline) {
    ex::simulation s(from, how);
    world w{s, size};
    std::string escaped;
    try {
        what.run(w);
    } catch (const std::exception& error) {
        escaped = absl::StrCat("the scenario threw an exception: ", error.what());
    }
    ex::verdict v = s.result();
    if (v.ok()) {
        v.violation = escaped;
    }
    if (timeline != nullptr) {
        *timeline = absl::StrCat(s.timeline().text(), text_of(v), "\n");
    }
    return v;
}

std::string text_of(const ex::verdict& v) {
    const std::string counts = absl::StrFormat("%d points, trace 0x%016x", v.points, v.trace_hash);
    return v.ok() ? absl::StrCat("ok: ", counts) : absl::StrCat("violation: ", v.violation, "\n", counts);
}

void for_each_number(unsigned threads, const std::function<void()>& prepare_thread,
                     const std::function<bool(std::uint64_t)>& body) {
    std::atomic<std::uint64_t> next = 0;
    std::atomic<bool> over = false;
    const auto work = [&] {
        if (prepare_thread) {
            prepare_thread();
        }
        while (!over.load(std::memory_order_relaxed)) {
            if (!body(next.fetch_add(1, std::memory_order_relaxed))) {
                over.store(true, std::memory_order_relaxed);
            }
        }
    };
    std::vector<std::jthread> all;
    const unsigned count = threads != 0 ? threads : std::max(1u, std::thread::hardware_concurrency());
    for (unsigned t = 0; t < count; ++t) {
        all.emplace_back(work);
    }
}

std::vector<tally> run_plan(const plan& p, const std::function<void(const progress&)>& tell) {
    const std::uint64_t scenarios = p.scenarios.size();
    const auto begin = steady::now();
    std::vector<shared_tally> tallies(scenarios);
    std::atomic<std::uint64_t> runs = 0;
    std::atomic<std::uint64_t> violations = 0;
    // Numbers go round over the scenarios in batches. The time limit is checked after a run has ended, so that every
    // number that was handed out is run, and no scenario's seeds have gaps.
    const auto one = [&](std::uint64_t number) {
        const std::uint64_t turn = number / batch;
        const std::uint64_t index = turn / scenarios * batch + number % batch;
        if (!p.time && index >= p.seeds) {
            return turn / scenarios * batch < p.seeds;
        }
        const sized_scenario& what = p.scenarios[turn % scenarios];
        const std::uint64_t seed = p.first + index;
        const ex::strategy how = strategy_of(seed, p.how);
        const crash_note note(what.what->name, seed, ex::name_of(how));
        const auto start = steady::now();
        const ex::verdict v = run_once(*what.what, what.size, *ex::choices_of(how, seed));
        const double seconds = seconds_since(start);
        runs.fetch_add(1, std::memory_order_relaxed);
        violations.fetch_add(v.ok() ? 0 : 1, std::memory_order_relaxed);
        shared_tally& into = tallies[turn % scenarios];
        const std::lock_guard lock(into.guard);
        into.sum.add(seed, how, v, seconds);
        return !p.time || seconds_since(begin) < p.time->count();
    };
    std::mutex guard;
    std::condition_variable changed;
    bool done = scenarios == 0;
    std::jthread all([&] {
        if (scenarios != 0) {
            for_each_number(p.threads, p.prepare_thread, one);
        }
        const std::lock_guard lock(guard);
        done = true;
        changed.notify_all();
    });
    for (std::unique_lock lock(guard); !changed.wait_for(lock, std::chrono::milliseconds(500), [&] { return done; });) {
        if (tell) {
            tell({runs.load(std::memory_order_relaxed), violations.load(std::memory_order_relaxed),
                  seconds_since(begin)});
        }
    }
    all.join();
    std::vector<tally> sums;
    for (shared_tally& t : tallies) {
        sums.push_back(std::move(t.sum));
    }
    return sums;
}

}  // namespace orchard::explore
