// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A process with a time limit, whose output is read line by line.

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"

namespace orchard::arena {

/// How a process ended.
struct child_end {
    enum class how { exited_0, failed, late, stopped } ended = how::exited_0;
    std::string detail;  ///< unless it exited with 0: the signal, the exit code or the limit, and what it wrote last to
                         ///< its standard error
};

/// Starts the program `words[0]`, a path, and waits for its end; no shell reads the words. A process that writes no
/// line to its standard output for `limit` is killed, and so is one that still runs at the time `until`.
/// @param on_line  called for each line of its standard output, without the newline
/// @param stop     when it becomes true, the process is killed; may be null
child_end run_child(const std::vector<std::string>& words, absl::Duration limit,
                    const std::function<void(std::string_view)>& on_line, const std::atomic<bool>* stop = nullptr,
                    absl::Time until = absl::InfiniteFuture());

/// Returns the path of the program that runs.
std::string own_program();

}  // namespace orchard::arena
