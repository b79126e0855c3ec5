// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Why a request was answered with null. In `uvm/` because device code and host code both say it.

#include <cstdint>

namespace orchard {

/// Why a request failed. The values travel through shared memory: they keep their numbers.
enum class failure_reason : std::uint32_t {
    none = 0,                         ///< it did not fail
    out_of_memory_device_budget = 1,  ///< all memory that the heap may commit on the device is granted
    out_of_memory_virtual_range = 2,  ///< the super chunk has no address left
    fragmented = 3,                   ///< enough segments are free, but no run of them is long enough
    too_large = 4,                    ///< more than the heap could ever grant
    commit_blocked = 5,               ///< the service lives, but committing memory did not end within the deadline
    service_not_answering = 6,        ///< no sign of life from the service within the deadline
    closing = 7,                      ///< the heap is being closed
    invalid_alignment = 8,            ///< not a power of two, or above 2 MiB
    commit_failed = 9,                ///< the backing could not provide memory
    out_of_memory_host_budget = 10,   ///< all that it may commit on the host is granted too
};

/// Number of reasons, `none` included.
inline constexpr std::uint32_t failure_reasons = 11;

}  // namespace orchard
