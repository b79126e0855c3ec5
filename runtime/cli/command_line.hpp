// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The command line of the program `orchard`: a registry of subcommands, and what runs them. Part of the program, not
/// of what a user of the heap includes: it prints.

#include <functional>
#include <string>

#include "absl/status/status.h"

namespace CLI {
class App;
}

namespace orchard::command_line {

/// One subcommand, `orchard <name>`.
struct subcommand {
    std::string name;
    std::string help;                        ///< one sentence, shown in the list of subcommands
    std::string group = "Subcommands";       ///< its heading in that list
    std::function<void(CLI::App&)> declare;  ///< adds its flags; called for every subcommand before parsing, so that it
                                             ///< does nothing else. What it binds must live until `run` has returned.
    std::function<int()> run;                ///< called after parsing, for the one chosen; returns the exit code
};

/// A static object that registers a subcommand before `main`:
///
///     const registrar walk{{"walk", "Random walk ...", "Examples", declare_walk, run_walk}};
///
/// The object file must be linked as such (not from a static library, where the linker leaves it out).
class registrar {
public:
    explicit registrar(subcommand command);
};

/// Parses the command line and runs the subcommand; returns the exit code of the process.
///
/// 0 where `run` returned 0, and for --help and --version (which print to standard output). 2 for a command line that
/// is wrong: exactly one line on standard error names what is wrong, the value, the remedy, and how to get help. 1
/// where standard output could not be written. Otherwise what `run` returned.
int run(int argc, const char* const* argv);

/// The command as it was typed, its arguments separated by blanks.
std::string typed();

/// Ends a subcommand with a status: 0 where it is ok; otherwise prints its message to standard error as exactly one
/// line and returns 2 for what the user can mend (InvalidArgument, NotFound, FailedPrecondition, OutOfRange, DataLoss)
/// or 1 for what failed.
int exit_code(const absl::Status& status);

}  // namespace orchard::command_line
