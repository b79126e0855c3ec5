// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The options of a heap as flags. Separate from runtime/options/options.hpp, so that the library's headers do not need
/// CLI11.

#include <set>
#include <string>

#include "runtime/options/options.hpp"

namespace CLI {
class App;
}

namespace orchard {

/// Adds a flag for each option to `app`. Parsing `app` sets `values`: first from the environment (see
/// `apply_environment`), then from the flags. The values before parsing are the defaults, which the help shows. If a
/// flag is given twice, the last one counts. An option
/// whose flag the command has already, with another meaning, gets none: its variable alone sets it. Switches also have
/// `--no-<name>`. A variable that starts with `ORCHARD_` and names no option gives a warning on standard error.
///
/// `values` must live until `app` is parsed. Uses the `preparse_callback` of `app`.
///
/// Errors: `CLI::ConversionError` for text that is not valid; its message names the flag or variable, the text and the
/// remedy.
void add_to(CLI::App& app, options& values);

/// Returns the names of the options that a flag of `app`, which was parsed, or a variable sets. A command that chooses
/// other defaults leaves them alone.
std::set<std::string> given_options(const CLI::App& app);

}  // namespace orchard
