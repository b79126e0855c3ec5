// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The tests of the arena start their own program again as a worker, which has allocators with planted faults.
#include <gtest/gtest.h>

#include <string_view>

#include "profiling/arena/worker.hpp"
#include "runtime/cli/command_line.hpp"

int main(int count, char** words) {
    if (count > 1 && std::string_view(words[1]) == orchard::arena::worker_command) {
        return orchard::command_line::run(count, words);
    }
    ::testing::InitGoogleTest(&count, words);
    return RUN_ALL_TESTS();
}
