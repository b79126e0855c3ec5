// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A space: what the published algorithms search. It is a set of pages with one *used* bit each, in the words of a
/// bitmap (1 = taken).
///
///     word numbers   0                 1                        any others: a space may have gaps
///     bits           |0 1 ... w - 1|   |0 1 ... w - 1|
///     page numbers    0 1 ... w - 1     w ... 2 w - 1           = word number * w + bit
///
/// A space is a small value with pointers: a flat pool (page_pool.cuh), or the slabs of one class of a heap, which come
/// and go (slab_space.cuh).
///
/// Source of the algorithms: M. Pham et al., Dynamic Memory Management in Massively Parallel Systems: A Case on GPUs,
/// ICS 2022; called "the paper" in this folder.

#include <concepts>
#include <cstdint>

#include "device/group/bits.cuh"
#include "device/published/walker.cuh"
#include "device/state/heap_state.cuh"

namespace orchard::device::random_walk {

/// The number of a page in a space.
enum class page_number : std::uint64_t {};
/// Stands for "no page".
inline constexpr page_number no_page{~std::uint64_t{0}};
/// No word: a gap between the words of a space.
inline constexpr std::uint32_t no_word = 0xffffffffu;

/// A page as its word and bit.
struct page_place {
    std::uint32_t word = no_word;
    std::uint32_t bit = 0;
};

/// Returns the number of the page at a word and bit, or the word and bit of a page's number. With 64-bit words, page
/// 200 is bit 8 of word 3. No memory access.
template <class Word>
ORCHARD_INLINE page_number number_of(std::uint32_t word, std::uint32_t bit) {
    return page_number{std::uint64_t{word} * width_of<Word> + bit};
}
template <class Word>
ORCHARD_INLINE page_place place_of(page_number page) {
    const auto n = static_cast<std::uint64_t>(page);
    return {static_cast<std::uint32_t>(n / width_of<Word>), static_cast<std::uint32_t>(n % width_of<Word>)};
}

/// Returns what a word has. For the concepts below: with the call in them, nvcc 13.0 ends with an internal error where
/// some headers come before this one.
template <class Bits>
[[nodiscard]] ORCHARD_INLINE auto loaded(const Bits& bits) {
    return bits.template load<order::relaxed>();
}

/// The functions of a space that get_page needs.
///
/// - `draw_page`, `draw_word`: one at random, all with the same probability; `no_word` if the draw met a gap.
/// - `slots`, `word_at`: all words in order, for sweeps; `no_word` for a gap.
/// - `bits`: the word: a `device_word<word>&`, or a value with its `load`, `fetch_or` and `fetch_and`.
/// - `page_bits`: the bits of a word that stand for pages: all, except in the last word of a pool or slab.
/// - `still_valid`: called *after* bits were claimed: returns whether the word still belongs to the space. If not, the
///   claim is undone at once.
///
/// A slot is a place in the order of a sweep, a word is what `bits` takes. They are equal in a pool. In a heap, a slot
/// belongs to a slab index and a word to a segment, so that a word keeps its meaning if the table changes.
template <class S>
concept page_space = requires(const S& s, std::uint32_t i, random_bits& random) {
    typename S::word;
    { s.draw_page(random) } -> std::same_as<page_place>;
    { s.draw_word(random) } -> std::same_as<std::uint32_t>;
    { s.slots() } -> std::same_as<std::uint32_t>;
    { s.word_at(i) } -> std::same_as<std::uint32_t>;
    { loaded(s.bits(i)) } -> std::same_as<typename S::word>;
    { s.page_bits(i) } -> std::same_as<typename S::word>;
    { s.still_valid(i) } -> std::same_as<bool>;
};

/// A space with a LockMap (section 4.1 of the paper): one bit for each word, bit `i % 32` of `locks(i)`.
template <class S>
concept locked_space = page_space<S> && requires(const S& s, std::uint32_t i) {
    { s.locks(i) } -> std::same_as<device_word<std::uint32_t>&>;
};

/// A space in which runs of pages can be allocated. `ends(i)` is a second bitmap, which says where allocations end.
/// `joins(i)` returns whether the pages of word i + 1 follow those of word i, so that a run may cross the border. In a
/// heap, the last word of a slab joins no other.
template <class S>
concept run_space = page_space<S> && requires(const S& s, std::uint32_t i) {
    { loaded(s.ends(i)) } -> std::same_as<typename S::word>;
    { s.joins(i) } -> std::same_as<bool>;
};

/// One half of a 64-bit word as a 32-bit word. Every access covers the whole 64-bit word, because neither C++ nor PTX
/// defines the order of atomics of two sizes on the same bytes.
class half_word {
public:
    ORCHARD_INLINE half_word(device_word<std::uint64_t>& whole, std::uint32_t half)
        : whole_{&whole}, shift_{half * 32} {}

    template <order O>
    [[nodiscard]] ORCHARD_INLINE std::uint32_t load(simt::site where = simt::site::here()) const {
        return part(whole_->load<O>(where));
    }
    template <order O>
    ORCHARD_INLINE std::uint32_t fetch_or(std::uint32_t bits, simt::site where = simt::site::here()) {
        return part(whole_->fetch_or<O>(std::uint64_t{bits} << shift_, where));
    }
    template <order O>
    ORCHARD_INLINE std::uint32_t fetch_and(std::uint32_t bits, simt::site where = simt::site::here()) {
        // The other half of the mask is all ones, which leaves the pages of the other half alone.
        return part(whole_->fetch_and<O>(~(std::uint64_t{~bits} << shift_), where));
    }

private:
    [[nodiscard]] ORCHARD_INLINE std::uint32_t part(std::uint64_t whole) const {
        return static_cast<std::uint32_t>(whole >> shift_);
    }
    device_word<std::uint64_t>* whole_;
    std::uint32_t shift_;
};

/// A space of 64-bit words, searched 32 pages at a time. Page numbers are the same in both: half-word 2 w + h holds the
/// pages of bits 32 h to 32 h + 31 of word w. A step then looks at 32 pages, as `rw_bm32` demands.
template <page_space Whole>
requires std::same_as<typename Whole::word, std::uint64_t>
struct halves {
    using word = std::uint32_t;
    Whole whole;

    ORCHARD_INLINE page_place draw_page(random_bits& random) const {
        const page_place p = whole.draw_page(random);
        return {p.word == no_word ? no_word : p.word * 2 + p.bit / 32, p.bit % 32};
    }
    /// A half without pages (of a last word) is drawn as often as any other half, and found to be full.
    ORCHARD_INLINE std::uint32_t draw_word(random_bits& random) const {
        const std::uint32_t w = whole.draw_word(random);
        return w == no_word ? no_word : w * 2 + random.below(2);
    }
    [[nodiscard]] ORCHARD_INLINE std::uint32_t slots() const { return whole.slots() * 2; }
    [[nodiscard]] ORCHARD_INLINE std::uint32_t word_at(std::uint32_t slot) const {
        const std::uint32_t w = whole.word_at(slot / 2);
        return w == no_word ? no_word : w * 2 + slot % 2;
    }
    [[nodiscard]] ORCHARD_INLINE half_word bits(std::uint32_t w) const { return {whole.bits(w / 2), w % 2}; }
    [[nodiscard]] ORCHARD_INLINE std::uint32_t page_bits(std::uint32_t w) const {
        return static_cast<std::uint32_t>(whole.page_bits(w / 2) >> (w % 2 * 32));
    }
    [[nodiscard]] ORCHARD_INLINE bool still_valid(std::uint32_t w) const { return whole.still_valid(w / 2); }
};

}  // namespace orchard::device::random_walk
