// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include <gtest/gtest.h>

#include "runtime/cli/command_line.hpp"

namespace orchard::command_line {
namespace {

// In a process of its own, because a registration cannot be undone.
TEST(command_line_registrar_DeathTest, a_name_that_stands_twice_is_reported) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto twice = [] {
        const registrar first{+[] {
            return subcommand{.name = "info", .help = "The same name as a built-in one", .declare = {}, .run = {}};
        }};
        const char* argv[] = {"orchard", "info"};
        _exit(run(2, argv));
    };
    EXPECT_EXIT(twice(), testing::ExitedWithCode(1), "orchard: the subcommand info is registered twice; rename one");
}

}  // namespace
}  // namespace orchard::command_line
