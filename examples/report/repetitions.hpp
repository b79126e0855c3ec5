// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Times of repeated kernels as text.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"

namespace orchard::examples {

/// Returns the median of the times from number `first` on; 0 if there are none. Of an even number of times it is the
/// greater of the two in the middle.
inline double median_from(std::size_t first, const std::vector<double>& times) {
    if (first >= times.size()) {
        return 0;
    }
    std::vector<double> some(times.begin() + static_cast<std::ptrdiff_t>(first), times.end());
    std::ranges::sort(some);
    return some[some.size() / 2];
}

/// Returns the first, the third, the tenth and the settled time, which is the median of the last half; "-" where there
/// were not so many.
inline std::string repetitions_text(const std::vector<double>& us) {
    const auto at = [&](std::size_t i) { return i <= us.size() ? absl::StrFormat("%.1f", us[i - 1]) : "-"; };
    return absl::StrFormat("%s / %s / %s / %.1f", at(1), at(3), at(10), median_from(us.size() / 2, us));
}

}  // namespace orchard::examples
