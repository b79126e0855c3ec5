// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The rows of the arena: one for each allocator and case, a flat JSON object.
///
///     "allocator", "case", "source"     what was measured
///     "threads", "bytes", "bytes_to"    of the case, on this device
///     "memory_bytes", "repeats"         of the call
///     "verdict", "detail"               `word_of(verdict)`; what was found
///     "unit"                            "us": time, less is better; "ratio": less is better; "percent": more is better
///     "value", "low", "high"            median and quartiles of the last half of the repetitions; null without values
///     "first", "third", "tenth", "hundredth"   single repetitions; null where there were fewer
///     "ratio_to_floor"                  how many times worse than the floor; null where one of the two has no value
///     "commit"                          of Orchard, whose program measured the row
///     "code"                            commit of other people's code; empty for an allocator of this repository

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "profiling/arena/task.hpp"

namespace orchard::arena {

using rows = nlohmann::ordered_json;  ///< an array of rows

/// Returns the row of an outcome.
/// @param c  with the numbers for the device
nlohmann::ordered_json row_of(const std::string& allocator, const arena_case& c, std::uint64_t memory, int repeats,
                              const outcome& o);

/// Sets "ratio_to_floor" of all rows.
void add_ratios(rows& all, const std::string& floor);

/// Returns true if `all` has the row of this allocator and case, with the same memory and repetitions.
bool has_row(const rows& all, const std::string& allocator, const arena_case& c, std::uint64_t memory, int repeats);

/// Returns a row's value as people read it: "12.3", or the word of a fault.
std::string cell_of(const nlohmann::ordered_json& row);

/// Returns a table: a line for each case, a column for each allocator, the median of each.
std::string to_text(const rows& all);

/// Returns the rows without those that lacked time, which a later call runs.
rows without_not_run(rows all);

/// Returns all members of the rows, a line each below a line of names (RFC 4180).
std::string to_csv(const rows& all);

/// Returns a page: the header, the medians with their quartiles, the ratios to the floor, and the faults.
/// @param document  a whole document of `orchard arena --json`
std::string to_markdown(const nlohmann::ordered_json& document);

/// What a comparison found.
struct comparison {
    std::vector<std::string> worse;   ///< a line for each row that is beyond the threshold, or has a new fault
    std::vector<std::string> better;  ///< the same in the other direction
    int compared = 0;                 ///< rows that both have
};

/// Compares rows of the same allocator and case.
/// @param threshold  how many times as much is no difference: 1.1 is 10 %
comparison compare(const rows& before, const rows& now, double threshold);

}  // namespace orchard::arena
