// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Opens files; input_file.hpp has the interface.

#include "runtime/text/input_file.hpp"

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_format.h"

namespace orchard::detail {
namespace {

const char* remedy(int error) {
    switch (error) {
        case EACCES:
        case EPERM: return "run this as a user with the right to read it, or change its mode";
        case EISDIR: return "name a file in it";
        default: return "name a file that can be read";
    }
}

absl::Status rejection(const std::string& path, int error) {
    const std::string text =
        absl::StrFormat("%s: cannot be read: %s; %s", path, std::generic_category().message(error), remedy(error));
    return error == ENOENT ? absl::NotFoundError(text) : absl::InvalidArgumentError(text);
}

}  // namespace

/// A folder can be opened, and only its reading fails.
absl::StatusOr<std::ifstream> open_to_read(const std::string& path) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) {
        return rejection(path, EISDIR);
    }
    errno = 0;
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        return rejection(path, errno != 0 ? errno : EIO);
    }
    return file;
}

}  // namespace orchard::detail
