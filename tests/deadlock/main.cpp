// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The program `deadlock_tests`: GoogleTest's, and with `--row CALL BYTES LOADING PATH` the child process that
/// measures one row.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "tests/deadlock/row_run.hpp"

int main(int count, char** arguments) {
    constexpr int row_words = 6;
    if (count == row_words && std::string_view(arguments[1]) == "--row") {
        return orchard::test::run_row(
            {arguments[2], std::strtoull(arguments[3], nullptr, 10), arguments[4], arguments[5]});
    }
    ::testing::InitGoogleTest(&count, arguments);
    return RUN_ALL_TESTS();
}
