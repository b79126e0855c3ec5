// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Creates heaps for the subcommands of the program `orchard`. Part of the program, because it prints.

#include "absl/status/statusor.h"
#include "runtime/heap/heap.hpp"

namespace orchard::command_line {

/// Returns a heap as `heap::create` makes it. Prints each of its `warnings` to standard error as one line, at most once
/// in a process. Errors: those of `heap::create`.
absl::StatusOr<heap> create_heap(const options& values);

/// Prints the warnings of a heap that was created by another function, as `create_heap` does.
void print_warnings(const heap& h);

}  // namespace orchard::command_line
