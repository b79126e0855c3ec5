// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The random walk over a bitmap, RW-BM. Source: the paper, section 4.1 ("slightly modifying Algorithm 1").
///
/// Each lane for itself draws a word of w = 32 or 64 used bits; where one is clear it tries to set it. Expected steps a
/// lane: equation (4); of a warp's slowest lane: at most (5).
///
/// Different from the paper, which leaves the details to the reader:
/// - Which clear bit: the first from a random one on. Were it the lowest, of all lanes that are at one word at once
/// only
///   one would win; with a thread for each word that is most of them. A lane that loses its bit draws another word.
/// - Bounded, with a sweep at the end, as in rw.cuh.

#include "device/published/claim.cuh"

namespace orchard::device::random_walk::rw_bm {

template <page_space Space, class Count>
ORCHARD_INLINE page_number step(const Space& s, walker<Count>& w) {
    using word = typename Space::word;
    const std::uint32_t at = s.draw_word(w.random);
    if (at == no_word) {
        return no_page;
    }
    // Relaxed: only the claim counts.
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

/// A page for every lane of `mask`, or none where the space is full. All lanes of a converged group, any mask.
/// The space's words say how many pages a step looks at; `halves` makes 32-bit words of 64-bit ones.
/// Cost: one load a step, and one atomic; then a ballot, where the lanes wait for the slowest of them.
template <page_space Space, class Count>
ORCHARD_FN page_number get_page(const Space& s, lane_mask mask, walker<Count>& w) {
    return walk_alone(s, mask, w, [&] { return step(s, w); });
}

}  // namespace orchard::device::random_walk::rw_bm
