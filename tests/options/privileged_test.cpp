// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A program with more rights than its caller ignores the variables `ORCHARD_*`: this program, copied and run with the
// set-user-ID bit.

#include <gtest/gtest.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "runtime/options/options.hpp"
#include "tests/options/clean_environment.hpp"

namespace orchard {
namespace {

constexpr int not_privileged = 77;
constexpr uid_t nobody = 65534;

// Run by the test below in a process of its own.
TEST(privileged_program, DISABLED_reads_its_environment) {
    if (::getauxval(AT_SECURE) == 0) {
        ::_exit(not_privileged);
    }
    ::_exit(options::from_environment().ok() ? 0 : 1);
}

/// Returns the exit status of `program` when it runs the test above.
int run(const std::string& program) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::execl(program.c_str(), program.c_str(), "--gtest_also_run_disabled_tests",
                "--gtest_filter=privileged_program.DISABLED_reads_its_environment", nullptr);
        ::_exit(127);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(privileged_program, ignores_the_environment) {
    if (::geteuid() != 0) {
        GTEST_SKIP() << "needs the rights to give a file to another user";
    }
    testing_support::clean_environment environment;
    environment.set("ORCHARD_REFILL_BATCH", "nonsense");
    ASSERT_FALSE(options::from_environment().ok());
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / ("orchard_privileged_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
    ::chmod(folder.c_str(), 0755);
    const std::string program = folder / "program";
    std::filesystem::copy_file("/proc/self/exe", program);
    ASSERT_EQ(::chown(program.c_str(), nobody, static_cast<gid_t>(-1)), 0);
    ASSERT_EQ(::chmod(program.c_str(), 04755), 0);
    const int status = run(program);
    std::filesystem::remove_all(folder);
    if (status == not_privileged) {
        GTEST_SKIP() << "the file system of " << folder << " ignores the set-user-ID bit";
    }
    EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace orchard
