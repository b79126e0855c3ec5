// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Tables of text for terminals: the one printer of the library and of all commands. Debian 12 has no C++ library for
/// them.

#include <string>
#include <string_view>
#include <vector>

namespace orchard::detail {

/// Returns lines of cells in columns, as wide as their widest cell and two blanks apart. Each line ends with a newline,
/// and with no blank.
/// @param lines  a line may have fewer cells than others
/// @param alignment  a letter for each column: `l` for words, which begin at the left, `r` for numbers, which end at
/// the right. The last letter holds for all further columns, too
std::string in_columns(const std::vector<std::vector<std::string>>& lines, std::string_view alignment);

}  // namespace orchard::detail
