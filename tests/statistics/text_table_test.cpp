// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The printer of tables: widths, alignment, lines of different lengths.

#include "runtime/text/text_table.hpp"

#include <gtest/gtest.h>

namespace orchard::detail {
namespace {

TEST(text_table, columns_are_as_wide_as_their_widest_cell) {
    EXPECT_EQ(in_columns({{"name", "count"}, {"a", "7"}, {"longer", "1234567"}}, "lr"),
              "name      count\n"
              "a             7\n"
              "longer  1234567\n");
}

TEST(text_table, the_last_letter_holds_for_all_further_columns) {
    EXPECT_EQ(in_columns({{"a", "b", "c"}, {"1", "22", "333"}}, "lr"), "a   b    c\n1  22  333\n");
}

TEST(text_table, a_line_may_be_short_and_ends_without_blanks) {
    EXPECT_EQ(in_columns({{"name", "value", "help"}, {"a"}, {"b", "1", ""}}, "l"),
              "name  value  help\n"
              "a\n"
              "b     1\n");
    EXPECT_EQ(in_columns({}, "l"), "");
}

}  // namespace
}  // namespace orchard::detail
