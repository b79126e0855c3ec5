// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The type by which a kernel chooses the published algorithm of its heap: the parameter `Policy` of
/// `basic_published_ref`. Such a type has two functions:
///
///     may_be(p)   at compile time: false if the heap's policy is never p; the algorithm p is then not compiled
///     of(h)       the policy of the heap h; a constant, or read from the view

#include "device/published/published_view.cuh"

namespace orchard::device {

/// One algorithm, known when the kernel is compiled. The heap must have been created for it, since other algorithms
/// need other bitmaps.
template <page_policy P>
struct fixed_policy {
    static ORCHARD_FN constexpr bool may_be(page_policy p) { return p == P; }
    static ORCHARD_INLINE constexpr page_policy of(const published_view&) { return P; }
};

}  // namespace orchard::device
