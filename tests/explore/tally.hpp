// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The results of the runs of one scenario. The order in which runs are added does not matter.

#include <absl/container/flat_hash_set.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "device/simt/explore/choices.hpp"
#include "device/simt/explore/simulation.hpp"

namespace orchard::explore {

/// A violation without what differs between two runs that fail alike: its first line, without the names of lanes, the
/// actor that it begins with, and numbers.
std::string kind_of(std::string_view violation);

/// Runs that failed alike.
struct finding {
    std::string kind;
    std::uint64_t count = 0;
    std::uint64_t seed = 0;  ///< the lowest
    simt::explore::strategy how = simt::explore::strategy::uniform;
    std::string text;  ///< of that seed
};

class tally {
public:
    void add(std::uint64_t seed, simt::explore::strategy how, const simt::explore::verdict& v, double seconds);

    [[nodiscard]] std::uint64_t runs() const { return runs_; }
    [[nodiscard]] std::uint64_t violations() const { return violations_; }
    /// Returns the fewest scheduling points of a run; 0 if there was no run.
    [[nodiscard]] std::uint64_t least_points() const;
    [[nodiscard]] std::uint64_t median_points() const;
    [[nodiscard]] std::uint64_t most_points() const;
    /// Returns the number of different hashes of traces; exact for up to four million runs, an estimate beyond.
    [[nodiscard]] std::uint64_t distinct() const { return hashes_.size() << sampled_; }
    /// The same for the same seeds with the same traces, on every machine.
    [[nodiscard]] std::uint64_t digest() const { return digest_; }
    /// Time that the runs took, summed over threads.
    [[nodiscard]] double seconds() const { return seconds_; }
    /// Kinds of violations, by lowest seed.
    [[nodiscard]] std::vector<finding> findings() const;

private:
    void note_hash(std::uint64_t hash);

    std::uint64_t runs_ = 0;
    std::uint64_t violations_ = 0;
    std::uint64_t digest_ = 0;
    double seconds_ = 0;
    std::vector<std::uint64_t> with_points_;  // the number of runs with each number of points
    absl::flat_hash_set<std::uint64_t> hashes_;
    int sampled_ = 0;  // only hashes with so many low zeros are kept
    std::map<std::string, finding> findings_;
};

/// One number for several tallies, in their order.
std::uint64_t digest_of(const std::vector<tally>& all);

}  // namespace orchard::explore
