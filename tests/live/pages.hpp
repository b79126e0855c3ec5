// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Pages and processes for the tests of the live page.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "host/monotonic_clock.hpp"
#include "runtime/heap/heap.hpp"
#include "runtime/live/live_page.hpp"
#include "runtime/live/live_reader.hpp"
#include "tests/options/clean_environment.hpp"

namespace orchard::live_test {

/// Returns the words of a page with the fields and values given, as its owner makes them.
inline std::vector<std::uint64_t> page_words(const std::vector<live::field_description>& fields,
                                             const std::vector<std::uint64_t>& values) {
    auto page = live::live_page::create(4'000'000'000u, fields);
    EXPECT_TRUE(page.ok()) << page.status();
    (*page)->publish(values);
    const int fd = ::shm_open(("/" + (*page)->name().text()).c_str(), O_RDONLY, 0);
    std::vector<std::uint64_t> words(1 << 16);
    const ssize_t got = ::pread(fd, words.data(), words.size() * 8, 0);
    ::close(fd);
    words.resize(got < 0 ? 0 : static_cast<std::size_t>(got) / 8);
    return words;
}

/// A file in /dev/shm with the name of a page and any content, removed at the end.
class page_file {
public:
    page_file(const live::page_name& name, const std::vector<std::uint64_t>& words, mode_t mode = 0600)
        : path_{"/" + name.text()} {
        ::shm_unlink(path_.c_str());
        fd_ = ::shm_open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL, mode);
        EXPECT_GE(fd_, 0);
        const auto bytes = static_cast<ssize_t>(words.size() * 8);
        EXPECT_EQ(::pwrite(fd_, words.data(), words.size() * 8, 0), bytes);
    }
    page_file(const page_file&) = delete;
    page_file& operator=(const page_file&) = delete;
    ~page_file() {
        ::close(fd_);
        ::shm_unlink(path_.c_str());
    }
    void cut(std::uint64_t bytes) const { EXPECT_EQ(::ftruncate(fd_, static_cast<off_t>(bytes)), 0); }
    [[nodiscard]] bool is_there() const { return ::access(("/dev/shm" + path_).c_str(), F_OK) == 0; }

private:
    std::string path_;
    int fd_ = -1;
};

inline options small_heap() {
    options o;
    o.device = device_option::emulated;
    o.capacity = 64 << 20;
    o.range = 64 << 20;
    o.backing = backing_option::elastic;
    o.extent = segment_bytes;
    o.commit_ahead = 0;
    o.emulated_workers = 2;
    o.live_page = true;
    return o;
}

/// A process that was forked from the test's, and ends with this object.
class child_process {
public:
    /// Runs `body(ready)` in the child, and waits until it has called `ready`. The child ends when `body` returns.
    explicit child_process(const std::function<int(const std::function<void()>&)>& body) {
        int ends[2];
        EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
        pid_ = ::fork();
        if (pid_ == 0) {
            ::alarm(100);
            const auto ready = [&] { (void)!::write(ends[1], "r", 1); };
            ::_exit(body(ready));
        }
        ::close(ends[1]);
        char byte = 0;
        is_ready_ = ::read(ends[0], &byte, 1) == 1;
        ::close(ends[0]);
    }
    child_process(const child_process&) = delete;
    child_process& operator=(const child_process&) = delete;
    ~child_process() { kill(SIGKILL); }

    [[nodiscard]] pid_t pid() const { return pid_; }
    [[nodiscard]] bool is_ready() const { return is_ready_; }
    /// Waits for the end. Returns the exit code; 255 if a signal ended it.
    int wait() { return kill(0); }
    /// Sends the signal, and waits for the end. Returns the exit code; 255 if a signal ended it.
    int kill(int signal) {
        if (!has_ended_) {
            ::kill(pid_, signal);
            int status = 0;
            EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
            has_ended_ = true;
            code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 255;
        }
        return code_;
    }

private:
    pid_t pid_ = 0;
    bool is_ready_ = false;
    bool has_ended_ = false;
    int code_ = 0;
};

/// A child with so many heaps that show themselves. It ends by itself at SIGTERM, and destroys them then.
inline int own_heaps(int count, const std::function<void()>& ready, const options& values = small_heap()) {
    sigset_t end;
    ::sigemptyset(&end);
    ::sigaddset(&end, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &end, nullptr);
    std::vector<heap> heaps;
    for (int i = 0; i < count; ++i) {
        auto made = heap::create(values);
        if (!made.ok() || !made->warnings().empty()) {
            return 3;
        }
        heaps.push_back(*std::move(made));
    }
    ready();
    int signal = 0;
    ::sigwait(&end, &signal);
    return 0;
}

/// Returns the pages of a process, living ones alone.
inline std::vector<live::page_name> pages_of(pid_t pid) {
    std::vector<live::page_name> names = live::living_pages();
    std::erase_if(names, [&](const live::page_name& n) { return n.pid != pid; });
    return names;
}

/// Calls `done` until it returns true, for at most 60 s.
inline bool eventually(const std::function<bool()>& done) {
    for (int i = 0; i < 6000; ++i) {
        if (done()) {
            return true;
        }
        absl::SleepFor(absl::Milliseconds(10));
    }
    return false;
}

}  // namespace orchard::live_test
