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
    std::uint64_t failed = 0;     ///< requests that the record served, and the replay did not
    std::uint64_t wrong = 0;      ///< blocks that were written over by others
    std::uint64_t not_zero = 0;   ///< blocks of `calloc` that were not zero
    std::uint64_t unaligned = 0;  ///< blocks of `aligned_alloc` without their alignment
    double kernel_seconds = 0;    ///< time of all kernels
    block_counts at_end;          ///< the blocks in use at the end
    statistics heap;              ///< at the end, before the blocks are freed

    [[nodiscard]] bool passed(const replay_plan& plan) const {
        return failed == 0 && wrong == 0 && not_zero == 0 && unaligned == 0 && at_end == plan.at_end;
    }
};

/// Returns a trace that can be replayed. Errors: those of `load_trace`; InvalidArgument with the reason if it has not
/// all of its program's requests.
absl::StatusOr<whole_trace> load_replayable(const std::string& path);

/// Makes the requests of a plan in a heap, which should be new, by the calls of the record. A block of `calloc` is
/// read, and the address of one of `aligned_alloc` checked. Each block of 8 B and more gets its number as content,
/// which is compared when it is freed, and at the end; the heap is then validated with all blocks in use but
/// interleaved arrays, and all blocks are freed. Errors: those of the device, of `heap::validate`, and of memory for
/// the plan: 40 B for each block of the trace, and 24 B for each interleaved array.
absl::StatusOr<replay_result> replay(heap& h, const replay_plan& plan);

}  // namespace orchard::traces
