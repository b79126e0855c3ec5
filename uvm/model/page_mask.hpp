// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A set of the OS pages of a 2 MiB segment: 512 bits in eight words.
///
///     page      0 ... 63   64 ... 127   ...   448 ... 511
///     word         0           1        ...        7            the lowest page is the least significant bit
///     big page  0 1 2 3     4 5 6 7     ...   28 29 30 31       16 bits each: 64 KiB

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "uvm/geometry/geometry.hpp"

namespace orchard::uvm_model {

/// OS pages of a segment: 512.
inline constexpr std::uint32_t pages_per_segment = static_cast<std::uint32_t>(segment_bytes / os_page_bytes);
/// OS pages of a big page: 16.
inline constexpr std::uint32_t pages_per_big_page = static_cast<std::uint32_t>(big_page_bytes / os_page_bytes);
/// Words of 64 pages in a segment: 8.
inline constexpr std::uint32_t words_per_segment = pages_per_segment / 64;

/// OS pages [first, end) of a segment, by their index in it; empty if `end` <= `first`.
struct page_range {
    std::uint32_t first = 0;
    std::uint32_t end = 0;
    /// Returns the number of pages; 0 for an empty range.
    [[nodiscard]] constexpr std::uint32_t size() const { return end > first ? end - first : 0; }
    friend constexpr bool operator==(const page_range&, const page_range&) = default;
};

/// A set of pages of one segment. All operations process at most 8 words.
class page_mask {
public:
    constexpr page_mask() = default;
    constexpr explicit page_mask(page_range range) { add(range); }

    /// Returns whether `page` < 512 is in the set.
    [[nodiscard]] constexpr bool test(std::uint32_t page) const { return (words[page / 64] >> (page % 64) & 1) != 0; }
    /// Add one page below 512, and all pages of a range that lie below 512.
    constexpr void add(std::uint32_t page) { words[page / 64] |= std::uint64_t{1} << (page % 64); }
    constexpr void add(page_range range) {
        for (std::uint32_t w = range.first / 64; w < words_per_segment && w * 64 < range.end; ++w) {
            words[w] |= bits_in(range, w);
        }
    }

    /// Return whether the set is empty, and the number of its pages.
    [[nodiscard]] constexpr bool empty() const {
        std::uint64_t any = 0;
        for (const std::uint64_t word : words) {
            any |= word;
        }
        return any == 0;
    }
    [[nodiscard]] constexpr std::uint32_t count() const {
        std::uint32_t n = 0;
        for (const std::uint64_t word : words) {
            n += static_cast<std::uint32_t>(std::popcount(word));
        }
        return n;
    }
    /// Returns the number of pages of the set in `range`.
    [[nodiscard]] constexpr std::uint32_t count(page_range range) const {
        std::uint32_t n = 0;
        for (std::uint32_t w = range.first / 64; w < words_per_segment && w * 64 < range.end; ++w) {
            n += static_cast<std::uint32_t>(std::popcount(words[w] & bits_in(range, w)));
        }
        return n;
    }
    /// Returns the number of runs of consecutive pages; a copy engine moves each run in one copy. A run begins at each
    /// page whose predecessor is not in the set; a run that crosses words counts once.
    ///
    ///     0 1 1 0 1 1 1 0     two runs, at 1 and at 4
    [[nodiscard]] constexpr std::uint32_t runs() const {
        std::uint32_t n = 0;
        std::uint64_t before = 0;  // whether the page before this word's first is in the set
        for (const std::uint64_t word : words) {
            n += static_cast<std::uint32_t>(std::popcount(word & ~(word << 1 | before)));
            before = word >> 63;
        }
        return n;
    }

    /// Calls `f(page)` for each page, ascending, until it returns false. Cost: a step for each word and for each page.
    template <class F>
    constexpr void each_while(F&& f) const {
        for (std::uint32_t w = 0; w < words_per_segment; ++w) {
            for (std::uint64_t rest = words[w]; rest != 0; rest &= rest - 1) {
                if (!f(w * 64 + static_cast<std::uint32_t>(std::countr_zero(rest)))) {
                    return;
                }
            }
        }
    }

    /// Calls `f(range)` for each run of consecutive pages, ascending. Cost: a step for each page and each run.
    template <class F>
    constexpr void each_run(F&& f) const {
        page_range run;
        each_while([&](std::uint32_t page) {
            if (page != run.end && run.size() != 0) {
                f(run);
            }
            run = {page != run.end || run.size() == 0 ? page : run.first, page + 1};
            return true;
        });
        if (run.size() != 0) {
            f(run);
        }
    }

    /// Returns the set without the pages of `other`.
    [[nodiscard]] constexpr page_mask without(const page_mask& other) const {
        page_mask result = *this;
        for (std::uint32_t w = 0; w < words_per_segment; ++w) {
            result.words[w] &= ~other.words[w];
        }
        return result;
    }
    constexpr page_mask& operator|=(const page_mask& other) {
        for (std::uint32_t w = 0; w < words_per_segment; ++w) {
            words[w] |= other.words[w];
        }
        return *this;
    }
    constexpr page_mask& operator&=(const page_mask& other) {
        for (std::uint32_t w = 0; w < words_per_segment; ++w) {
            words[w] &= other.words[w];
        }
        return *this;
    }
    friend constexpr page_mask operator|(page_mask a, const page_mask& b) { return a |= b; }
    friend constexpr page_mask operator&(page_mask a, const page_mask& b) { return a &= b; }
    friend constexpr bool operator==(const page_mask&, const page_mask&) = default;

    /// Returns the pages of `range` in word `w`; 0 if there are none. Built from all ones by a shift to the right,
    /// because a shift of 1 to the left by 64, for a whole word, would be undefined.
    ///
    ///     range [60, 70)    word 0: bits 60 to 63    word 1: bits 0 to 5    other words: 0
    [[nodiscard]] static constexpr std::uint64_t bits_in(page_range range, std::uint32_t w) {
        const std::uint32_t first = range.first > w * 64 ? range.first - w * 64 : 0;
        const std::uint32_t end = range.end < w * 64 + 64 ? range.end - w * 64 : 64;
        if (range.end <= w * 64 || first >= end) {
            return 0;
        }
        return (~std::uint64_t{0} >> (64 - (end - first))) << first;
    }

    std::array<std::uint64_t, words_per_segment> words{};  ///< lowest page in the least significant bit
};

/// Returns the number of big pages that contain a page of `mask`. A word holds four big pages, so that none crosses
/// words.
[[nodiscard]] constexpr std::uint32_t big_pages_of(const page_mask& mask) {
    std::uint32_t n = 0;
    for (const std::uint64_t word : mask.words) {
        for (std::uint32_t b = 0; b < 64; b += pages_per_big_page) {
            n += (word >> b & 0xffff) != 0 ? 1 : 0;
        }
    }
    return n;
}

}  // namespace orchard::uvm_model
