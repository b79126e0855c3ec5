// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A run that ends the whole process (a wrong address, a failed assertion) still names its seed.

#include <cstdint>
#include <string_view>

namespace orchard::explore {

/// While this object lives, a crash of its host thread reports the current run on standard error. One object for each
/// thread at a time.
class crash_note {
public:
    crash_note(std::string_view scenario, std::uint64_t seed, const char* strategy);
    ~crash_note();
    crash_note(const crash_note&) = delete;
    crash_note& operator=(const crash_note&) = delete;
};

}  // namespace orchard::explore
