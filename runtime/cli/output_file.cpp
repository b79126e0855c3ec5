// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The files that commands write; output_file.hpp has the rules. Three ways lead to a finished file:
///
///     open                            commit
///     O_TMPFILE: no name              write, link it as path.PID, rename that to path     the usual one
///     nothing: -1                     mkostemp path.XXXXXX, write, rename                 no O_TMPFILE here
///     the file itself: in_place_      truncate a regular file, write                      device, FIFO, link
///
/// `rename` replaces an earlier file in one step: a reader finds the old text or the new one, and never a part.

#include "runtime/cli/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"

namespace orchard::command_line {
namespace {

/// Returns the error for a path that cannot be written, with the system's text for `error`.
absl::Status rejection(const std::string& path, int error) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": cannot be written: ", std::strerror(error), "; name a file in a folder that can"));
}

/// Returns the folder in which `path` lies; "." for a name alone.
std::string folder_of(const std::string& path) {
    const std::string parent = std::filesystem::path(path).parent_path().string();
    return parent.empty() ? "." : parent;
}

/// Returns the mode for `open`, which takes the umask's bits away.
mode_t mode_for(readable_by who) { return who == readable_by::owner ? 0600 : 0666; }

/// Makes a file with a new name beside `path`, and sets `name`. Returns its descriptor, or -1 with `errno`.
int make_beside(const std::string& path, readable_by who, std::string* name) {
    *name = path + ".XXXXXX";
    const int fd = ::mkostemp(name->data(), O_CLOEXEC);
    if (fd >= 0 && who == readable_by::umask_says) {
        // The mask can only be read by setting it. A file that another thread creates in between gets no mask.
        const mode_t mask = ::umask(0);
        ::umask(mask);
        ::fchmod(fd, 0666 & ~mask);  // mkostemp gives access to the owner only
    }
    return fd;
}

}  // namespace

output_file::output_file(std::string path, readable_by who) : path_{std::move(path)}, who_{who} {}

/// `other` is left without a descriptor and without a name, so that its destructor removes nothing.
output_file::output_file(output_file&& other) noexcept
    : path_{std::move(other.path_)},
      who_{other.who_},
      temporary_{std::exchange(other.temporary_, "")},
      fd_{std::exchange(other.fd_, -1)},
      in_place_{other.in_place_} {}

/// A file without a name disappears when it is closed; one with a temporary name is removed.
output_file::~output_file() {
    if (fd_ >= 0) {
        ::close(fd_);
    }
    if (!temporary_.empty()) {
        ::unlink(temporary_.c_str());
    }
}

/// All errors that can be found before the text is known are found here: a folder, a missing or locked folder, a file
/// that may not be replaced. `rename` itself would replace a file without write permission, hence the test of it.
absl::StatusOr<output_file> output_file::open(const std::string& path, readable_by who) {
    struct stat itself {};
    struct stat target {};
    // `lstat` for the path itself: a symbolic link must stay a link. `stat` for its target, which may be a folder.
    const bool exists = ::lstat(path.c_str(), &itself) == 0;
    if (::stat(path.c_str(), &target) == 0 && S_ISDIR(target.st_mode)) {
        return absl::InvalidArgumentError(absl::StrCat(path, ": is a folder; name a file in it"));
    }
    output_file made(path, who);
    made.in_place_ = exists && !S_ISREG(itself.st_mode);
    if (made.in_place_) {
        // No O_TRUNC: an earlier text behind a link stays until `commit`. O_NOCTTY: a terminal must not become this
        // process's controlling one.
        made.fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_NOCTTY | O_CLOEXEC, mode_for(who));
        if (made.fd_ < 0) {
            return rejection(path, errno);
        }
        return made;
    }
    // Tested with the rights of the real user.
    if (exists && ::access(path.c_str(), W_OK) != 0) {
        return rejection(path, errno);
    }
    const std::string folder = folder_of(path);
    // In the same folder, because a file can be renamed within one file system only.
    made.fd_ = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode_for(who));
    // These three say that the file system knows no files without a name.
    const bool unknown = made.fd_ < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL);
    if (made.fd_ < 0 && (!unknown || ::access(folder.c_str(), W_OK | X_OK) != 0)) {
        return rejection(path, errno);
    }
    return made;
}

/// Returns the error with the text for `errno`. Call it at once, since `errno` may change with any other call.
absl::Status output_file::failure(const char* what) const {
    return absl::UnknownError(absl::StrCat(path_, ": ", what, ": ", std::strerror(errno)));
}

/// Writes all of the text: one call may write a part, and a signal may interrupt it.
absl::Status output_file::write(std::string_view text) {
    while (!text.empty()) {
        const ssize_t n = ::write(fd_, text.data(), text.size());
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return failure("cannot be written");
        }
        text.remove_prefix(static_cast<std::size_t>(n));
    }
    return absl::OkStatus();
}

/// Gives the text its name. Until then it has a temporary one, which the destructor removes after an error.
absl::Status output_file::give_name() {
    if (temporary_.empty()) {
        // A link cannot replace a file, so that the text gets a name beside it first. The source of the link is the
        // descriptor's entry in /proc, which needs no privilege (open(2), O_TMPFILE).
        const std::string source = absl::StrCat("/proc/self/fd/", fd_);
        std::string beside = absl::StrCat(path_, ".", ::getpid());
        const auto link = [&] {
            return ::linkat(AT_FDCWD, source.c_str(), AT_FDCWD, beside.c_str(), AT_SYMLINK_FOLLOW) == 0;
        };
        // A process of the same number that was killed here may have left the name.
        if (!link() && (errno != EEXIST || ::unlink(beside.c_str()) != 0 || !link())) {
            return failure("cannot be put in place");
        }
        temporary_ = std::move(beside);
    }
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
        return failure("cannot be put in place");
    }
    temporary_.clear();
    return absl::OkStatus();
}

/// The steps after which the file may still be incomplete (truncate, write, close) all report errors.
absl::Status output_file::commit(std::string_view text) {
    if (fd_ < 0) {
        fd_ = make_beside(path_, who_, &temporary_);
        if (fd_ < 0) {
            temporary_.clear();
            return failure("cannot be written");
        }
    }
    struct stat about {};
    // A link to a regular file: the earlier text may be longer than the new one. Other files cannot be truncated.
    if (in_place_ && ::fstat(fd_, &about) == 0 && S_ISREG(about.st_mode) && ::ftruncate(fd_, 0) != 0) {
        return failure("cannot be written");
    }
    absl::Status status = write(text);
    if (status.ok() && !in_place_) {
        status = give_name();
    }
    // Some file systems tell only here that there is no room.
    if (::close(std::exchange(fd_, -1)) != 0) {
        status.Update(failure("cannot be written"));
    }
    return status;
}

/// For options whose default, an empty path, means that the command writes no file.
absl::StatusOr<std::optional<output_file>> open_if_named(const std::string& path, readable_by who) {
    if (path.empty()) {
        return std::nullopt;
    }
    absl::StatusOr<output_file> file = output_file::open(path, who);
    if (!file.ok()) {
        return file.status();
    }
    return std::optional<output_file>(*std::move(file));
}

/// For commands that have the text already, so that nothing is lost if the file cannot be written.
absl::Status write_file(const std::string& path, std::string_view text, readable_by who) {
    absl::StatusOr<output_file> file = output_file::open(path, who);
    return file.ok() ? file->commit(text) : file.status();
}

}  // namespace orchard::command_line
