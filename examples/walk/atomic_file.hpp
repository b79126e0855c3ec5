// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace orchard::examples {

/// A file that appears whole or not at all: written beside its place under another name, then renamed.
class atomic_file {
public:
    /// Makes sure now that `path` can be written, so that a long run does not end with this error.
    /// Errors (`InvalidArgument`, with the path and the system's text): a folder, a missing or locked parent folder.
    static absl::StatusOr<atomic_file> open(const std::string& path);

    atomic_file(atomic_file&& other) noexcept;
    atomic_file& operator=(atomic_file&&) = delete;
    /// Without `commit` nothing is left behind, and a file that was there before stays as it was.
    ~atomic_file();

    /// Writes `text` and puts the file in its place. Errors (`Unknown`): the system's text.
    absl::Status commit(std::string_view text);

private:
    atomic_file(std::string path, std::string temporary, int fd);

    std::string path_;
    std::string temporary_;
    int fd_;  ///< of the temporary file; -1 when there is none
};

}  // namespace orchard::examples
