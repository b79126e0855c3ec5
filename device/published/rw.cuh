// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The basic random walk. Source: the paper, section 3.1, Algorithm 1 (GETPAGE based on Random Walk).
///
/// Each lane draws a page for itself, and tries to set its used flag if that is clear. Equation (2) gives the expected
/// steps of a lane, (3) an upper bound for a warp's slowest lane.
///
/// Differences from the paper:
/// - The used flags are single bits of the bitmap that the other algorithms use as well; a step looks at one of them.
/// - The loop is bounded, and a sweep decides whether there is a page. The published loop never ends in a full pool.

#include "device/published/claim.cuh"

namespace orchard::device::random_walk::rw {

/// Performs one iteration of Algorithm 1: lines 2 to 8. Returns the page drawn if it is the caller's now, else none.
/// Each lane calls it for itself. Cost: a load; an atomic if the page was free.
///
/// The load (line 3) comes first, so that an atomic is spent only on a page that seems free. The atomic (line 4)
/// decides; a lane that loses to another one (line 5) draws another page in its next step.
template <page_space Space, class Count>
ORCHARD_INLINE page_number step(const Space& s, walker<Count>& w) {
    using word = typename Space::word;
    const page_place p = s.draw_page(w.random);
    if (p.word == no_word) {
        return no_page;
    }
    const word bit = ones<word>(1, p.bit);
    // Relaxed: the claim decides, and acquires.
    if ((s.bits(p.word).template load<order::relaxed>() & bit) != 0) {
        return no_page;
    }
    if (claim(s, p.word, bit) == 0) {
        w.count.lost();
        return no_page;
    }
    return number_of<word>(p.word, p.bit);
}

/// Returns a page for the calling lane, or none if the space is full. All lanes of a converged group call it; any mask.
/// Cost: T / A loads and one atomic expected, then a ballot, for which the lanes wait for the slowest of them.
template <page_space Space, class Count>
ORCHARD_FN page_number get_page(const Space& s, lane_mask mask, walker<Count>& w) {
    return walk_alone(s, mask, w, [&] { return step(s, w); });
}

}  // namespace orchard::device::random_walk::rw
