// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "profiling/arena/child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

namespace orchard::arena {
namespace {

/// Both ends of a pipe, which this process's other children do not inherit.
class pipe_ends {
public:
    pipe_ends() {
        if (::pipe2(fds_, O_CLOEXEC) != 0) {
            fds_[0] = fds_[1] = -1;
        }
    }
    pipe_ends(const pipe_ends&) = delete;
    pipe_ends& operator=(const pipe_ends&) = delete;
    ~pipe_ends() {
        close_end(0);
        close_end(1);
    }
    [[nodiscard]] int reading() const { return fds_[0]; }
    [[nodiscard]] int writing() const { return fds_[1]; }
    void close_end(int which) {
        if (fds_[which] >= 0) {
            ::close(fds_[which]);
            fds_[which] = -1;
        }
    }

private:
    int fds_[2];
};

/// Returns the process; 0 with the reason if it could not be started.
pid_t start(const std::vector<std::string>& words, const pipe_ends& out, const pipe_ends& err, std::string& why) {
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (const std::string& word : words) {
        arguments.push_back(const_cast<char*>(word.c_str()));  // posix_spawn does not write to them
    }
    arguments.push_back(nullptr);
    pid_t child = 0;
    posix_spawn_file_actions_t actions;
    int failed = ::posix_spawn_file_actions_init(&actions);
    if (failed == 0) {
        ::posix_spawn_file_actions_adddup2(&actions, out.writing(), STDOUT_FILENO);
        ::posix_spawn_file_actions_adddup2(&actions, err.writing(), STDERR_FILENO);
        failed = ::posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
        ::posix_spawn_file_actions_destroy(&actions);
    }
    if (failed != 0) {
        why = absl::StrCat("cannot start ", words[0], ": ", std::strerror(failed));
        return 0;
    }
    return child;
}

/// Waits for the end of a process until `deadline`. Returns false if it still runs.
bool wait_until(pid_t child, absl::Time deadline, int& status) {
    for (;;) {
        const pid_t ended = ::waitpid(child, &status, WNOHANG);
        if (ended == child || (ended < 0 && errno != EINTR)) {
            return true;
        }
        if (absl::Now() > deadline) {
            return false;
        }
        absl::SleepFor(absl::Milliseconds(2));
    }
}

/// Reads what is there. Returns false at the end of the pipe.
bool take(int from, std::string& text) {
    char part[4096];
    const ssize_t got = ::read(from, part, sizeof(part));
    if (got > 0) {
        text.append(part, static_cast<std::size_t>(got));
    }
    return got > 0 || (got < 0 && errno == EINTR);
}

/// Passes the complete lines of `text` on, and leaves the rest in it. Returns true if there was one.
bool pass_lines(std::string& text, const std::function<void(std::string_view)>& on_line) {
    std::size_t begin = 0;
    for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
        on_line(std::string_view(text).substr(begin, end - begin));
    }
    text.erase(0, begin);
    return begin != 0;
}

/// Returns the last line of a text that is not empty, at most 200 characters.
std::string last_line(std::string text) {
    absl::StripAsciiWhitespace(&text);
    return text.substr(text.rfind('\n') + 1, 200);  // npos + 1 is 0
}

}  // namespace

child_end run_child(const std::vector<std::string>& words, absl::Duration limit,
                    const std::function<void(std::string_view)>& on_line, const std::atomic<bool>* stop,
                    absl::Time until) {
    using how = child_end::how;
    pipe_ends out;
    pipe_ends err;
    child_end result;
    const pid_t child = start(words, out, err, result.detail);
    if (child == 0) {
        result.ended = how::failed;
        return result;
    }
    out.close_end(1);
    err.close_end(1);
    std::string lines;
    std::string errors;
    absl::Time deadline = std::min(absl::Now() + limit, until);
    pollfd from[] = {{out.reading(), POLLIN, 0}, {err.reading(), POLLIN, 0}};
    // Relaxed: nothing else is read by it.
    const auto stopped = [&] { return stop != nullptr && stop->load(std::memory_order_relaxed); };
    while ((from[0].fd >= 0 || from[1].fd >= 0) && absl::Now() < deadline && !stopped()) {
        const auto left = absl::ToInt64Milliseconds(deadline - absl::Now()) + 1;
        if (::poll(from, 2, static_cast<int>(std::min<std::int64_t>(left, stop == nullptr ? 1000 : 20))) <= 0) {
            continue;
        }
        if (from[0].revents != 0 && !take(out.reading(), lines)) {
            from[0].fd = -1;  // poll ignores it
        }
        if (from[1].revents != 0 && !take(err.reading(), errors)) {
            from[1].fd = -1;
        }
        if (pass_lines(lines, on_line)) {
            deadline = std::min(absl::Now() + limit, until);
        }
    }
    int status = 0;
    if (stopped()) {
        ::kill(child, SIGKILL);
        wait_until(child, absl::Now() + absl::Seconds(10), status);
        result.ended = how::stopped;
        return result;
    }
    if (!wait_until(child, deadline, status)) {
        ::kill(child, SIGKILL);
        wait_until(child, absl::Now() + absl::Seconds(10), status);  // a driver may take some time to end its kernels
        result.ended = how::late;
        result.detail = absl::StrFormat("no result within %g s", absl::ToDoubleSeconds(limit));
        return result;
    }
    if (WIFSIGNALED(status)) {
        result.ended = how::failed;
        result.detail = absl::StrCat("signal ", WTERMSIG(status), " (", ::strsignal(WTERMSIG(status)), ")");
    } else if (WEXITSTATUS(status) != 0) {
        result.ended = how::failed;
        result.detail = absl::StrCat("exit code ", WEXITSTATUS(status));
    }
    if (const std::string last = last_line(errors); result.ended != how::exited_0 && !last.empty()) {
        absl::StrAppend(&result.detail, ": ", last);
    }
    return result;
}

std::string own_program() {
    std::error_code ignored;
    return std::filesystem::read_symlink("/proc/self/exe", ignored).string();
}

}  // namespace orchard::arena
