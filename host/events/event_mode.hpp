// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstdint>

namespace orchard {

/// What happens to an event that finds no room in its queue. In text: `sampled`, `complete`.
enum class event_mode : std::uint8_t {
    sampled,   ///< it is counted as lost; the producer never waits. The events cannot be replayed.
    complete,  ///< the producer waits for the log, until a deadline
};

}  // namespace orchard
