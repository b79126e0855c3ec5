// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The lock that keeps tests of several processes from running side by side.

#include "tests/support/machine_lock.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>

namespace orchard::test {
namespace {

/// Returns whether another process could take the lock now.
bool is_free(const std::string& name) {
    const pid_t child = ::fork();
    if (child == 0) {
        const int file = ::open(machine_lock::file_of(name).c_str(), O_RDWR);
        ::_exit(file >= 0 && ::flock(file, LOCK_EX | LOCK_NB) == 0 ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(machine_lock, keeps_other_processes_out_while_it_lives) {
    const std::string name = "of-" + std::to_string(::getpid());
    {
        const machine_lock lock(name);
        EXPECT_FALSE(is_free(name));
    }
    EXPECT_TRUE(is_free(name));
    std::filesystem::remove(machine_lock::file_of(name));
}

}  // namespace
}  // namespace orchard::test
