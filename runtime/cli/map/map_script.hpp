// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The script of the page of `orchard map`.

namespace orchard::command_line {

extern const char* const map_script;

}  // namespace orchard::command_line
