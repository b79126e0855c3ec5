// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The basic random walk. Source: the paper, section 3.1, Algorithm 1 (GETPAGE based on Random Walk).
///
/// Each lane for itself draws a page; where its used flag is clear it tries to set it. Expected steps a lane:
/// equation (2); of a warp's slowest lane: at most (3).
///
/// Different from the paper:
/// - The used flags are single bits of the bitmap that the other algorithms use too; a step looks at one of them.
/// - The loop is bounded, and a sweep decides whether there is a page: the published loop never ends in a full pool.

#include "device/published/claim.cuh"

namespace orchard::device::random_walk::rw {

/// One iteration of Algorithm 1: lines 2 to 8.
template <page_space Space, class Count>
ORCHARD_INLINE page_number step(const Space& s, walker<Count>& w) {
    using word = typename Space::word;
    const page_place p = s.draw_page(w.random);
    if (p.word == no_word) {
        return no_page;
    }
    const word bit = ones<word>(1, p.bit);
    // Relaxed: only the claim counts.
    if ((s.bits(p.word).template load<order::relaxed>() & bit) != 0) {
        return no_page;
    }
    if (claim(s, p.word, bit) == 0) {
        w.count.lost();
        return no_page;
    }
    return number_of<word>(p.word, p.bit);
}

/// A page for every lane of `mask`, or none where the space is full. All lanes of a converged group, any mask.
/// Cost: T / A loads and one atomic expected, then a ballot; the lanes wait for the slowest of them, as a warp does.
template <page_space Space, class Count>
ORCHARD_FN page_number get_page(const Space& s, lane_mask mask, walker<Count>& w) {
    return walk_alone(s, mask, w, [&] { return step(s, w); });
}

}  // namespace orchard::device::random_walk::rw
