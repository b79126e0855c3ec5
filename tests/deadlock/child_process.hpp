// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace orchard::test {

/// The end of a child process.
struct child_end {
    bool timed_out = false;  ///< it was killed, as it took too long
    int exit_code = -1;      ///< negative if a signal ended it
    int signal = 0;          ///< the signal that ended it, or 0
};

/// Runs a program and waits for its end; kills it after `limit`. Its environment is that of this process with
/// `variables` changed. Errors: the system's own, if the program cannot be started.
absl::StatusOr<child_end> run_child(const std::string& program, const std::vector<std::string>& arguments,
                                    const std::map<std::string, std::string>& variables, absl::Duration limit);

/// Has the calling process killed when its parent ends, and after `limit` in any case: for children of `run_child`.
void end_with_parent(absl::Duration limit);

}  // namespace orchard::test
