// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace orchard::test {

/// Which row of the table a process measures.
struct row_order {
    std::string call;  ///< a name of `all_calls`
    std::uint64_t block_bytes = 0;
    std::string loading;  ///< CUDA_MODULE_LOADING
    std::string path;     ///< where the row is written

    friend std::ostream& operator<<(std::ostream& out, const row_order& order) {
        return out << order.call << ", " << order.block_bytes << " B, " << order.loading;
    }
};

/// What a child process is started with, beside that variable of its environment: `deadlock_tests --row ...`.
std::vector<std::string> arguments_of(const row_order& order);

/// A child process is killed after this time.
inline constexpr absl::Duration row_deadline = absl::Seconds(60);

/// Makes a call by another thread while a kernel grows a heap, and writes what was measured; also where the row has no
/// measurement, with the reason. To be called at most once in a process, whose exit code it returns: 0 where the row
/// was written.
int run_row(const row_order& order);

}  // namespace orchard::test
