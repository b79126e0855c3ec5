// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstdint>

namespace orchard {

/// How often producers of events have waited because their ring or queue was full, and how long in all. Waits of
/// several producers at one time are added up.
struct event_waits {
    std::uint64_t count = 0;
    std::uint64_t ns = 0;

    friend event_waits operator+(event_waits a, event_waits b) { return {a.count + b.count, a.ns + b.ns}; }
    friend event_waits operator-(event_waits a, event_waits b) { return {a.count - b.count, a.ns - b.ns}; }
    friend bool operator==(const event_waits&, const event_waits&) = default;
};

}  // namespace orchard
