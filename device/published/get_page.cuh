// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The published algorithms under one name; `page_policy` chooses one at compile time.
///
///     policy         searched by            words of the space
///     rw             rw::get_page           32 or 64 bits
///     rw_bm32        rw_bm::get_page        32 bits, or 64 bits by halves
///     rw_bm64        rw_bm::get_page        64 bits
///     corw           corw::get_page         32 or 64 bits
///     corw_locked    corw::get_page         32 or 64 bits, with a LockMap
///     rw_malloc      rw_malloc::get_units   32 or 64 bits, with end bits; here runs of one unit

#include "device/published/corw.cuh"
#include "device/published/page_policy.cuh"
#include "device/published/rw.cuh"
#include "device/published/rw_bm.cuh"
#include "device/published/rw_malloc.cuh"

namespace orchard::device::random_walk {

/// Returns a page for the calling lane, or none if the space is full (GETPAGE in the paper). All lanes of a converged
/// group call it with the same space; any mask. A space of 64-bit words supports all policies, one of 32-bit words all
/// except `rw_bm64`. Cost: see the algorithm's file.
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

/// Frees a page that `get_page<P>` returned (FREEPAGE in the paper). Returns false if the page was not taken. One lane
/// of any kernel calls it alone. With `rw_malloc`, the page is a run of one unit, whose end bit is cleared as well.
template <page_policy P, page_space Space>
ORCHARD_FN bool free_page(const Space& s, page_number page) {
    if constexpr (P == page_policy::rw_malloc) {
        return rw_malloc::free_units(s, page);
    } else {
        return free_page(s, page);
    }
}

}  // namespace orchard::device::random_walk
