// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Runs `orchard` as an ordinary user: root may read everything, whatever a file's mode says.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/support/run_command.hpp"

namespace orchard::test {

namespace detail {

/// Gives up the rights of root. Returns false if this process may not become another user. Others than root have none.
inline bool give_up_rights() {
    constexpr uid_t nobody = 65534;
    return ::geteuid() != 0 || (::setgid(nobody) == 0 && ::setuid(nobody) == 0);
}

inline void write_all(int fd, const std::string& text) {
    for (std::size_t at = 0; at < text.size();) {
        const ssize_t n = ::write(fd, text.data() + at, text.size() - at);
        if (n <= 0) {
            return;
        }
        at += static_cast<std::size_t>(n);
    }
}

inline std::string read_to_end(int fd) {
    std::string text;
    char part[4096];
    for (ssize_t n = 0; (n = ::read(fd, part, sizeof(part))) > 0;) {
        text.append(part, static_cast<std::size_t>(n));
    }
    return text;
}

}  // namespace detail

/// Runs `orchard` with these words in a process without the rights of root. Returns its outcome; nothing if this
/// process may not become another user.
inline std::optional<outcome> run_without_rights(const std::vector<std::string>& words) {
    constexpr int impossible = 77;
    int ends[2];
    if (::pipe(ends) != 0) {
        return std::nullopt;
    }
    const pid_t child = ::fork();
    if (child == 0) {
        if (!detail::give_up_rights()) {
            ::_exit(impossible);
        }
        const outcome done = run_with(words);
        // No text of a command has a zero byte.
        detail::write_all(ends[1], std::to_string(done.code) + '\0' + done.out + '\0' + done.err);
        ::_exit(0);
    }
    ::close(ends[1]);
    const std::string said = detail::read_to_end(ends[0]);
    ::close(ends[0]);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == impossible) {
        return std::nullopt;
    }
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the process ended with status " << status;
    const std::size_t first = said.find('\0');
    const std::size_t second = said.find('\0', first + 1);
    if (first == std::string::npos || second == std::string::npos) {
        ADD_FAILURE() << "the process said: " << said;
        return outcome{-1, "", ""};
    }
    return outcome{std::stoi(said), said.substr(first + 1, second - first - 1), said.substr(second + 1)};
}

}  // namespace orchard::test
