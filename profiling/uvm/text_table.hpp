// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Tables of text for terminals.

#include <string>
#include <vector>

namespace orchard::uvm_study {

/// Returns lines of equally many cells in columns: the first `words` columns aligned left, numbers aligned right.
/// Columns are as wide as their widest cell, two blanks apart; each line ends with a newline. `lines` has at least one.
std::string in_columns(const std::vector<std::vector<std::string>>& lines, std::size_t words);

}  // namespace orchard::uvm_study
