// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "tests/deadlock/gpu_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>

namespace orchard::test {

gpu_lock::gpu_lock() {
    const std::string path = (std::filesystem::temp_directory_path() / "orchard_gpu.lock").string();
    // Opened for reading first, because O_CREAT may fail for another user's file in a shared folder.
    file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file_ < 0) {
        file_ = open(path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0644);
    }
    if (file_ < 0) {
        status_ = absl::ErrnoToStatus(errno, "cannot open " + path);
        return;
    }
    while (flock(file_, LOCK_EX) != 0) {
        if (errno != EINTR) {
            status_ = absl::ErrnoToStatus(errno, "cannot lock " + path);
            return;
        }
    }
}

gpu_lock::~gpu_lock() {
    if (file_ >= 0) {
        close(file_);  // which unlocks it
    }
}

}  // namespace orchard::test
