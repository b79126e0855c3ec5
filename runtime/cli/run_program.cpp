// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Runs another program and waits for it; run_program.hpp has the interface.

#include "runtime/cli/run_program.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace orchard::command_line {

/// `posix_spawnp` reports a missing program itself, so that NotFound and a program that fails can be told apart. The
/// child has this process's environment, folder and open files.
absl::Status run_program(const std::vector<std::string>& words, child_output to) {
    std::vector<char*> arguments;
    for (const std::string& word : words) {
        arguments.push_back(const_cast<char*>(word.c_str()));  // posix_spawn does not write to them
    }
    arguments.push_back(nullptr);
    pid_t child = 0;
    posix_spawn_file_actions_t actions;
    int failed = ::posix_spawn_file_actions_init(&actions);
    if (failed == 0 && to == child_output::standard_error) {
        failed = ::posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    }
    if (failed == 0) {
        failed = ::posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
        ::posix_spawn_file_actions_destroy(&actions);
    }
    if (failed != 0) {
        return absl::NotFoundError(absl::StrCat("cannot start ", words[0], ": ", std::strerror(failed)));
    }
    int status = 0;
    // A signal that this process handles interrupts the wait; the child still runs.
    while (::waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return absl::InternalError(absl::StrCat("cannot wait for ", words[0], ": ", std::strerror(errno)));
        }
    }
    // A child that was ended by a signal has no exit status.
    if (WIFSIGNALED(status)) {
        return absl::FailedPreconditionError(absl::StrCat(words[0], " was ended by signal ", WTERMSIG(status)));
    }
    return WEXITSTATUS(status) == 0
               ? absl::OkStatus()
               : absl::FailedPreconditionError(absl::StrCat(words[0], " failed with status ", WEXITSTATUS(status)));
}

/// Each word stands between single quotes, in which a shell interprets nothing. A single quote in a word ends the
/// quotes, follows as \', and begins them again: it's becomes 'it'\''s'.
std::string as_shell_line(const std::vector<std::string>& words) {
    return absl::StrJoin(words, " ", [](std::string* out, const std::string& word) {
        absl::StrAppend(out, "'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
    });
}

}  // namespace orchard::command_line
