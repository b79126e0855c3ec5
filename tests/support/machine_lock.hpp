// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>

namespace orchard::test {

/// A lock that all processes of this machine share, for tests that must not run side by side: those of managed memory,
/// which can hang a shared GPU if there is too much of it, and those that need much of the GPU's memory. The end of the
/// process releases it.
class machine_lock {
public:
    /// Waits until no other process holds the lock of this name. Without rights to the file, nothing is locked.
    explicit machine_lock(const std::string& name)
        : file_{::open(file_of(name).c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666)} {
        while (file_ >= 0 && ::flock(file_, LOCK_EX) != 0 && errno == EINTR) {
        }
    }
    ~machine_lock() {
        if (file_ >= 0) {
            ::close(file_);
        }
    }
    machine_lock(const machine_lock&) = delete;
    machine_lock& operator=(const machine_lock&) = delete;

    static std::string file_of(const std::string& name) {
        return std::filesystem::temp_directory_path() / ("orchard-tests-" + name + ".lock");
    }

private:
    int file_;
};

}  // namespace orchard::test
