// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The program `orchard`. Everything is in `command_line::run`, which tests call, too; the subcommands of other folders
/// register themselves before `main` (`registrar`).

#include <commit.hpp>

#include "runtime/cli/command_line.hpp"

int main(int argc, char** argv) { return orchard::command_line::run(argc, argv, ORCHARD_COMMIT); }
