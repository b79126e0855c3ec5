// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The lines of the option `verbose`.

#include <string>
#include <vector>

#include "runtime/heap/live_fields.hpp"

namespace orchard {

/// Returns what has changed between two states of a heap, for people: one line each for memory that was committed or
/// given back, commits that failed, memory that moved between GPU and host, and each reason for which requests failed.
/// Nothing if nothing of these changed.
/// @param commit_error  text of the last commit that failed
std::vector<std::string> verbose_lines(const live_state& before, const live_state& now,
                                       const std::string& commit_error);

}  // namespace orchard
