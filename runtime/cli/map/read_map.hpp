// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Reads the file that `heap::dump` writes.

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "runtime/heap/heap_map.hpp"

namespace orchard::command_line {

/// Returns the map that `text` holds. All that its lists promise (heap_map.hpp) is checked: that runs cover all
/// segments without gaps, that slabs, chunks and portions lie where segments have that use, and, of an exact map, that
/// they agree with the statistics. Members that this version does not know are ignored.
///
/// Errors: DataLoss with the place ("slabs, entry 3: ..."), if the text is no map, is cut off, or contradicts itself;
/// Unimplemented for a version that this program does not read. Cost: a look at each entry and at each segment.
absl::StatusOr<heap_map> parse_map(std::string_view text);

/// Returns the map in the file `path`. Errors: NotFound or Unknown with the path and the system's text; InvalidArgument
/// for a file of more than 1 GiB; those of `parse_map`, with the path.
absl::StatusOr<heap_map> read_map(const std::string& path);

}  // namespace orchard::command_line
