// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// How the subcommands of the program `orchard` create a heap. Part of the program: it prints.

#include "absl/status/statusor.h"
#include "runtime/heap/heap.hpp"

namespace orchard::command_line {

/// A heap as `heap::create` makes it. Each of its `warnings` is printed to standard error as one line, at most once in
/// a process. Errors: those of `heap::create`.
absl::StatusOr<heap> create_heap(const options& values);

/// Prints the warnings of a heap that was created in another way, as `create_heap` does.
void print_warnings(const heap& h);

}  // namespace orchard::command_line
