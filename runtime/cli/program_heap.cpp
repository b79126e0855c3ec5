// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "runtime/cli/program_heap.hpp"

#include <iostream>
#include <mutex>
#include <set>
#include <string>

#include "absl/strings/str_format.h"

namespace orchard::command_line {

absl::StatusOr<heap> create_heap(const options& values) {
    absl::StatusOr<heap> made = heap::create(values);
    if (made.ok()) {
        print_warnings(*made);
    }
    return made;
}

void print_warnings(const heap& h) {
    static std::mutex mutex;
    static std::set<std::string> printed;
    const std::scoped_lock lock(mutex);
    for (const std::string& line : h.warnings()) {
        if (printed.insert(line).second) {
            std::cerr << absl::StrFormat("orchard: warning: %s\n", line);
        }
    }
}

}  // namespace orchard::command_line
