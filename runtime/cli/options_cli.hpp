// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The options of a heap as flags. Apart from runtime/options/options.hpp, so that the library's headers do not need
/// CLI11.

#include "runtime/options/options.hpp"

namespace CLI {
class App;
}

namespace orchard {

/// Adds a flag for each option to `app`. When `app` is parsed, `values` takes what the environment says (see
/// `apply_environment`), then what the flags say; what the caller put there before is the default, shown in the help.
/// A flag given twice counts once, the last time. Switches also have `--no-<name>`.
///
/// `values` must live until `app` is parsed. Uses the `preparse_callback` of `app`.
///
/// Errors: bad text is a `CLI::ConversionError`, whose message names flag or variable, text and remedy.
void add_to(CLI::App& app, options& values);

}  // namespace orchard
