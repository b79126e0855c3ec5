// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Makes a violation as small as it can be read: first fewer lanes and operations, then fewer surprises.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/explore/runner.hpp"

namespace orchard::explore {

/// The effort of shrinking. Both members are counts, so that the result does not depend on the machine.
struct shrink_effort {
    std::uint64_t seeds = 2000;            ///< tried at each smaller scale
    std::uint64_t points = 100'000'000;    ///< scheduling points of all runs that simplify the choices
    unsigned threads = 0;                  ///< 0: one for each core
    std::function<void()> prepare_thread;  ///< called first on each of the threads
};

struct shrunk {
    scale size;
    std::uint64_t seed = 0;  ///< at that scale
    simt::explore::strategy how = simt::explore::strategy::uniform;
    std::size_t surprises_of_seed = 0;  ///< choices other than 0 of the seed's own run
    std::uint64_t points_of_seed = 0;

    std::vector<std::uint32_t> record;  ///< the simplified choices, without the zeros at their end
    std::size_t surprises = 0;          ///< of them other than 0
    simt::explore::verdict result;      ///< of the simplified run
    std::string timeline;               ///< likewise, with the verdict
};

/// The scales that are one step smaller, smallest first: fewer operations, a block less, a warp less, fewer lanes in a
/// warp.
std::vector<scale> smaller_scales(const scale& s);

/// Shrinks the violation of a seed; returns nothing if the seed has no violation. The result fails in the same way
/// (`kind_of`). @param tell receives each attempt
std::optional<shrunk> shrink(const sized_scenario& what, std::uint64_t seed, simt::explore::strategy how,
                             const shrink_effort& effort = {},
                             const std::function<void(const std::string&)>& tell = {});

/// The result of an exhaustive search over tiny scenarios.
struct exhaustive_result {
    std::uint64_t runs = 0;
    bool finished = false;  ///< whether these were all
    std::string violation;  ///< the search ends with the first one; empty: none
    std::string timeline;   ///< of the run that has shown it
    std::uint64_t most_points = 0;
};

/// Makes all runs with at most this many surprises (`bounded_search`), up to `max_runs`.
exhaustive_result search_exhaustively(const sized_scenario& what, std::uint32_t surprises, std::uint64_t max_runs,
                                      const std::function<void(const std::string&)>& tell = {});

}  // namespace orchard::explore
