// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The type by which a kernel chooses the published algorithm of its heap.

#include "device/heap_state.cuh"

namespace orchard::device {

/// One algorithm, known when the kernel is compiled.
template <page_policy P>
struct fixed_policy {
    static constexpr bool may_be(page_policy p) { return p == P; }
    static ORCHARD_INLINE constexpr page_policy of(const heap_view&) { return P; }
};

}  // namespace orchard::device
