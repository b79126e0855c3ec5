// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Assertions of the checked build (`ORCHARD_CHECKED=1`): for what a caller may get wrong and a release build cannot
/// afford to look at.

#include "device/simt/config.cuh"
#include "device/simt/lane.cuh"

#if !defined(ORCHARD_CHECKED)
#define ORCHARD_CHECKED 0
#endif

namespace orchard::simt {

/// Whether `ORCHARD_ASSERT` looks at anything.
inline constexpr bool checked = ORCHARD_CHECKED != 0;

}  // namespace orchard::simt

/// In a checked build ends the kernel with the text `why` where `condition` does not hold (on a host thread, which has
/// no kernel: an exception); in all others it costs nothing, and `condition` is compiled but not evaluated.
#define ORCHARD_ASSERT(condition, why)                                                                                 \
    do {                                                                                                               \
        if (::orchard::simt::checked && !(condition)) {                                                                \
            ::orchard::simt::stop_kernel(why);                                                                         \
        }                                                                                                              \
    } while (false)
