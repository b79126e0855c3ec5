// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The subcommands that belong to runtime/ itself. Called by name, not by a registrar, because runtime/ may be linked
/// from a static library.

#include "runtime/cli/command_line.hpp"

namespace orchard::command_line {

/// `orchard info`: what was found on this machine, and which device `auto` takes.
subcommand info_command();

/// `orchard options`: the table of options.
subcommand options_command();

}  // namespace orchard::command_line
