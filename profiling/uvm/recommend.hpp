// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The layout and placement that the model recommends for an access pattern, if memory fits the GPU and if it does not:
/// docs/uvm_model.md. No kernel runs; the times are the model's.
///
///     grid: pattern x bytes a thread x candidate x capacity     one modelled run each
///     score of a candidate, for one pattern                     geometric mean over sizes (and over two capacities)
///     recommended                                               the simplest candidate within 2 % of the least score

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "profiling/uvm/study.hpp"
#include "uvm/geometry/access_pattern.hpp"

namespace orchard::uvm_study {

/// The candidates and conditions that are tried.
struct grid {
    std::vector<access_pattern> patterns{access_pattern::same_index, access_pattern::random,
                                         access_pattern::sequential, access_pattern::strided,
                                         access_pattern::growth,     access_pattern::graph_walk};
    std::vector<std::uint64_t> bytes_per_thread{16 << 10, 64 << 10, 512 << 10, 4 << 20};
    std::uint64_t bytes = 256 << 20;  ///< of all threads
    std::uint64_t accesses = 100;     ///< of each thread; of `sequential` and `growth`: all its elements
    std::uint64_t stride = 64 << 10;  ///< of `strided`; a quarter of a thread's memory if that is less
    std::uint64_t seed = 1;           ///< of graphs and random indices
    before contents = before::cpu;    ///< where all memory is before the kernel
    told advice = told::nothing;
    uvm_model::calibration machine;  ///< the constants of the model
};

/// Bytes of an element of the grid's arrays: as much as one load of a lane takes.
inline constexpr std::uint64_t grid_element_bytes = 16;

/// A candidate. `how` is `automatic` for a tile of one element.
struct candidate {
    layout how;             ///< the layout of arrays
    portion_policy placed;  ///< how the warps' chunks share VA blocks
    friend bool operator==(const candidate&, const candidate&) = default;
};

/// All candidates, the simplest first: packed before padded; linear, then tiles, small ones before large ones, because
/// a tile of one element also coalesces, which the model does not represent.
inline constexpr std::array<candidate, 10> candidates{{
    {layout::linear(), portion_policy::packed},
    {layout::automatic(), portion_policy::packed},
    {layout::interleaved(tile::b128), portion_policy::packed},
    {layout::interleaved(tile::k4), portion_policy::packed},
    {layout::interleaved(tile::k64), portion_policy::packed},
    {layout::linear(), portion_policy::padded},
    {layout::automatic(), portion_policy::padded},
    {layout::interleaved(tile::b128), portion_policy::padded},
    {layout::interleaved(tile::k4), portion_policy::padded},
    {layout::interleaved(tile::k64), portion_policy::padded},
}};

/// A value for each candidate, in the order of `candidates`.
using scores = std::array<double, candidates.size()>;

/// The result for one pattern, or for all patterns together (`unknown`).
struct verdict {
    access_pattern pattern = access_pattern::unknown;
    bool fits = true;      ///< true: memory is unlimited; false: it is 75 % and 50 % of the threads' memory
    scores seconds{};      ///< geometric means of modelled times
    std::size_t best = 0;  ///< index of the recommended candidate
};

/// Returns the candidate to recommend: the simplest of those whose score is within 2 % of the least.
std::size_t choose(const scores& seconds);

/// Runs the grid. Returns two verdicts for `unknown`, which are geometric means over the patterns, and two for each
/// pattern; of two, the one with enough memory is first. Errors: those of `run`. Cost: about a minute for the whole
/// grid, nearly all of it for `growth`.
absl::StatusOr<std::vector<verdict>> recommend(const grid& g, const progress& tell = {});

/// Returns a table for people: a line for each verdict, with the relative times of the other tiles, packed, and of the
/// fastest padded candidate.
std::string to_table(const std::vector<verdict>& verdicts);
/// Returns the members of the JSON document: all scores and the grid.
nlohmann::ordered_json json_of(const grid& g, const std::vector<verdict>& verdicts);
/// Returns the text of runtime/heap/recommended_layouts.hpp, from verdicts for all patterns.
/// @param machine  as it was typed
std::string to_header(const std::vector<verdict>& verdicts, std::string_view machine);

}  // namespace orchard::uvm_study
