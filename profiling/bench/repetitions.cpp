// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The first, third, tenth and settled repetition of a series of times.

#include "profiling/bench/repetitions.hpp"

#include "profiling/bench/bench.hpp"

namespace orchard::bench {

repetition_times repetitions_of(const std::vector<double>& times) {
    // Repetitions are numbered from 1.
    const auto at = [&](std::size_t number) {
        return number <= times.size() ? std::optional<double>(times[number - 1]) : std::nullopt;
    };
    repetition_times result{at(1), at(3), at(10), std::nullopt};
    if (!times.empty()) {
        // An odd number of times: the integer division counts the middle one to the last half.
        result.settled = median_after(times.size() / 2, times);
    }
    return result;
}

double median_after(std::size_t warm_up, const std::vector<double>& times) {
    if (warm_up >= times.size()) {
        return 0;
    }
    return median({times.begin() + static_cast<std::ptrdiff_t>(warm_up), times.end()});
}

void add_repetitions(nlohmann::ordered_json& row, const std::string& what, const std::vector<double>& times,
                     const std::string& unit) {
    const repetition_times shown = repetitions_of(times);
    const std::string prefix = what.empty() ? "" : what + "_";
    // Null instead of a missing key, so that all rows of a benchmark have the same columns.
    const auto add = [&](const char* which, const std::optional<double>& time) {
        row[prefix + which + "_" + unit] = time ? nlohmann::ordered_json(*time) : nlohmann::ordered_json(nullptr);
    };
    add("first", shown.first);
    add("third", shown.third);
    add("tenth", shown.tenth);
    add("settled", shown.settled);
}

}  // namespace orchard::bench
