// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// How a kernel says which `page_policy` its heap has: when it is compiled, or when it runs.

#include "device/heap_state.cuh"

namespace orchard::device {

/// One policy, known when the kernel is compiled.
template <page_policy P>
struct fixed_policy {
    static constexpr bool is_default = P == page_policy::default_walk;
    static constexpr bool may_be(page_policy p) { return p == P; }
    static ORCHARD_INLINE constexpr page_policy of(const heap_view&) { return P; }
};

/// Whatever the heap was created with.
struct any_policy {
    static constexpr bool is_default = false;
    static constexpr bool may_be(page_policy) { return true; }
    static ORCHARD_INLINE page_policy of(const heap_view& h) { return h.published.policy; }
};

}  // namespace orchard::device
