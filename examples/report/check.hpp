// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The checks of an example's result, and how all examples print them.

#include <nlohmann/json.hpp>
#include <span>
#include <string>

namespace orchard::examples {

/// One check: the condition, its result, and the numbers from which the result follows, also if it passed.
struct check {
    std::string name;
    bool passed = false;
    std::string detail;
    /// False: it only says that the run used a path of the heap, which a small input need not do.
    bool required = true;
};

/// Returns whether all required checks passed. A run without any check did not pass.
bool passed(std::span<const check> checks);

/// Returns whether all checks passed, those too that only say which paths of the heap were used.
bool used_all(std::span<const check> checks);

/// Returns a line for each check, and the verdict:
///
///       passed  every step is an edge          40000 steps of 1000 walkers; 0 are no edge
///       unused  lists moved as they grew       0 calls of realloc moved their block
std::string checks_text(std::span<const check> checks);

/// Returns the checks as an array of objects.
nlohmann::ordered_json json_of(std::span<const check> checks);

}  // namespace orchard::examples
