// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Files that the library and the commands read, with one error for each reason for which a file cannot be read.

#include <fstream>
#include <string>

#include "absl/status/statusor.h"

namespace orchard::detail {

/// Returns the file, open for binary reading.
///
/// Errors, each with the path, the system's reason and a remedy: NotFound if there is no such file; InvalidArgument for
/// a folder, and for a file that this user may not read.
absl::StatusOr<std::ifstream> open_to_read(const std::string& path);

}  // namespace orchard::detail
