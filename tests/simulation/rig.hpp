// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Code that the tests of the simulation share: runs without surprises, runs over many seeds, and short names for
/// words.

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

/// Returns the newest value, whatever the reader may know, because a read-modify-write reads the newest value.
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

/// A simulation without surprises: the running actor continues as long as it can, then the one that was added first.
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

/// Returns the first violation of a scenario over seeds; empty if there is none.
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

/// Returns "rig.hpp:12", the form in reports.
inline std::string here(const char* file, int line) { return text_of({file, line}); }

}  // namespace orchard::simt::explore
