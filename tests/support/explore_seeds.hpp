// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Runs a small scenario of a test under the exploring scheduler, seed by seed.

#include <gtest/gtest.h>

#include <cstdint>

#include "device/simt/explore/choices.hpp"
#include "device/simt/explore/simulation.hpp"

namespace orchard::test {

/// Runs `scenario` with the seeds from 0 on, half of them by priorities; fails at the first violation.
/// @param least_points  scheduling points of a seed on the average: a smaller scenario would mean nothing
inline void explore_seeds(void (*scenario)(simt::explore::simulation&), std::uint64_t seeds,
                          std::uint64_t least_points) {
    using simt::explore::strategy;
    std::uint64_t points = 0;
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
        const auto choices = simt::explore::choices_of(seed % 2 == 0 ? strategy::uniform : strategy::priority, seed);
        simt::explore::simulation s(*choices);
        scenario(s);
        ASSERT_TRUE(s.result().ok()) << "seed " << seed << ": " << s.result().violation;
        points += s.result().points;
    }
    EXPECT_GT(points / seeds, least_points) << "the scenario is too small to mean anything";
}

}  // namespace orchard::test
