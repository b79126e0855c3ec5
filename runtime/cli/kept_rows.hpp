// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The rows of commands that take minutes: written after each run, and read again by `--resume`, so that a call which
/// was interrupted goes on where it was.

#include <string>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/cli/json_output.hpp"
#include "runtime/machine/machine_info.hpp"

namespace orchard::command_line {

/// Returns the rows of an earlier document, an array of objects; none if no file is named, or there is no such file.
/// Errors: DataLoss if the file is no document with rows and with `member`; InvalidArgument if it is of another device.
/// @param member  what documents of this command have besides; empty: nothing
absl::StatusOr<nlohmann::ordered_json> kept_rows(const std::string& file, const device_choice& device,
                                                 const std::string& member = "");

/// Writes a document now, if `to` names a regular file, or one that does not exist yet. Errors: those of `write_file`.
absl::Status keep_rows(const json_option& to, const device_choice& device, const nlohmann::ordered_json& members);

}  // namespace orchard::command_line
