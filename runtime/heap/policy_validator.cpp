// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Checks the LockMap of `corw_locked`, and the marks of `rw_malloc`; counts the blocks of the latter.
///
///     corw_locked    locks: one bit for each bitmap word, all 0 when no lane searches
///     rw_malloc      used, begins, ends: three bitmaps of units for each segment (`unit_words`)

#include "runtime/heap/policy_validator.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include "absl/strings/str_format.h"

namespace orchard {
namespace {

using device::published_view;
using simt::order;

/// Returns a copy of the words at `from`, as numbers. Errors: the device's own.
template <class T>
absl::StatusOr<std::vector<T>> words_of(backing& memory, const simt::device_word<T>* from, std::uint64_t count) {
    // Copied as the device's words, then read one by one: `T` has the same size.
    std::vector<simt::device_word<T>> words(count);
    if (absl::Status s = memory.read(static_cast<void*>(words.data()), from, count * sizeof(words[0])); !s.ok()) {
        return s;
    }
    std::vector<T> result;
    result.reserve(count);
    for (const auto& w : words) {
        result.push_back(w.template load<order::relaxed>());
    }
    return result;
}

/// Checks that no lock is held: a lane that ends without unlocking would keep all others out of the word.
absl::Status check_locks(const published_view& view, backing& memory) {
    auto locks = words_of(memory, view.locks, std::uint64_t{view.segments} * device::lock_words);
    if (!locks.ok()) {
        return locks.status();
    }
    for (std::size_t i = 0; i < locks->size(); ++i) {
        if ((*locks)[i] != 0) {
            // A word of locks stands for 32 words of the bitmap.
            return absl::InternalError(absl::StrFormat("segment %d: locks of bitmap words %d to %d are %#x",
                                                       i / device::lock_words, i % device::lock_words * 32,
                                                       i % device::lock_words * 32 + 31, (*locks)[i]));
        }
    }
    return absl::OkStatus();
}

/// The three bitmaps of one segment: units taken, and units at which a block begins or ends.
///
///     used       . 1 1 1 1 1 . . 1
///     begins     . 1 . . 1 . . . 1      blocks [1, 4), [4, 6) and [8, 9)
///     ends       . . . 1 . 1 . . 1
struct unit_words {
    std::vector<std::uint64_t> used;
    std::vector<std::uint64_t> begins;
    std::vector<std::uint64_t> ends;

    /// Checks that the taken units are those of whole blocks: walks over the units and keeps whether it is inside a
    /// block. No block begins inside another one, exactly the units inside are taken, and none ends outside.
    [[nodiscard]] absl::Status check(std::uint32_t segment) const {
        // The walk over the units of the drawing above:
        //
        //     unit       0 1 2 3 4 5 6 7 8      inside while its end has not been seen
        //     inside     . 1 1 1 1 1 . . 1
        bool inside = false;
        for (std::size_t unit = 0; unit < used.size() * 64; ++unit) {
            const auto is = [&](const std::vector<std::uint64_t>& words) {
                return (words[unit / 64] >> (unit % 64) & 1) != 0;
            };
            // Computed before `inside` changes: a begin inside a block that has not ended.
            const bool begins_twice = inside && is(begins);
            inside = inside || is(begins);
            if (begins_twice || inside != is(used) || (is(ends) && !inside)) {
                return absl::InternalError(
                    absl::StrFormat("segment %d, unit %d: taken %d, inside a block %d, a block begins %d, ends %d",
                                    segment, unit, is(used), inside, is(begins), is(ends)));
            }
            // The unit with the end is still inside.
            inside = inside && !is(ends);
        }
        return inside ? absl::InternalError(absl::StrFormat("segment %d: its last block has no end", segment))
                      : absl::OkStatus();
    }
};

/// Checks each segment by itself; a block never crosses the border of a slab.
absl::Status check_units(const published_view& view, backing& memory) {
    // All slabs are of one class, whose pages are the units.
    const std::uint64_t count = class_words(view.unit_class);
    std::vector<std::uint32_t> cleared(view.segments, static_cast<std::uint32_t>(count));
    if (view.clears_metadata) {
        auto words = words_of(memory, view.cleared_words, view.segments);
        if (!words.ok()) {
            return words.status();
        }
        cleared = *std::move(words);
    }
    for (std::uint32_t i = 0; i < view.segments; ++i) {
        auto used = words_of(memory, view.bitmap(i), count);
        auto begins = words_of(memory, view.begins + i * count, count);
        auto ends = words_of(memory, view.ends + i * count, count);
        if (!used.ok() || !begins.ok() || !ends.ok()) {
            return !used.ok() ? used.status() : !begins.ok() ? begins.status() : ends.status();
        }
        // A word that was never cleared may hold anything, and stands for no unit.
        std::fill(used->begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(cleared[i], count)), used->end(),
                  0);
        const unit_words words{*std::move(used), *std::move(begins), *std::move(ends)};
        if (absl::Status s = words.check(i); !s.ok()) {
            return s;
        }
    }
    return absl::OkStatus();
}

}  // namespace

/// The pointers of the view tell the algorithm: each is null unless the algorithm needs it. The others have nothing to
/// check here.
absl::Status validate_policy_side(const published_view& view, backing& memory) {
    if (view.locks != nullptr) {
        return check_locks(view, memory);
    }
    return view.begins != nullptr ? check_units(view, memory) : absl::OkStatus();
}

/// `begins` is zero where nothing is allocated, so that the bits of all segments can be counted together.
absl::StatusOr<std::uint64_t> blocks_in_use(const published_view& view, backing& memory) {
    auto begins = words_of(memory, view.begins, std::uint64_t{view.segments} * class_words(view.unit_class));
    if (!begins.ok()) {
        return begins.status();
    }
    std::uint64_t blocks = 0;
    for (const std::uint64_t w : *begins) {
        blocks += static_cast<std::uint64_t>(std::popcount(w));
    }
    return blocks;
}

}  // namespace orchard
