// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The manual page of the program, made from its definition.

#include <string>

namespace CLI {
class App;
}

namespace orchard::command_line {

/// Returns the text of `orchard.1`, in the macros of man(7): the commands with their options, then once the options
/// that several commands share, the variables of the environment and the exit codes.
std::string manual_page(const CLI::App& program);

}  // namespace orchard::command_line
