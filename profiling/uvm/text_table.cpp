// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Two passes: the widths of the columns, then the text.

#include "profiling/uvm/text_table.hpp"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace orchard::uvm_study {

std::string in_columns(const std::vector<std::vector<std::string>>& lines, std::size_t words) {
    std::vector<std::size_t> widths(lines.front().size());
    for (const auto& line : lines) {
        for (std::size_t i = 0; i < line.size(); ++i) {
            widths[i] = std::max(widths[i], line[i].size());
        }
    }
    std::string text;
    for (const auto& line : lines) {
        for (std::size_t i = 0; i < line.size(); ++i) {
            const int width = static_cast<int>(widths[i]);
            // A negative width aligns to the left.
            absl::StrAppend(&text, i == 0 ? "" : "  ", absl::StrFormat("%*s", i < words ? -width : width, line[i]));
        }
        text += '\n';
    }
    return text;
}

}  // namespace orchard::uvm_study
