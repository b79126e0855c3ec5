// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The rule of a shower: what a particle does in each step. The device's run and the host's share it; their loops are
/// separate, so that a fault of a loop shows as a difference.
///
///     a primary        energy of the option, layer 0
///     each step        deposits 1 to 16 keV in its layer; goes to the next layer in one of four steps
///                      below the cutoff: deposits the rest, and ends
///                      else in one of eight steps: one to three secondaries, which share its energy equally with it
///
/// All numbers are integers, and each choice is a function of the particle's own seed and step. So the sums are the
/// same whatever order the particles are followed in.

#include <cstdint>

#include "device/simt/config.cuh"
#include "device/simt/random.hpp"

namespace orchard::examples {

/// Layers of the block of matter; the last one takes what goes beyond it.
inline constexpr std::uint32_t shower_layers = 64;
/// Most secondaries of a step.
inline constexpr std::uint32_t most_secondaries = 3;

/// A particle, wherever its track lies.
struct particle {
    std::uint64_t seed = 0;
    std::uint64_t energy_kev = 0;
    std::uint32_t layer = 0;
    std::uint32_t step = 0;
};

/// What a step does.
struct shower_step {
    particle after;                   ///< the particle itself
    std::uint64_t deposited_kev = 0;  ///< in `layer`
    std::uint32_t layer = 0;
    std::uint32_t secondaries = 0;  ///< each has `secondary_kev`
    std::uint64_t secondary_kev = 0;
    bool ends = false;
};

struct shower_rule {
    std::uint64_t seed = 1;
    std::uint64_t energy_kev = 0;  ///< of each primary
    std::uint64_t cutoff_kev = 64;

    [[nodiscard]] ORCHARD_FN constexpr particle primary(std::uint64_t i) const {
        return {simt::random_bits(seed, primary_stream, i), energy_kev, 0, 0};
    }

    /// Returns the next step of a particle.
    [[nodiscard]] ORCHARD_FN constexpr shower_step next(const particle& p) const {
        const std::uint64_t bits = simt::random_bits(p.seed, 0, p.step);
        shower_step s;
        s.after = p;
        s.after.step = p.step + 1;
        s.layer = p.layer;
        const std::uint64_t loss = 1 + (bits & 15);
        if (p.energy_kev < cutoff_kev + loss) {
            s.deposited_kev = p.energy_kev;
            s.after.energy_kev = 0;
            s.ends = true;
            return s;
        }
        s.deposited_kev = loss;
        s.after.energy_kev = p.energy_kev - loss;
        const bool goes_on = (bits >> 8 & 3) == 0 && p.layer + 1 < shower_layers;
        s.after.layer = p.layer + (goes_on ? 1 : 0);
        if ((bits >> 16 & 7) == 0) {
            s.secondaries = 1 + simt::below32(bits, most_secondaries);
            s.secondary_kev = s.after.energy_kev / (s.secondaries + 1);
            s.after.energy_kev -= s.secondary_kev * s.secondaries;
        }
        return s;
    }

    /// Returns secondary number `i` of a particle's step.
    [[nodiscard]] ORCHARD_FN constexpr particle secondary(const particle& parent, const shower_step& s,
                                                          std::uint32_t i) const {
        return {simt::random_bits(parent.seed, 1 + i, parent.step), s.secondary_kev, s.after.layer, 0};
    }

    /// Returns what a track keeps of a step: the record of each particle is checked when it ends.
    [[nodiscard]] ORCHARD_FN static constexpr std::uint64_t record(const particle& p, std::uint32_t step) {
        return p.seed ^ (0x9e3779b97f4a7c15u * (step + 1));
    }

private:
    static constexpr std::uint64_t primary_stream = 1ull << 41;
};

/// The sums of a run.
struct shower_totals {
    std::uint64_t particles = 0;  ///< primaries and secondaries
    std::uint64_t ended = 0;
    std::uint64_t steps = 0;
    std::uint64_t deposited_kev[shower_layers] = {};

    friend bool operator==(const shower_totals&, const shower_totals&) = default;
};

}  // namespace orchard::examples
