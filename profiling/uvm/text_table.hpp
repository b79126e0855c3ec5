// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <string>
#include <vector>

namespace orchard::uvm_study {

/// Lines of as many cells each, in columns: the first `words` of them to the left, numbers to the right.
std::string in_columns(const std::vector<std::vector<std::string>>& lines, std::size_t words);

}  // namespace orchard::uvm_study
