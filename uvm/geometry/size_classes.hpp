// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The size classes of pages: multiples of 16 B up to 64 B, then four classes for each doubling up to 512 KiB. Rounding
/// up therefore wastes less than 20 % of a page of more than 64 B.
///
///     class   0   1   2   3 |  4   5   6   7 |   8   9  10  11 | ... | 52 ... 55
///     bytes  16  32  48  64 | 80  96 112 128 | 160 192 224 256 | ... | 320 K ... 512 K
///
/// A slab starts on a segment border. Every page is aligned to at least 16 B, and a page whose size is a power of two
/// is aligned to its size.

#include <cstdint>

#include "device/simt/config.cuh"
#include "device/simt/lane.cuh"
#include "uvm/geometry/geometry.hpp"

namespace orchard {

/// Number of page classes.
inline constexpr std::uint32_t class_count = 56;
/// Bytes to whose multiples the smallest pages are rounded up; every page is aligned to them.
inline constexpr std::uint32_t quantum_bytes = 16;
/// The largest page, in bytes; larger requests become warp chunks.
inline constexpr std::uint64_t largest_page_bytes = 512ull << 10;
/// The index that means "no page class: a warp chunk".
inline constexpr std::uint32_t chunk_class = class_count;

/// Returns the class of the smallest pages that hold `n` bytes; 1 <= n <= `largest_page_bytes`. Cost: a few shifts.
///
/// Above 64 B, the classes of one doubling (2^e, 2^(e+1)] are told apart by the two bits below the highest one of
/// n - 1:
///
///     n = 100    n - 1 = 99 = 0b1100011    highest bit 6, the next two 10    class 4 + (6 - 6) * 4 + 2 = 6: 112 B
///     n = 112    n - 1 = 111 = 0b1101111   the same bits                     class 6
///     n = 113    n - 1 = 112 = 0b1110000   the next two 11                   class 7: 128 B
ORCHARD_FN constexpr std::uint32_t class_of(std::uint32_t n) {
    if (n <= 64) {
        return (n + quantum_bytes - 1) / quantum_bytes - 1;
    }
    const std::uint32_t last = n - 1;
    const auto exponent = static_cast<std::uint32_t>(simt::highest_bit(last));
    return 4 + (exponent - 6) * 4 + ((last >> (exponent - 2)) & 3);
}

/// Returns the bytes of a page of class `c` < `class_count`: 5, 6, 7 or 8 times a power of two above 64 B.
ORCHARD_FN constexpr std::uint32_t class_bytes(std::uint32_t c) {
    return c < 4 ? (c + 1) * quantum_bytes : (5 + (c & 3)) << (c / 4 + 3);
}

/// Returns the pages in a slab of class `c`: 131,072 down to 4. The bytes behind the last page are not used: 32 B of a
/// slab of 26,214 pages of 80 B.
ORCHARD_FN constexpr std::uint32_t class_pages(std::uint32_t c) {
    return static_cast<std::uint32_t>(segment_bytes) / class_bytes(c);
}

/// Returns the 64-bit words of the bitmap of a slab of class `c`: 2,048 down to 1. The last one may be used in part.
ORCHARD_FN constexpr std::uint32_t class_words(std::uint32_t c) { return (class_pages(c) + 63) / 64; }

/// Returns the bits of word `word` < `class_words(c)`, of a slab of class `c`, that belong to pages: all, except in the
/// last word. Only these bits may ever be set.
ORCHARD_FN constexpr std::uint64_t class_word_mask(std::uint32_t c, std::uint32_t word) {
    const std::uint32_t left = class_pages(c) - word * 64;
    return left >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << left) - 1;
}

