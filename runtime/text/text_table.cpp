// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Two passes: the widths of the columns, then the text.

#include "runtime/text/text_table.hpp"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace orchard::detail {

std::string in_columns(const std::vector<std::vector<std::string>>& lines, std::string_view alignment) {
    std::vector<std::size_t> widths;
    for (const auto& line : lines) {
        widths.resize(std::max(widths.size(), line.size()));
        for (std::size_t i = 0; i < line.size(); ++i) {
            widths[i] = std::max(widths[i], line[i].size());
        }
    }
    std::string text;
    for (const auto& line : lines) {
        std::string padded;
        for (std::size_t i = 0; i < line.size(); ++i) {
            const bool at_left = alignment[std::min(i, alignment.size() - 1)] == 'l';
            const int width = static_cast<int>(widths[i]);
            // A negative width aligns to the left.
            absl::StrAppend(&padded, i == 0 ? "" : "  ", absl::StrFormat("%*s", at_left ? -width : width, line[i]));
        }
        absl::StrAppend(&text, absl::StripTrailingAsciiWhitespace(padded), "\n");
    }
    return text;
}

}  // namespace orchard::detail
