// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "examples/walk/atomic_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"

namespace orchard::examples {

atomic_file::atomic_file(std::string path, std::string temporary, int fd)
    : path_{std::move(path)}, temporary_{std::move(temporary)}, fd_{fd} {}

atomic_file::atomic_file(atomic_file&& other) noexcept
    : path_{std::move(other.path_)}, temporary_{std::move(other.temporary_)}, fd_{std::exchange(other.fd_, -1)} {}

atomic_file::~atomic_file() {
    if (fd_ >= 0) {
        ::close(fd_);
        ::unlink(temporary_.c_str());
    }
}

absl::StatusOr<atomic_file> atomic_file::open(const std::string& path) {
    struct stat about {};
    if (::stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode)) {
        return absl::InvalidArgumentError(absl::StrFormat("%s: is a folder; name a file in it", path));
    }
    std::string temporary = path + ".XXXXXX";
    const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
    if (fd < 0) {
        return absl::InvalidArgumentError(
            absl::StrFormat("%s: cannot be written: %s; name a file in a folder that can", path, std::strerror(errno)));
    }
    const mode_t mask = ::umask(0);
    ::umask(mask);
    ::fchmod(fd, 0666 & ~mask);  // mkostemp gives read access to the owner only
    return atomic_file(path, std::move(temporary), fd);
}

absl::Status atomic_file::commit(std::string_view text) {
    for (std::string_view rest = text; !rest.empty();) {
        const ssize_t n = ::write(fd_, rest.data(), rest.size());
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return absl::UnknownError(absl::StrFormat("%s: cannot be written: %s", path_, std::strerror(errno)));
        }
        rest.remove_prefix(static_cast<std::size_t>(n));
    }
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
        return absl::UnknownError(absl::StrFormat("%s: cannot be put in place: %s", path_, std::strerror(errno)));
    }
    ::close(std::exchange(fd_, -1));
    return absl::OkStatus();
}

}  // namespace orchard::examples
