// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Writes a file completely or not at all. The program has a class for that with more to say (cli/output_file.hpp),
/// which is not part of the library.

#include "runtime/heap/dump_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include "absl/strings/str_format.h"

namespace orchard {
namespace {

absl::Status failure_of(const char* what, const std::string& path) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: cannot %s: %s", path, what, std::generic_category().message(errno)));
}

/// Writes all of `text`. Returns false, with `errno`, if it could not.
bool write_all(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t n = ::write(fd, text.data(), text.size());
        if (n < 0 && errno != EINTR) {
            return false;
        }
        text.remove_prefix(n > 0 ? static_cast<std::size_t>(n) : 0);
    }
    return true;
}

/// Closes `fd` and returns OK if that and `written` succeeded.
absl::Status finish(int fd, bool written, const std::string& path) {
    const int error = errno;
    const bool closed = ::close(fd) == 0;
    if (!written) {
        errno = error;
    }
    return written && closed ? absl::OkStatus() : failure_of("write", path);
}

}  // namespace

absl::Status write_dump(const std::string& path, std::string_view text) {
    struct stat found {};
    if (::stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) {
        const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
        if (fd < 0) {
            return failure_of("open", path);
        }
        const bool written = write_all(fd, text);
        return finish(fd, written, path);
    }
    std::string name = path + ".XXXXXX";
    const int fd = ::mkostemp(name.data(), O_CLOEXEC);  // with the mode 0600
    if (fd < 0) {
        return failure_of("make a file beside it", path);
    }
    const bool written = write_all(fd, text);
    absl::Status status = finish(fd, written, path);
    if (status.ok() && ::rename(name.c_str(), path.c_str()) != 0) {
        status = failure_of("rename the new file to it", path);
    }
    if (!status.ok()) {
        ::unlink(name.c_str());
    }
    return status;
}

}  // namespace orchard
