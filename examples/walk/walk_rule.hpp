// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The rule by which a walker chooses its next vertex. The device's walk and the host's share it; their loops are
/// separate, so that a fault of a loop shows as a difference.
///
///     start      vertex          below(bits(walker, 0), vertices)
///     step k     at a vertex with d neighbours: neighbour number below(bits(walker, k), d)
///                at a vertex without any:       the end, or vertex below(bits(walker, k), vertices)

#include <cstdint>

#include "device/simt/config.cuh"
#include "device/simt/random.hpp"

namespace orchard::examples {

/// The behaviour of a walker at a vertex without neighbours.
enum class dead_end : std::uint32_t {
    stop,     ///< its walk ends there
    restart,  ///< its next step goes to a random vertex
};

/// The parameters of the rule. Each choice is a function of (seed, walker, step), so that host and device choose alike.
struct walk_rule {
    std::uint64_t seed = 1;
    std::uint32_t vertices = 0;  ///< number of vertices of the graph; not 0
    std::uint32_t steps = 0;     ///< a walk visits at most steps + 1 vertices
    dead_end at_dead_end = dead_end::stop;

    /// Returns the vertex at which `walker` starts.
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t start(std::uint64_t walker) const {
        return simt::below32(bits(walker, 0), vertices);
    }
    /// Returns the index, below `degree`, of the neighbour for step number `step` (from 1) of `walker`; `degree` is not
    /// 0.
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t neighbour(std::uint64_t walker, std::uint32_t step,
                                                               std::uint32_t degree) const {
        return simt::below32(bits(walker, step), degree);
    }
    /// Returns the vertex at which `walker` restarts in its step number `step`.
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t restart(std::uint64_t walker, std::uint32_t step) const {
        return simt::below32(bits(walker, step), vertices);
    }

private:
    /// The generator and the shuffle use the streams below.
    static constexpr std::uint64_t first_stream = 1ull << 40;

    /// Returns the random bits of a walker's step. Each walker has a stream of its own, with one number for each step.
    [[nodiscard]] ORCHARD_FN constexpr std::uint64_t bits(std::uint64_t walker, std::uint32_t step) const {
        return simt::random_bits(seed, first_stream + walker, step);
    }
};

}  // namespace orchard::examples
