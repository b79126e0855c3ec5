// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// How full a size class is, and so whether a search opens another slab: the numbers of that rule stand here, the rule
/// itself in search.cuh (`read_head`, `next_stage`).

#include <cstdint>

#include "device/simt/config.cuh"

namespace orchard::device {

/// An estimate of how full a class is, taken from random probes of its bitmaps. One word in the head of the class's
/// slab table holds it.
///
///     63         32 31        0
///     |   words    |   free    |   words that were probed, and the free pages in them
///
/// Old probes lose weight: a search that finds `max_words` or more halves both numbers. Without this estimate, a search
/// that meets only full words cannot tell whether the class needs another slab or the search was unlucky. A class whose
/// blocks are freed and allocated again would then grow a little each time.
///
/// One atomic add of `pack(2, free)` adds a probe of two words to both numbers. The lower half cannot carry into the
/// upper one before 2^26 words of 64 free pages are added without a halving.
///
/// Example: 200 words of 64 pages with 1,500 free pages are roomy, since 9 * 1,500 > 200 * 64 = 12,800; with 1,400 they
/// are tight.
struct fill_sample {
    static constexpr std::uint32_t least_words = 128;  ///< a smaller sample decides nothing
    static constexpr std::uint32_t max_words = 512;    ///< a larger sample is halved (`read_sample`)

    std::uint32_t words;  ///< bitmap words that were probed
    std::uint32_t free;   ///< free pages in them

    static ORCHARD_INLINE std::uint64_t pack(std::uint32_t words, std::uint32_t free) {
        return std::uint64_t{words} << 32 | free;
    }
    static ORCHARD_INLINE fill_sample unpack(std::uint64_t word) {
        return {static_cast<std::uint32_t>(word >> 32), static_cast<std::uint32_t>(word)};
    }
    /// Returns whether more than a ninth of `pages` pages are free.
    [[nodiscard]] static ORCHARD_INLINE bool are_many(std::uint32_t free, std::uint32_t pages) {
        return free * 9 > pages;
    }
    /// Returns whether the sample says that more than a ninth of the class's pages are free: a search then looks at
    /// more words before it opens a slab. A small sample is neither roomy nor tight.
    /// @param pages  the number of pages of a slab
    [[nodiscard]] ORCHARD_INLINE bool is_roomy(std::uint32_t pages) const {
        const std::uint32_t each = pages < 64 ? pages : 64;
        return words >= least_words && are_many(free, words * each);
    }
    /// Returns whether the sample is large enough and says that at most a ninth of the pages are free: a search then
    /// may open a slab ahead of need (`grow_ahead`).
    [[nodiscard]] ORCHARD_INLINE bool is_tight(std::uint32_t pages) const {
        return words >= least_words && !is_roomy(pages);
    }
};

}  // namespace orchard::device
