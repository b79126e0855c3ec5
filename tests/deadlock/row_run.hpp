// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace orchard::test {

/// The row of the table that a process measures.
struct row_order {
    std::string call;  ///< a name of `all_calls`
    std::uint64_t block_bytes = 0;
    std::string loading;  ///< CUDA_MODULE_LOADING
    std::string path;     ///< file to which the row is written

    friend std::ostream& operator<<(std::ostream& out, const row_order& order) {
        return out << order.call << ", " << order.block_bytes << " B, " << order.loading;
    }
};

/// Returns the arguments for a child process: `deadlock_tests --row ...`. It also needs the variable in its
/// environment.
std::vector<std::string> arguments_of(const row_order& order);

/// A child process is killed after this time.
inline constexpr absl::Duration row_deadline = absl::Seconds(60);

/// Makes a call in another thread while a kernel grows a heap, and writes the measurement; if there is none, writes the
/// reason. Call it at most once in a process. Returns the exit code of the process: 0 if the row was written.
int run_row(const row_order& order);

}  // namespace orchard::test
