// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Runs seeds of scenarios on several host threads, and gathers what came out. What a seed gives does not depend on
/// which thread runs it, how many there are, or what ran before.

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

/// The strategy of a seed where none is named: uniform where it is even, priority where it is odd.
simt::explore::strategy strategy_of(std::uint64_t seed, std::optional<simt::explore::strategy> named = {});

/// One run of a scenario. An exception that leaves the scenario is a violation.
/// @param timeline takes the trace's text, and the verdict as its last lines, where it is not null and `how` keeps one
simt::explore::verdict run_once(const scenario& what, const scale& size, simt::explore::choices& from,
                                const simt::explore::settings& how = {}, std::string* timeline = nullptr);

/// "ok, 812 points, trace 0x..." or "violation: ...".
std::string text_of(const simt::explore::verdict& v);

/// A scenario and how large it is run.
struct sized_scenario {
    const scenario* what;
    scale size;
};

/// What to run.
struct plan {
    std::vector<sized_scenario> scenarios;
    std::uint64_t first = 0;
    std::uint64_t seeds = 1000;                         ///< of each scenario
    std::optional<std::chrono::duration<double>> time;  ///< instead of `seeds`: as many as fit, the same of each
    std::optional<simt::explore::strategy> how;
    unsigned threads = 0;                  ///< 0: one for each core
    std::function<void()> prepare_thread;  ///< called first on each of the threads
};

/// How far a plan has come.
struct progress {
    std::uint64_t runs = 0;
    std::uint64_t violations = 0;
    double seconds = 0;
};

/// One tally for each scenario of the plan, in its order. `tell` is called by the calling thread about twice a second.
std::vector<tally> run_plan(const plan& p, const std::function<void(const progress&)>& tell = {});

/// Calls `body(n)` for n = 0, 1, 2, ... on several threads, in this order of beginning, until it says false.
/// @param threads 0: one for each core
void for_each_number(unsigned threads, const std::function<void()>& prepare_thread,
                     const std::function<bool(std::uint64_t)>& body);

}  // namespace orchard::explore
