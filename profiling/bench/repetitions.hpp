// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Which repetitions of a measurement a row shows. A program meets the first ones; medians show the settled ones.
///
///     repetition   1      2      3      4 ... 9     10     11 ... n
///                first         third              tenth
///                                           |---- settled: median of the last half ----|

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

/// `times`: of all repetitions in their order, the warm-up ones included.
repetition_times repetitions_of(const std::vector<double>& times);

/// Returns the median of all times but the first `warm_up`; 0 if none is left.
double median_after(std::size_t warm_up, const std::vector<double>& times);

/// Adds to a row the columns <what>_first_<unit>, _third_, _tenth_ and _settled_; null if there were too few
/// repetitions. Without `what` the names begin with first_, third_, ...
void add_repetitions(nlohmann::ordered_json& row, const std::string& what, const std::vector<double>& times,
                     const std::string& unit = "us");

}  // namespace orchard::bench
