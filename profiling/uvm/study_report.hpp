// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The results of a study as text and as JSON.

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "profiling/uvm/study.hpp"

namespace orchard::uvm_study {

/// Returns a table for people: a line for each cell. Columns: the modelled time in ms; raw faults; batches; services of
/// VA blocks; MB moved to and from the GPU; the shares of the brought OS pages and big pages that were used; the most
/// VA blocks with memory on the GPU at a time; evicted chunks.
std::string to_table(const std::vector<outcome>& cells);

/// Returns, for each pattern, capacity and policy, the first cell with the least modelled time, in order.
std::vector<outcome> fastest(const std::vector<outcome>& cells);

/// Returns the members of the JSON document: all counts, the study's parameters and the machine's constants.
nlohmann::ordered_json json_of(const study& s, const std::vector<outcome>& cells);

}  // namespace orchard::uvm_study
