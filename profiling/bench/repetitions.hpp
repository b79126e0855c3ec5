// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Which repetitions of a measurement a row shows. A program meets the first ones, in which a fresh heap gets its
/// memory from the host; medians show the settled ones, in which memory is recycled. A result that showed only medians
/// would hide the cost of the start.
///
///     repetition   1      2      3      4 ... 9     10     11 ... n
///                first         third              tenth
///                                           |---- settled: median of the last half ----|
///
/// `first`, `third` and `tenth` are single measurements, not medians.

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace orchard::bench {

/// The times of one repeated measurement, in the unit of the measurement. Empty if there were too few repetitions.
struct repetition_times {
    std::optional<double> first;
    std::optional<double> third;
    std::optional<double> tenth;
    std::optional<double> settled;  ///< the median of the last half, which includes the middle one of an odd number
};

/// Returns the repetitions that rows show. `times`: of all repetitions in their order, the warm-up ones included.
repetition_times repetitions_of(const std::vector<double>& times);

/// Returns the median of all times but the first `warm_up`; 0 if none is left, so that a row of a failed measurement
/// can still be written.
double median_after(std::size_t warm_up, const std::vector<double>& times);

/// Adds to a row the columns <what>_first_<unit>, _third_, _tenth_ and _settled_; null if there were too few
/// repetitions. Without `what` the names begin with first_, third_, ...
void add_repetitions(nlohmann::ordered_json& row, const std::string& what, const std::vector<double>& times,
                     const std::string& unit = "us");

/// Returns the milliseconds that `act` takes, by the host's clock.
template <class Act>
double milliseconds_of(Act act) {
    const auto began = std::chrono::steady_clock::now();
    act();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
}

}  // namespace orchard::bench
