// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// One view for heaps of every algorithm, Orchard's own among them, so that the contract is compiled once for all.

#include "device/published/published_ref.cuh"

namespace orchard::test {

/// Whatever the heap was created for.
struct any_policy {
    static ORCHARD_FN constexpr bool may_be(device::page_policy) { return true; }
    static ORCHARD_INLINE device::page_policy of(const device::published_view& h) { return h.policy; }
};

using any_published_ref = basic_published_ref<any_policy>;

}  // namespace orchard::test
