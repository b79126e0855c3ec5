// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The random walk over a bitmap, RW-BM. Source: the paper, section 4.1 ("slightly modifying Algorithm 1").
///
/// Each lane draws a word of w = 32 or 64 used bits for itself, and tries to set one that is clear. Equation (4) gives
/// the expected steps of a lane, (5) an upper bound for a warp's slowest lane.
///
/// Differences from the paper, which leaves the details open:
/// - The lane takes the first clear bit from a random bit on. If it took the lowest, only one of several lanes at the
///   same word would win; with one thread for each word, most lanes share a word. A lane that loses its bit draws
///   another word.
/// - The loop is bounded, with a sweep at the end, as in rw.cuh.

#include "device/published/claim.cuh"

namespace orchard::device::random_walk::rw_bm {

/// Performs one step of the walk: draws a word, and tries to take a page of it. Returns that page, or none. Each lane
/// calls it for itself. Cost: a load; an atomic if a page was free.
template <page_space Space, class Count>
ORCHARD_INLINE page_number step(const Space& s, walker<Count>& w) {
    using word = typename Space::word;
    const std::uint32_t at = s.draw_word(w.random);
    if (at == no_word) {
        return no_page;
    }
    // Relaxed: the claim decides, and acquires.
    const word free = static_cast<word>(~s.bits(at).template load<order::relaxed>() & s.page_bits(at));
    if (free == 0) {
        return no_page;
    }
    const word bit = one_from(free, w.random.below(width_of<word>));
    if (claim(s, at, bit) == 0) {
        w.count.lost();
        return no_page;
    }
    return number_of<word>(at, static_cast<std::uint32_t>(simt::lowest_bit(bit)));
}

/// Returns a page for the calling lane, or none if the space is full. All lanes of a converged group call it; any mask.
/// The word size of the space is the number of pages that a step looks at; `halves` turns 64-bit words into 32-bit
/// ones. Cost: one load a step, and one atomic; then a ballot, for which the lanes wait for the slowest of them.
template <page_space Space, class Count>
ORCHARD_FN page_number get_page(const Space& s, lane_mask mask, walker<Count>& w) {
    return walk_alone(s, mask, w, [&] { return step(s, w); });
}

}  // namespace orchard::device::random_walk::rw_bm
