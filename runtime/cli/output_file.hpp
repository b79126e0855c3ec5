// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The files that commands and tools write: results, traces, pictures' numbers.

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace orchard::command_line {

/// The accounts that may read a file which is made.
enum class readable_by {
    umask_says,  ///< results and reports: mode 0666 without the bits of the process's umask
    owner,       ///< traces, which may show what a program does to its memory: mode 0600 under any umask
};

/// A file that a command writes at its end. It is opened before the work, so that a long run does not end with the
/// error that it cannot be written.
///
/// A regular file is written completely or not at all: until `commit`, it has no name, and an earlier file of that name
/// stays as it is. Only where a file system knows no files without a name, the text has a name of its own in that
/// folder while `commit` writes it. A device, a FIFO, a socket or a symbolic link is written in place, and what exists
/// there keeps its mode; an earlier regular file's mode is not taken over.
class output_file {
public:
    /// Opens `path`. If it is a FIFO, waits for a reader. Errors: `InvalidArgument`, with the path and the system's
    /// text, for a folder, a parent folder that is missing or locked, or a file that must not be written.
    static absl::StatusOr<output_file> open(const std::string& path, readable_by who = readable_by::umask_says);

    /// Returns the file as `open` does on a file system that knows no files without a name. For tests.
    static output_file open_named(const std::string& path, readable_by who) { return {path, who}; }

    output_file(output_file&& other) noexcept;
    output_file& operator=(output_file&&) = delete;
    /// Without `commit`, nothing is left of the file.
    ~output_file();

    /// Writes `text` and gives the file its name. It is called once. Errors: `Unknown` with the path and the system's
    /// text; then an earlier regular file of that name is unchanged.
    absl::Status commit(std::string_view text);

private:
    output_file(std::string path, readable_by who);

    absl::Status failure(const char* what) const;
    absl::Status write(std::string_view text);
    absl::Status give_name();

    std::string path_;
    readable_by who_;
    std::string temporary_;  ///< the name that the text has meanwhile; empty: none
    int fd_ = -1;            ///< -1: opened by `commit`
    bool in_place_ = false;
};

/// Returns the file that an option names, opened; none if `path` is empty. Errors: those of `output_file::open`.
absl::StatusOr<std::optional<output_file>> open_if_named(const std::string& path,
                                                         readable_by who = readable_by::umask_says);

/// Opens `path`, writes `text` and closes it. Errors: those of `open` and `commit`.
absl::Status write_file(const std::string& path, std::string_view text, readable_by who = readable_by::umask_says);

}  // namespace orchard::command_line
