// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Where a walker goes: the rule that the device's walk and the host's share. The loops around it are written apart.

#include <cstdint>

#include "device/simt/config.cuh"
#include "examples/graph/random.hpp"

namespace orchard::examples {

/// What a walker does at a vertex without neighbours.
enum class dead_end : std::uint32_t {
    stop,     ///< its walk ends there
    restart,  ///< its next step goes to a random vertex
};

/// The walk as numbers. Each choice is a function of (seed, walker, step), so that it does not matter who makes it.
struct walk_rule {
    std::uint64_t seed = 1;
    std::uint32_t vertices = 0;  ///< of the graph; not 0
    std::uint32_t steps = 0;     ///< a walk visits at most steps + 1 vertices
    dead_end at_dead_end = dead_end::stop;

    /// The vertex that `walker` starts at.
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t start(std::uint64_t walker) const {
        return below(bits(walker, 0), vertices);
    }
    /// Which of `degree` neighbours step number `step` (from 1) of `walker` goes to; `degree` is not 0.
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t neighbour(std::uint64_t walker, std::uint32_t step,
                                                               std::uint32_t degree) const {
        return below(bits(walker, step), degree);
    }
    /// The vertex that `walker` restarts at in its step number `step`.
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t restart(std::uint64_t walker, std::uint32_t step) const {
        return below(bits(walker, step), vertices);
    }

private:
    /// Streams below are the generator's and the shuffle's.
    static constexpr std::uint64_t first_stream = 1ull << 40;

    [[nodiscard]] ORCHARD_FN constexpr std::uint64_t bits(std::uint64_t walker, std::uint32_t step) const {
        return random_bits(seed, first_stream + walker, step);
    }
};

}  // namespace orchard::examples
