// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The `main` of the programs of tests. GoogleTest's own ends with 0 also where nothing was checked. This one ends with
/// `nothing_chosen` where the filter matches no case, and with `all_skipped`, which CTest shows as "Skipped", where
/// every case that was chosen skipped itself.

#include <gtest/gtest.h>

namespace {

constexpr int nothing_chosen = 3;
constexpr int all_skipped = 4;  // cmake/test_groups.cmake has it, too

}  // namespace

int main(int count, char** arguments) {
    ::testing::InitGoogleTest(&count, arguments);
    const int code = RUN_ALL_TESTS();
    if (code != 0 || GTEST_FLAG_GET(list_tests)) {
        return code;
    }
    const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
    if (all.test_to_run_count() == 0) {
        return nothing_chosen;
    }
    return all.skipped_test_count() == all.test_to_run_count() ? all_skipped : 0;
}
