// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The file that `heap::dump` writes.

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace orchard {

/// Writes `text` to the file `path`, which gets the mode 0600. A regular file, or one that does not exist yet, is
/// written under another name in the same folder, and renamed when it is complete; a device or a FIFO is written in
/// place. Errors: InvalidArgument with the path and the system's text; an earlier regular file is then unchanged.
absl::Status write_dump(const std::string& path, std::string_view text);

}  // namespace orchard
