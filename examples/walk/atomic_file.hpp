// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace orchard::examples {

/// Writes a file completely or not at all: under another name in the same folder, which is then renamed.
class atomic_file {
public:
    /// Checks now that `path` can be written, so that a long run does not end with this error. Errors:
    /// `InvalidArgument`, with the path and the system's text, for a folder, or for a missing or locked parent folder.
    static absl::StatusOr<atomic_file> open(const std::string& path);

    atomic_file(atomic_file&& other) noexcept;
    atomic_file& operator=(atomic_file&&) = delete;
    /// Without `commit`, removes the temporary file; a file that existed before is unchanged.
    ~atomic_file();

    /// Writes `text` and moves the file to its path. Errors: `Unknown` with the system's text.
    absl::Status commit(std::string_view text);

private:
    atomic_file(std::string path, std::string temporary, int fd);

    std::string path_;
    std::string temporary_;
    int fd_;  ///< of the temporary file; -1 if there is none
};

}  // namespace orchard::examples