/// The arrangement of the pages of a class in a slab, for paths that cannot afford a division.
///
/// A page has `factor` << `shift` bytes with 5 <= `factor` <= 8, so a division by its size is a shift and one
/// multiplication. A GPU has no instruction for an integer division.
struct class_shape {
    std::uint32_t factor;
    std::uint32_t shift;
    std::uint32_t reciprocal;  ///< 2^32 / factor, rounded up

    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t bytes() const { return factor << shift; }
    /// Returns `n` / `factor`, for n < 2^28. The reciprocal exceeds 2^32 / factor by less than 1, so that the product
    /// exceeds n / factor * 2^32 by less than n. The quotient is right as long as this is less than 2^32 / factor.
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t divide(std::uint32_t n) const {
        return static_cast<std::uint32_t>(std::uint64_t{n} * reciprocal >> 32);
    }
    /// Returns the page in which byte `offset` of a slab lies. `offset` <= `segment_bytes`.
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t page_at(std::uint32_t offset) const {
        return divide(offset >> shift);
    }
    /// Returns the pages of a slab: the number of whole pages before the slab's end.
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t pages() const {
        return page_at(static_cast<std::uint32_t>(segment_bytes));
    }
    /// Returns log2 of the pages of a slab in the class that has this `shift` and the largest pages, of factor 8.
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t log_least_pages() const {
        return static_cast<std::uint32_t>(segment_shift) - 3 - shift;
    }
};

/// Returns the shape of class `c` < `class_count`. The four smallest classes are 8 << 1, 8 << 2, 6 << 3 and 8 << 3
/// bytes, so that they have factors from 5 to 8, too.
ORCHARD_FN constexpr class_shape shape_of(std::uint32_t c) {
    class_shape s{5 + (c & 3), c / 4 + 3, 0};
    if (c < 4) {
        s = {c == 2 ? 6u : 8u, c == 0 ? 1u : c == 1 ? 2u : 3u, 0};
    }
    s.reciprocal = s.factor == 5 ? 0x33333334u : s.factor == 6 ? 0x2aaaaaabu : s.factor == 7 ? 0x24924925u : 1u << 29;
    return s;
}

/// Returns the factor for `find_page_at`: 2^32 / (quanta of a page), rounded up, less 1. It is stored in a
/// slab's descriptor, so that `free` reads one word to turn an address into a page.
ORCHARD_FN constexpr std::uint32_t page_reciprocal(std::uint32_t c) {
    const std::uint64_t units = class_bytes(c) / quantum_bytes;
    return static_cast<std::uint32_t>(((std::uint64_t{1} << 32) + units - 1) / units - 1);
}

/// The page at byte `offset` of a slab.
struct page_at_offset {
    std::uint32_t page;
    bool exact;  ///< true if the page begins there; false if it begins before
};
/// Returns the page at byte `offset` of a slab, and whether it begins there, by one multiplication. `free` needs both:
/// the page to clear its bit, and the beginning to reject a pointer into the middle of a block.
///
/// @param reciprocal  of the slab's class. With n = offset / `quantum_bytes` and d quanta in a page,
///     (n + 1) * reciprocal is floor(n / d) * 2^32 plus a rest. The rest is at most `reciprocal` if d divides n, and
///     otherwise more.
///
/// The reason: let q = n / d rounded down, and r the remainder. d * reciprocal is less than 2^32 by some e,
/// 1 <= e <= d. The product is therefore q * 2^32 plus (r + 1) * reciprocal - q * e. A slab of at most 2^17 units makes
/// q * e less than `reciprocal` for pages of up to 512 KiB, so that the rest lies in [0, reciprocal] exactly for r = 0.
///
///     pages of 80 B: d = 5, reciprocal = 858,993,459
///     offset 160: n = 10, the product is 2 * 2^32 +   858,993,457: page 2, which begins there
///     offset 176: n = 11, the product is 2 * 2^32 + 1,717,986,916: page 2, which begins before
ORCHARD_FN constexpr page_at_offset find_page_at(std::uint32_t offset, std::uint32_t reciprocal) {
    const std::uint64_t product = std::uint64_t{offset / quantum_bytes + 1} * reciprocal;
    return {static_cast<std::uint32_t>(product >> 32),
            static_cast<std::uint32_t>(product) <= reciprocal && offset % quantum_bytes == 0};
}

static_assert(class_bytes(4) == 80 && class_bytes(7) == 128 && class_bytes(8) == 160);
static_assert(class_bytes(class_count - 1) == largest_page_bytes);
static_assert(class_of(1) == 0 && class_of(64) == 3 && class_of(65) == 4 && class_of(80) == 4 && class_of(81) == 5);
static_assert(class_of(128) == 7 && class_of(129) == 8 && class_of(largest_page_bytes) == class_count - 1);

}  // namespace orchard
