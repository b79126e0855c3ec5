// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `orchard top` at a terminal.

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/live/live_reader.hpp"

namespace orchard::top {

/// Shows a heap's screen at the terminal, anew after each `interval` and when the terminal changes its size, until the
/// key q is pressed or the heap ends. Returns OK then.
///
/// Errors: FailedPrecondition if there is no terminal, or one that ncurses does not know, or if this build has no
/// ncurses; those of `live_reader::read`, but for the end of the heap.
absl::Status show(live::live_reader& from, absl::Duration interval);

}  // namespace orchard::top
