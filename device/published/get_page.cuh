// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The published algorithms under one name, chosen by `page_policy` when compiled.

#include "device/published/corw.cuh"
#include "device/published/page_policy.cuh"
#include "device/published/rw.cuh"
#include "device/published/rw_bm.cuh"
#include "device/published/rw_malloc.cuh"

namespace orchard::device::random_walk {

/// A page for every lane of `mask`, or none for lanes that a full space left without. All lanes of a converged group
/// that names the same space; any mask. A space of 64-bit words serves all policies, one of 32-bit words all but
/// `rw_bm64`.
template <page_policy P, page_space Space, class Count>
ORCHARD_FN page_number get_page(const Space& s, lane_mask mask, walker<Count>& w) {
    static_assert(P != page_policy::default_walk, "device/small/small_path.cuh");
    if constexpr (P == page_policy::rw) {
        return rw::get_page(s, mask, w);
    } else if constexpr (P == page_policy::rw_bm32 && width_of<typename Space::word> == 64) {
        return rw_bm::get_page(halves<Space>{s}, mask, w);
    } else if constexpr (P == page_policy::rw_bm32 || P == page_policy::rw_bm64) {
        static_assert(P == page_policy::rw_bm32 || width_of<typename Space::word> == 64);
        return rw_bm::get_page(s, mask, w);
    } else if constexpr (P == page_policy::rw_malloc) {
        return rw_malloc::get_units(s, mask, 1, w);
    } else {
        return corw::get_page<P == page_policy::corw_locked>(s, mask, w);
    }
}

/// Gives back a page of `get_page<P>`. Any lane, alone, of any kernel. False: the page was not taken.
template <page_policy P, page_space Space>
ORCHARD_FN bool free_page(const Space& s, page_number page) {
    if constexpr (P == page_policy::rw_malloc) {
        return rw_malloc::free_units(s, page);
    } else {
        return free_page(s, page);
    }
}

}  // namespace orchard::device::random_walk
