// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What the tests of the simulation share: calm runs, runs over many seeds, and words in short.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "device/simt/atomic.cuh"
#include "device/simt/explore/simulation.hpp"
#include "device/simt/lane.cuh"

namespace orchard::simt::explore {

using word32 = device_word<std::uint32_t>;
using host32 = host_word<std::uint32_t>;

/// The value that everybody else has stored last, whatever the reader may know: a read-modify-write reads the newest.
template <class Word>
auto newest(Word& w) {
    return w.template fetch_add<order::relaxed>(0);
}

/// Settings under which a run depends on nothing but the schedule and the memory.
inline settings plain_settings() {
    settings how;
    how.delays = 0;
    how.pause_stretch = 1;
    return how;
}

inline settings traced(settings how = {}) {
    how.keep_trace = true;
    return how;
}

/// A simulation that never surprises: who runs goes on as long as it can, then the one that was added first.
class calm_simulation {
public:
    explicit calm_simulation(const settings& how = plain_settings()) : s{*choices_, how} {}

private:
    std::unique_ptr<choices> choices_ = recorded_choices({});

public:
    simulation s;
};

/// Calls `scenario(simulation)` with seeds 0 to `count - 1`, by both strategies in turn.
template <class Scenario>
void with_seeds(std::uint64_t count, const settings& how, Scenario scenario) {
    for (std::uint64_t seed = 0; seed < count; ++seed) {
        const auto from = choices_of(seed % 2 == 0 ? strategy::uniform : strategy::priority, seed);
        simulation s(*from, how);
        scenario(s);
    }
}

/// The first violation that a scenario shows over seeds; empty where there is none.
template <class Scenario>
std::string first_violation(std::uint64_t seeds, const settings& how, Scenario scenario) {
    std::string found;
    with_seeds(seeds, how, [&](simulation& s) {
        if (found.empty()) {
            scenario(s);
            found = s.result().violation;
        }
    });
    return found;
}

/// "rig.hpp:12", as reports say it.
inline std::string here(const char* file, int line) { return text_of({file, line}); }

}  // namespace orchard::simt::explore
