// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The slabs of a class as a space, with the bitmaps that the LockMap and runs of units need
/// (device/published/published_view.cuh).
///
///     bitmap         segment s, word i    bitmaps[s * 2048 + i]            room for pages of 16 B
///     locks          bit of that word     locks[(s * 2048 + i) / 32]       bit i mod 32
///     begins, ends   the same units       begins[s * words of a slab + i]  all slabs have one class
///
/// Example, units of 64 B: a slab has 32,768 units in 512 words. Unit 1,000 of segment 3 is bit 40 of word 15: bitmap
/// word 3 * 2048 + 15 = 6,159, begin word 3 * 512 + 15 = 1,551.

#include "device/published/published_view.cuh"
#include "device/published/slab_space.cuh"

namespace orchard::device::random_walk {

/// The slabs with a lock bit for each bitmap word. A lock belongs to the word, also after the slab is retired: a lane
/// that holds it unlocks it, whatever the segment has become meanwhile.
class locked_slab_space : public slab_space {
public:
    ORCHARD_INLINE locked_slab_space(const published_view& h, std::uint32_t page_class)
        : slab_space(h, page_class), locks_{h.locks} {}
    [[nodiscard]] ORCHARD_INLINE device_word<std::uint32_t>& locks(std::uint32_t w) const { return locks_[w / 32]; }

private:
    device_word<std::uint32_t>* locks_;
};
static_assert(lock_words == bitmap_words / 32);

/// The slabs with bits where blocks begin and end. A run lies within one slab: slabs that follow each other in the
/// table may be far apart in memory.
class run_slab_space : public slab_space {
public:
    ORCHARD_INLINE explicit run_slab_space(const published_view& h)
        : slab_space(h, h.unit_class), begins_{h.begins}, ends_{h.ends} {}

    /// Returns the word of the second or third bitmap for the same units as word `w` of the first one.
    [[nodiscard]] ORCHARD_INLINE device_word<word>& begins(std::uint32_t w) const { return begins_[index(w)]; }
    [[nodiscard]] ORCHARD_INLINE device_word<word>& ends(std::uint32_t w) const { return ends_[index(w)]; }
    /// Returns true for all words of a slab but its last one.
    [[nodiscard]] ORCHARD_INLINE bool joins(std::uint32_t w) const {
        return w % bitmap_words + 1 < class_words(class_);
    }

    [[nodiscard]] ORCHARD_INLINE std::uint64_t unit_bytes() const { return class_bytes(class_); }
    /// Returns the unit that begins at `p`, which lies in a slab of this space; none if `p` is inside a unit. No memory
    /// access.
    [[nodiscard]] ORCHARD_INLINE page_number unit_at(const void* p) const {
        const auto offset = static_cast<std::uint64_t>(static_cast<const char*>(p) - h_->base);
        const std::uint64_t inside = offset & (segment_bytes - 1);
        const std::uint64_t unit = inside / class_bytes(class_);
        return unit * class_bytes(class_) == inside ? page_number{(offset >> segment_shift) * bitmap_words * 64 + unit}
                                                    : no_page;
    }

private:
    [[nodiscard]] ORCHARD_INLINE std::uint64_t index(std::uint32_t w) const {
        return std::uint64_t{w / bitmap_words} * class_words(class_) + w % bitmap_words;
    }
    device_word<word>* begins_;
    device_word<word>* ends_;
};

static_assert(locked_space<locked_slab_space> && run_space<run_slab_space>);

}  // namespace orchard::device::random_walk
