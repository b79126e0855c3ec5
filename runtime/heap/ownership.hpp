// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The owner of each segment and each portion, according to the host and according to the device.

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "host/segment_service.hpp"

namespace orchard {

/// The memory that the service has handed out.
struct granted_memory {
    /// Reads the service's structures. Called on the service's thread. Cost: a look at each segment.
    explicit granted_memory(const segment_service& service);

    std::vector<bool> segments;     ///< includes segments that hold portions
    std::vector<portion> portions;  ///< in the order of their addresses
};

/// The owners on the device, collected while its structures are read.
class ownership {
public:
    /// Creates the record of a heap of `segments` segments, none of which has an owner.
    explicit ownership(std::uint32_t segments) : owner_(segments, nullptr) {}

    /// Records `owner` as the owner of a whole segment. Errors: Internal if the segment has another owner or does not
    /// exist.
    absl::Status take(std::uint32_t segment, const char* owner);
    /// Records `owner` as the owner of a portion, which begins at leaf `leaf` of the heap.
    void take_portion(std::uint32_t leaf, std::uint32_t leaves, const char* owner);
    /// Records the owner of the memory of a chunk, which begins at leaf `leaf` of the heap: `owner` of its segments,
    /// `tail_owner` of the tail of `leaves` leaves behind them. `segments` or `leaves` may be 0. Errors: as `take`.
    absl::Status take_chunk(std::uint32_t leaf, std::uint32_t segments, std::uint32_t leaves, const char* owner,
                            const char* tail_owner);
    /// Returns OK if the recorded memory is the memory that was handed out; Internal names the first difference.
    absl::Status compare(const granted_memory& granted);

private:
    /// A portion that the device has, by its first leaf in the heap. `owner` is a name for messages.
    struct owned_portion {
        std::uint32_t leaf;
        std::uint32_t leaves;
        const char* owner;
    };
    // [segment]: the owner's name; null: none.
    std::vector<const char*> owner_;
    std::vector<owned_portion> portions_;
};

}  // namespace orchard
