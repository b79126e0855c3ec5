// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Assertions of the checked build (`ORCHARD_CHECKED=1`). They check what a caller may get wrong, but what a release
/// build cannot afford to check.

#include "device/simt/config.cuh"
#include "device/simt/lane.cuh"

#if !defined(ORCHARD_CHECKED)
#define ORCHARD_CHECKED 0
#endif

namespace orchard::simt {

/// True if `ORCHARD_ASSERT` checks its condition.
inline constexpr bool checked = ORCHARD_CHECKED != 0;

}  // namespace orchard::simt

/// In a checked build, ends the kernel with the text `why` if `condition` is false; on a host thread, which has no
/// kernel, it throws an exception. On CUDA the kernel traps without the text. In any other build it costs nothing:
/// `condition` is compiled, but not evaluated.
#define ORCHARD_ASSERT(condition, why)                                                                                 \
    do {                                                                                                               \
        if (::orchard::simt::checked && !(condition)) {                                                                \
            ::orchard::simt::stop_kernel(why);                                                                         \
        }                                                                                                              \
    } while (false)
