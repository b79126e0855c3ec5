// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Completion of the command line in shells, made from the program's definition.

#include <string>

namespace CLI {
class App;
}

namespace orchard::command_line {

/// Returns a script for bash 4.4 or later: commands, options, the words that an option takes, and files. It needs no
/// other script.
std::string bash_completion(const CLI::App& program);

/// Returns a function `_orchard` for zsh, as a file in a folder of `fpath`: the same, with the help of each.
std::string zsh_completion(const CLI::App& program);

}  // namespace orchard::command_line
