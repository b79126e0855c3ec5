// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The host's side of a `page_log`: its memory, and the trace that is made of it, for the model of the driver's paging
/// (docs/uvm_traces.md).
///
/// A trace of real size has an access for each change of big page (64 KiB), with the address at which the lane came
/// there. A step has the entries of a warp up to the first lane that comes again. Plain elements count as read,
/// whatever is done with them; shared words as atomic. Addresses count from the first block that was accessed.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "profiling/uvm/applications/page_log.cuh"
#include "runtime/heap/device_memory.hpp"

namespace orchard::apps {

/// The log of one run. One thread of the host.
class trace_log {
public:
    /// The most bytes of entries, of 8 B each. In a trace, an entry takes 3 to 6 B, and never more than 16.
    static constexpr std::uint64_t most_bytes = 8 << 20;

    /// Returns a log that is not active. @param base  beginning of the heap; @param warps  of the launches; @param
    /// every each so many-th is recorded. Errors: those of `device_array`; InvalidArgument if `every` is 0.
    static absl::StatusOr<trace_log> create(const simt::executor& on, std::uint64_t base, std::uint64_t warps,
                                            std::uint32_t every);

    /// Returns the log for kernels; its address does not change.
    [[nodiscard]] const applications::page_log* device() const { return log_.data(); }
    /// Begins or ends the recording. No kernel runs. Errors: those of the copy.
    absl::Status set_active(bool is_active);

    /// What was recorded.
    struct result {
        std::string trace;  ///< contents of a file; empty if nothing was recorded
        std::uint64_t accesses = 0;
        std::uint64_t lost = 0;  ///< entries beyond the log's capacity
    };
    /// Returns what was recorded. Errors: those of copies and of `trace_writer`.
    [[nodiscard]] absl::StatusOr<result> read() const;

private:
    applications::page_log view_;
    device_array<applications::page_log> log_;
    device_array<simt::device_word<std::uint32_t>> used_;
    device_array<std::uint64_t> entries_;
    device_array<std::uint32_t> kept_;
};

}  // namespace orchard::apps
