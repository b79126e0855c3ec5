// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The command line of the program `orchard`: a registry of subcommands and the function that runs them. It prints, so
/// it belongs to the program and not to the headers that users of the heap include.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace CLI {
class App;
}

namespace orchard::command_line {

/// One subcommand, `orchard <name>`.
struct subcommand {
    std::string name;
    std::string help;                        ///< one sentence, shown in the list of subcommands
    std::string group = "Subcommands";       ///< the heading of its group in that list; empty: it is not in the list
    std::function<void(CLI::App&)> declare;  ///< adds its flags; called for every subcommand before parsing, so it must
                                             ///< do nothing else. The variables that it binds must live as long as the
                                             ///< subcommand.
    std::function<int()> run;                ///< called after parsing, for the chosen subcommand; returns the exit code
};

/// A static object that registers, before `main`, the function that makes a subcommand:
///
///     subcommand walk_command() {
///         const auto a = std::make_shared<walk_arguments>();
///         return {"walk", "Random walk ...", "Examples", [a](CLI::App& app) { ... }, [a] { ... }};
///     }
///     const registrar walk_command_registered{walk_command};
///
/// Each call of `run` makes all subcommands anew, so that no argument of an earlier call in the process is left.
/// Link the object file itself. From a static library, the linker would leave it out.
class registrar {
public:
    explicit registrar(subcommand (*make)());
};

/// Parses the command line and runs the subcommand; returns the exit code of the process:
///
/// - 0 if the subcommand's `run` returned 0, and for --help and --version (which print to standard output);
/// - 2 for a wrong command line: exactly one line on standard error names the error, the value, the remedy, and how to
///   get help;
/// - 1 if standard output could not be written;
/// - otherwise the value that the subcommand's `run` returned.
///
/// @param commit  the commit that the program was built from, for JSON; it must live until the process ends
int run(int argc, const char* const* argv, std::string_view commit = "unknown");

/// Returns the commit that `run` was given; "unknown" before `run`.
std::string_view commit();

/// Returns the command as it was typed, its arguments separated by blanks.
std::string typed();

/// Prints each message to standard error as one line, "orchard: warning: ...".
void warn(const std::vector<std::string>& messages);

/// Returns the exit code of a subcommand that ended with `status`: 0 if it is ok. Otherwise prints its message to
/// standard error as exactly one line and returns 2 for an error that the user can correct (InvalidArgument, NotFound,
/// FailedPrecondition, OutOfRange, DataLoss), or 1 for any other error.
int exit_code(const absl::Status& status);

}  // namespace orchard::command_line
