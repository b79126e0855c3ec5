// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The slabs of one size class of a heap as a space. Slabs are published and retired while lanes walk.
///
///     slot     slab index * words of a slab + word of the slab
///     word     segment * words of a segment's bitmap + word of the slab: stays valid when the table changes
///     page     word * 64 + bit
///
/// Example, pages of 64 B: a slab has 512 words. If segment 3 is the slab with index 1, slot 1 * 512 + 5 = 517 is its
/// word 5, which has the number 3 * 2048 + 5 = 6,149. Its bit 7 is page 6,149 * 64 + 7 = 393,543, at byte (5 * 64 + 7)
/// * 64 = 20,928 of the segment. Words and their halves are numbered by 32 bits, hence the limit of 2 TiB for such
/// heaps.
///
/// A slab may be retired between a draw and a claim. Therefore the claim is followed by a check of the descriptor
/// (`still_valid`), as device/state/slab.cuh explains.

#include "device/published/space.cuh"
#include "device/state/slab.cuh"

namespace orchard::device::random_walk {

/// See above. A small value: a pointer to the view and the class. Each lane makes its own for a request; lanes of a
/// group draw from the same slabs.
class slab_space {
public:
    using word = std::uint64_t;

    ORCHARD_INLINE slab_space(const heap_view& h, std::uint32_t page_class) : h_{&h}, class_{page_class} {}

    /// Returns where a page begins. No memory access.
    [[nodiscard]] ORCHARD_INLINE char* address(page_number page) const {
        const page_place p = place_of<word>(page);
        const std::uint32_t inside = p.word % bitmap_words;
        return h_->address(p.word / bitmap_words) + std::uint64_t{inside * 64 + p.bit} * class_bytes(class_);
    }

    /// Return a page or a word at random: first a slab index below `count`, then a place in the slab, so that all have
    /// the same probability. An index without a slab is a gap. Cost: two dependent loads.
    ORCHARD_INLINE page_place draw_page(random_bits& random) const {
        const std::uint32_t slab = draw_slab(random);
        const std::uint32_t page = random.below(class_pages(class_));
        return slab == 0 ? page_place{} : page_place{word_of(slab, page / 64), page % 64};
    }
    ORCHARD_INLINE std::uint32_t draw_word(random_bits& random) const {
        const std::uint32_t slab = draw_slab(random);
        const std::uint32_t inside = random.below(class_words(class_));
        return slab == 0 ? no_word : word_of(slab, inside);
    }
    /// Returns the number of slots. It may grow while a group sweeps; the group agrees on one value beforehand.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t slots() const { return count() * class_words(class_); }
    /// Returns the word of a slot, or `no_word` for an index without a slab. Cost: a load.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t word_at(std::uint32_t slot) const {
        const std::uint32_t slab = entry(slot / class_words(class_));
        return slab == 0 ? no_word : word_of(slab, slot % class_words(class_));
    }
    [[nodiscard]] ORCHARD_INLINE device_word<word>& bits(std::uint32_t w) const { return h_->bitmaps[w]; }
    [[nodiscard]] ORCHARD_INLINE word page_bits(std::uint32_t w) const {
        return class_word_mask(class_, w % bitmap_words);
    }
    /// Returns whether the word still belongs to a slab of the class. Acquire: pairs with the release that changes the
    /// descriptor (`slab_publish`, `slab_end`).
    [[nodiscard]] ORCHARD_INLINE bool still_valid(std::uint32_t w) const {
        return descriptor::is_slab_of(
            h_->descriptor(static_cast<std::uint32_t>(w / bitmap_words)).load<order::acquire>(), class_);
    }

private:
    /// Returns segment + 1, or 0 if there is no slab. Acquire: pairs with the release in `slab_publish`; the bitmap was
    /// cleared before that.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t entry(std::uint32_t place) const {
        const std::uint32_t found = h_->table(class_)[place].load<order::acquire>();
        return is_slab_entry(found) ? found : 0;
    }
    /// Returns the number of indices ever used. Relaxed: an index that is missed is not drawn, and a slab that is
    /// missed by a sweep is found by `grow_published`, which reads the newest count.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t count() const {
        return h_->state->slabs[class_].count.load<order::relaxed>();
    }
    /// Returns segment + 1 of a slab at random, or 0 for a gap or an empty table.
    ORCHARD_INLINE std::uint32_t draw_slab(random_bits& random) const {
        const std::uint32_t n = count();
        return n == 0 ? 0 : entry(random.below(n));
    }
    static ORCHARD_INLINE std::uint32_t word_of(std::uint32_t slab, std::uint32_t inside) {
        return (slab - 1) * static_cast<std::uint32_t>(bitmap_words) + inside;
    }

protected:
    const heap_view* h_;
    std::uint32_t class_;
};

static_assert(page_space<slab_space> && page_space<halves<slab_space>>);

}  // namespace orchard::device::random_walk
