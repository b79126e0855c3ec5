// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Runs seeds of scenarios on several host threads, and collects the results. The result of a seed does not depend on
/// the thread that runs it, on the number of threads, or on earlier runs.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/explore/scenario.hpp"
#include "tests/explore/tally.hpp"

namespace orchard::explore {

/// Returns the strategy of a seed if none is named: uniform for an even seed, priority for an odd one.
simt::explore::strategy strategy_of(std::uint64_t seed, std::optional<simt::explore::strategy> named = {});

/// Runs a scenario once. An exception that leaves the scenario is a violation. @param timeline receives the trace's
/// text, and the verdict as its last lines, if it is not null and `how` keeps one
simt::explore::verdict run_once(const scenario& what, const scale& size, simt::explore::choices& from,
                                const simt::explore::settings& how = {}, std::string* timeline = nullptr);

/// "ok, 812 points, trace 0x..." or "violation: ...".
std::string text_of(const simt::explore::verdict& v);

/// A scenario and how large it is run.
struct sized_scenario {
    const scenario* what;
    scale size;
};

/// The runs to make.
struct plan {
    std::vector<sized_scenario> scenarios;
    std::uint64_t first = 0;
    std::uint64_t seeds = 1000;                         ///< of each scenario
    std::optional<std::chrono::duration<double>> time;  ///< instead of `seeds`: as many as fit, the same of each
    std::optional<simt::explore::strategy> how;
    unsigned threads = 0;                  ///< 0: one for each core
    std::function<void()> prepare_thread;  ///< called first on each of the threads
};

/// The progress of a plan.
struct progress {
    std::uint64_t runs = 0;
    std::uint64_t violations = 0;
    double seconds = 0;
};

/// Returns one tally for each scenario of the plan, in its order. The calling thread calls `tell` about twice a second.
std::vector<tally> run_plan(const plan& p, const std::function<void(const progress&)>& tell = {});

/// Calls `body(n)` for n = 0, 1, 2, ... on several threads, begun in this order, until it returns false. @param threads
/// 0: one for each core
void for_each_number(unsigned threads, const std::function<void()>& prepare_thread,
                     const std::function<bool(std::uint64_t)>& body);

}  // namespace orchard::explore
