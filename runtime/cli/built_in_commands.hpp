// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The subcommands that runtime/ itself provides. The program calls them by name instead of registering them, because
/// runtime/ may be linked from a static library.

#include "runtime/cli/command_line.hpp"

namespace orchard::command_line {

/// `orchard info`: reports the machine's equipment, and the device that `auto` chooses.
subcommand info_command();

/// `orchard options`: prints the table of options.
subcommand options_command();

/// `orchard generate`: prints the manual page or a completion; not in the list of commands.
subcommand generate_command();

}  // namespace orchard::command_line
