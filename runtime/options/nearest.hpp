// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Finds the known name nearest to a misspelt one, for messages.

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace orchard::detail {

/// Returns the number of insertions, deletions, replacements and swaps of neighbours that turn `a` into `b` (optimal
/// string alignment: Damerau 1964, Levenshtein 1966). Cost: the product of the lengths.
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
    // Rows of the table of distances: `row[j]` is the distance from the first i characters of `a` to the first j of
    // `b`, `before` that from the first i - 1.
    std::vector<std::size_t> before(b.size() + 1);
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < a.size(); ++i) {
        std::vector<std::size_t> next(b.size() + 1, i + 1);
        for (std::size_t j = 0; j < b.size(); ++j) {
            next[j + 1] = std::min({row[j] + (a[i] == b[j] ? 0 : 1), next[j] + 1, row[j + 1] + 1});
            if (i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j]) {
                next[j + 1] = std::min(next[j + 1], before[j - 1] + 1);
            }
        }
        before = std::exchange(row, std::move(next));
    }
    return row[b.size()];
}

/// Returns the name in `known` that is nearest to `word`, the first of equals; empty if none is near: a third of the
/// word's characters may differ; in a word of four to eight two, in a shorter one one. Cost: one distance for each
/// known name.
inline std::string nearest(std::string_view word, std::span<const std::string> known) {
    const auto found =
        std::ranges::min_element(known, {}, [&](const std::string& name) { return edit_distance(word, name); });
    const std::size_t most = std::max<std::size_t>(std::min<std::size_t>(word.size() / 2, 2), word.size() / 3);
    return found == known.end() || edit_distance(word, *found) > most ? std::string() : *found;
}

/// Returns " (nearest: name)" for a message about an unknown word; empty if no known name is near.
inline std::string suggestion(std::string_view word, std::span<const std::string> known) {
    const std::string name = nearest(word, known);
    return name.empty() ? name : " (nearest: " + name + ")";
}

}  // namespace orchard::detail
