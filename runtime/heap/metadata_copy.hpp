// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Copies of a heap's metadata for the host to read: `heap::stats`, `heap::chunks` and `heap::validate` use them.
/// Errors: the device's own.
///
///     copy_of                 any array
///     copy_of_descriptors     [segments], as plain numbers
///     for_each_stored         the chunks in the chunk store
///     for_each_bitmap         the bitmaps of some segments, many in one copy
///
/// Each copy is one `backing::read`, which uses no kernel. While kernels run, words that were copied one after the
/// other may be of different moments.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/segments/chunk_store.cuh"
#include "uvm/memory/backing.hpp"

namespace orchard {

/// Returns a copy of `count` values of device memory. Kernels may change them meanwhile; each word of 32 or 64 bits is
/// right for some time during the call.
/// @tparam T  a type of the device's, which is copied as bytes: words, records
template <class T>
absl::StatusOr<std::vector<T>> copy_of(backing& memory, const T* from, std::uint64_t count) {
    std::vector<T> result(count);
    if (absl::Status s = memory.read(static_cast<void*>(result.data()), from, count * sizeof(T)); !s.ok()) {
        return s;
    }
    return result;
}

/// Returns the descriptor words of all segments, in the order of the segments.
inline absl::StatusOr<std::vector<std::uint64_t>> copy_of_descriptors(const device::heap_view& view, backing& memory) {
    const auto words = copy_of(memory, view.descriptors, std::uint64_t{view.descriptor_mask} + 1);
    if (!words.ok()) {
        return words.status();
    }
    std::vector<std::uint64_t> result;
    result.reserve(view.segments);
    for (std::uint32_t i = 0; i < view.segments; ++i) {
        // Relaxed: the words are this thread's own copy.
        const auto& word = (*words)[device::descriptor_place(i, view.descriptor_mask)];
        result.push_back(word.load<simt::order::relaxed>());
    }
    return result;
}

/// Calls `visit(of_class, chunk)` for each chunk in the chunk store, until a call returns an error. Copies only classes
/// that hold chunks by their count.
inline absl::Status for_each_stored(const device::heap_view& view, backing& memory,
                                    const std::function<absl::Status(std::uint32_t, device::stored_chunk)>& visit) {
    using device::chunk_store;
    const std::uint32_t in_class = view.stored_rows * chunk_store::slots_in_row;
    if (in_class == 0) {
        return absl::OkStatus();
    }
    const auto counts = copy_of(memory, &view.state->stored_count[0], std::uint64_t{chunk_store::classes});
    if (!counts.ok()) {
        return counts.status();
    }
    for (std::uint32_t of_class = 0; of_class < chunk_store::classes; ++of_class) {
        if (device::chunk_count::held((*counts)[of_class].word.load<simt::order::relaxed>()) == 0) {
            continue;
        }
        const auto slots = copy_of(memory, view.stored + std::uint64_t{of_class} * in_class, std::uint64_t{in_class});
        if (!slots.ok()) {
            return slots.status();
        }
        for (const auto& slot : *slots) {
            const std::uint64_t word = slot.load<simt::order::relaxed>();
            absl::Status s = word == 0 ? absl::OkStatus() : visit(of_class, device::stored_chunk::unpack(word));
            if (!s.ok()) {
                return s;
            }
        }
    }
    return absl::OkStatus();
}

/// Calls `visit(segment, words)` with the first `wanted(segment)` words of each bitmap, in the order of segments, until
/// a call returns an error. Skips a bitmap if that number is 0 or the bitmap is not committed. `wanted` is called
/// several times for a segment and must return the same each time.
inline absl::Status for_each_bitmap(
    const device::heap_view& view, backing& memory, const std::function<std::uint64_t(std::uint32_t)>& wanted,
    const std::function<absl::Status(std::uint32_t, std::span<const device::device_word<std::uint64_t>>)>& visit) {
    // Several bitmaps are copied at once, because each copy costs about 10 us whatever its size. Bitmaps of
    // neighbouring segments are adjacent. A skipped bitmap ends the copy, and the loop goes on behind it.
    constexpr std::uint32_t max_at_once = 64;
    // Asked of the backing as well: it would return zeros for a bitmap without memory, at the cost of a copy.
    const auto is_wanted = [&](std::uint32_t i) { return wanted(i) != 0 && memory.has_metadata(view.bitmap(i)); };
    for (std::uint32_t first = 0, count = 0; first < view.segments; first += std::max(count, 1u)) {
        count = 0;
        // [first, first + count) are wanted, and next to each other.
        while (count < max_at_once && first + count < view.segments && is_wanted(first + count)) {
            ++count;
        }
        if (count == 0) {
            continue;
        }
        const auto words = copy_of(memory, view.bitmap(first), count * device::bitmap_words);
        if (!words.ok()) {
            return words.status();
        }
        for (std::uint32_t i = 0; i < count; ++i) {
            // The whole bitmap was copied; only its first words are passed on.
            absl::Status s = visit(first + i, std::span(*words).subspan(i * device::bitmap_words, wanted(first + i)));
            if (!s.ok()) {
                return s;
            }
        }
    }
    return absl::OkStatus();
}

}  // namespace orchard
