// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "profiling/traces/replay_plan.hpp"
#include "runtime/heap/heap.hpp"
#include "runtime/trace/trace_reader.hpp"

namespace orchard::traces {

struct replay_result {
    std::uint64_t failed = 0;   ///< requests that the record served, and the replay did not
    std::uint64_t wrong = 0;    ///< blocks that were written over by others
    double kernel_seconds = 0;  ///< time of all kernels
    block_counts at_end;        ///< the blocks in use at the end
    statistics heap;            ///< at the end, before the blocks are freed

    [[nodiscard]] bool passed(const replay_plan& plan) const {
        return failed == 0 && wrong == 0 && at_end == plan.at_end;
    }
};

/// Returns a trace that can be replayed. Errors: those of `load_trace`; InvalidArgument with the reason if it has not
/// all of its program's requests.
absl::StatusOr<whole_trace> load_replayable(const std::string& path);

/// Makes the requests of a plan in a heap, which should be new. Each block of 8 B and more gets its number as content,
/// which is compared when it is freed, and at the end; the heap is then validated with all blocks in use, and these are
/// freed. Errors: those of the device, of `heap::validate`, and of memory for the plan: 8 B for each block of the
/// trace.
absl::StatusOr<replay_result> replay(heap& h, const replay_plan& plan);

}  // namespace orchard::traces
