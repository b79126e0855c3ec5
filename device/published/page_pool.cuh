// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A flat pool of equal pages: the space of the paper. The host supplies the memory of the pages and of the bitmaps.
///
///     metadata:  [used words][end words][lock words]      all zero: every page is free
///
/// With 64-bit words, that is two bits a page and one bit a word: 0.8 % for pages of 32 B. A pool of 1,000 pages has 16
/// used words (the last one with 40 pages), 16 end words and one lock word: 264 B.
///
/// The tests and `orchard bench walks` use pools; heaps use slab_space.cuh.

#include "device/published/space.cuh"

namespace orchard::device::random_walk {

/// The view of a pool that kernels get; trivially copyable.
template <class Word>
class page_pool {
public:
    using word = Word;
    static constexpr std::uint32_t width = width_of<Word>;

    /// Returns the bytes of metadata for that many pages. The metadata must be aligned to 8 bytes, and zero at first.
    /// All policies get the same, whether they use end words and lock words or not.
    static constexpr std::uint64_t metadata_bytes(std::uint32_t pages) {
        return (words_for(pages) * 2 * sizeof(Word) + lock_words_for(pages) * sizeof(std::uint32_t) + 7) / 8 * 8;
    }

    page_pool() = default;
    /// @param base   `pages * page_bytes` bytes
    /// @param pages  1 to 2^32 - 64
    page_pool(char* base, std::uint64_t page_bytes, std::uint32_t pages, void* metadata)
        : base_{base},
          page_bytes_{page_bytes},
          pages_{pages},
          used_{static_cast<device_word<Word>*>(metadata)},
          ends_{used_ + words_for(pages)},
          locks_{reinterpret_cast<device_word<std::uint32_t>*>(ends_ + words_for(pages))} {}

    [[nodiscard]] ORCHARD_INLINE std::uint32_t pages() const { return pages_; }
    [[nodiscard]] ORCHARD_INLINE std::uint64_t page_bytes() const { return page_bytes_; }
    [[nodiscard]] ORCHARD_INLINE char* address(page_number page) const {
        return base_ + static_cast<std::uint64_t>(page) * page_bytes_;
    }
    /// Returns the page that begins at `p`; `no_page` if none does.
    [[nodiscard]] ORCHARD_INLINE page_number page_of(const void* p) const {
        const auto offset = static_cast<std::uint64_t>(static_cast<const char*>(p) - base_);
        const std::uint64_t page = offset / page_bytes_;
        return page < pages_ && page * page_bytes_ == offset ? page_number{page} : no_page;
    }

    // The functions of a space (space.cuh).
    ORCHARD_INLINE page_place draw_page(random_bits& random) const {
        const std::uint32_t page = random.below(pages_);
        return {page / width, page % width};
    }
    ORCHARD_INLINE std::uint32_t draw_word(random_bits& random) const { return random.below(slots()); }
    [[nodiscard]] ORCHARD_INLINE std::uint32_t slots() const { return words_for(pages_); }
    [[nodiscard]] ORCHARD_INLINE std::uint32_t word_at(std::uint32_t slot) const { return slot; }
    [[nodiscard]] ORCHARD_INLINE device_word<Word>& bits(std::uint32_t w) const { return used_[w]; }
    /// Returns a one for each page of the word: all bits, except in the last word.
    [[nodiscard]] ORCHARD_INLINE Word page_bits(std::uint32_t w) const {
        const std::uint32_t left = pages_ - w * width;
        return ones<Word>(left < width ? left : width);
    }
    /// Returns true: the words of a pool never leave it, so that no claim needs a second look.
    [[nodiscard]] ORCHARD_INLINE bool still_valid(std::uint32_t) const { return true; }
    [[nodiscard]] ORCHARD_INLINE device_word<std::uint32_t>& locks(std::uint32_t w) const { return locks_[w / 32]; }
    [[nodiscard]] ORCHARD_INLINE device_word<Word>& ends(std::uint32_t w) const { return ends_[w]; }
    /// Returns true for all words but the last one: the pool is one piece of memory, in which runs may lie anywhere.
    [[nodiscard]] ORCHARD_INLINE bool joins(std::uint32_t w) const { return w + 1 < slots(); }

private:
    static ORCHARD_FN constexpr std::uint32_t words_for(std::uint32_t pages) { return (pages + width - 1) / width; }
    static ORCHARD_FN constexpr std::uint32_t lock_words_for(std::uint32_t pages) {
        return (words_for(pages) + 31) / 32;
    }

    char* base_ = nullptr;
    std::uint64_t page_bytes_ = 1;
    std::uint32_t pages_ = 0;
    device_word<Word>* used_ = nullptr;
    device_word<Word>* ends_ = nullptr;
    device_word<std::uint32_t>* locks_ = nullptr;
};

static_assert(locked_space<page_pool<std::uint32_t>> && run_space<page_pool<std::uint32_t>>);
static_assert(locked_space<page_pool<std::uint64_t>> && run_space<page_pool<std::uint64_t>>);
static_assert(page_space<halves<page_pool<std::uint64_t>>>);

}  // namespace orchard::device::random_walk
