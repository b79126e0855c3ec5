// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "tests/deadlock/child_process.hpp"

#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace orchard::test {
namespace {

std::vector<std::string> environment_with(const std::map<std::string, std::string>& variables) {
    std::vector<std::string> result;
    for (char** each = environ; *each != nullptr; ++each) {
        const std::string line = *each;
        if (!variables.contains(line.substr(0, line.find('=')))) {
            result.push_back(line);
        }
    }
    for (const auto& [name, value] : variables) {
        result.push_back(absl::StrCat(name, "=", value));
    }
    return result;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
    std::vector<char*> result;
    for (std::string& text : texts) {
        result.push_back(text.data());
    }
    result.push_back(nullptr);
    return result;
}

}  // namespace

absl::StatusOr<child_end> run_child(const std::string& program, const std::vector<std::string>& arguments,
                                    const std::map<std::string, std::string>& variables, absl::Duration limit) {
    std::vector<std::string> words = {program};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<std::string> environment = environment_with(variables);
    pid_t child = 0;
    const int error = posix_spawn(&child, program.c_str(), nullptr, nullptr, pointers_to(words).data(),
                                  pointers_to(environment).data());
    if (error != 0) {
        return absl::ErrnoToStatus(error, absl::StrCat("cannot start ", program));
    }
    const absl::Time deadline = absl::Now() + limit;
    child_end result;
    int status = 0;
    for (pid_t ended = 0; ended != child;) {
        ended = waitpid(child, &status, result.timed_out ? 0 : WNOHANG);
        if (ended < 0 && errno != EINTR) {
            return absl::ErrnoToStatus(errno, "waitpid");
        }
        if (ended == 0 && absl::Now() > deadline) {
            result.timed_out = true;
            kill(child, SIGKILL);
        } else if (ended == 0) {
            absl::SleepFor(absl::Milliseconds(2));
        }
    }
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    result.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return result;
}

void end_with_parent(absl::Duration limit) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(static_cast<unsigned>(absl::ToInt64Seconds(limit)));
}

}  // namespace orchard::test
