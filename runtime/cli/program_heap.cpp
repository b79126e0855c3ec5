// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Heaps of the subcommands, with the heap's warnings on standard error; program_heap.hpp has the interface. The
/// library itself prints nothing.

#include "runtime/cli/program_heap.hpp"

#include <mutex>
#include <set>
#include <string>

#include "runtime/cli/command_line.hpp"

namespace orchard::command_line {

absl::StatusOr<heap> create_heap(const options& values) {
    absl::StatusOr<heap> made = heap::create(values);
    if (made.ok()) {
        print_warnings(*made);
    }
    return made;
}

/// A subcommand that creates a thousand heaps prints each warning once. Any thread.
void print_warnings(const heap& h) {
    // Both live until the process ends; the mutex also keeps the lines of several threads apart.
    static std::mutex mutex;
    static std::set<std::string> printed;
    const std::scoped_lock lock(mutex);
    for (const std::string& line : h.warnings()) {
        if (printed.insert(line).second) {
            warn({line});
        }
    }
}

}  // namespace orchard::command_line
