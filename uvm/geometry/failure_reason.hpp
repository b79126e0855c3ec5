// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The reasons for a null result. In `uvm/` because both device code and host code use them.

#include <cstdint>

namespace orchard {

/// The reason why a request failed. The values are stored in shared memory and keep their numbers.
///
/// The service gives most reasons in its response (`segment_service::reject_grant`), where the device turns a status
/// into a reason (`reason_of` in device/segments/request_segments.cuh). The device finds `commit_blocked` and
/// `service_not_responding` itself if a response does not come: the heartbeat distinguishes the two. It also finds
/// `invalid_alignment`.
enum class failure_reason : std::uint32_t {
    none = 0,                         ///< the request did not fail
    out_of_memory_device_budget = 1,  ///< all memory that the heap may commit on the device is in use
    out_of_memory_virtual_range = 2,  ///< the super chunk has no free address
    fragmented = 3,                   ///< enough segments are free, but no run of them is long enough
    too_large = 4,                    ///< more than the heap could ever provide
    commit_blocked = 5,               ///< the service runs, but committing memory did not complete within the deadline
    service_not_responding = 6,       ///< the service's heartbeat stood still until the deadline
    closing = 7,                      ///< the heap is closing
    invalid_alignment = 8,            ///< the alignment is not a power of two, or is above 2 MiB
    commit_failed = 9,                ///< the backing could not provide memory
    out_of_memory_host_budget = 10,   ///< all memory that the heap may commit on the host is in use, too
};

/// Number of reasons, including `none`.
inline constexpr std::uint32_t failure_reasons = 11;

}  // namespace orchard
