// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The owner of each segment and each portion: as the host says, and as the device says.

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "host/segment_service.hpp"

namespace orchard {

/// What the services have handed out. To be filled while they stand still.
struct granted_memory {
    explicit granted_memory(std::uint32_t count) : segments(count, false) {}
    void add(const segment_service& service);

    std::vector<bool> segments;     ///< those that hold portions too
    std::vector<portion> portions;  ///< in the order of their places
};

/// The owners on the device, as its structures are gone through.
class ownership {
public:
    explicit ownership(std::uint32_t segments) : owner_(segments, nullptr) {}

    /// Notes `who` as the owner of a whole segment. Errors: Internal if another owner has it, or it does not exist.
    absl::Status take(std::uint32_t segment, const char* who);
    /// Notes `who` as the owner of a portion, which begins at leaf `leaf` of the heap.
    void take_portion(std::uint32_t leaf, std::uint32_t leaves, const char* who);
    /// Whether that is what was granted; Internal names the first difference.
    absl::Status compare(const granted_memory& granted);

private:
    struct owned_portion {
        std::uint32_t leaf;
        std::uint32_t leaves;
        const char* who;
    };
    std::vector<const char*> owner_;
    std::vector<owned_portion> portions_;
};

}  // namespace orchard
