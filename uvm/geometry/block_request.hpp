// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `block_request`: how a program asked for a block, as events of blocks have it, so that a trace can be replayed by
/// the same calls.

#include <cstdint>

#include "device/simt/config.cuh"

namespace orchard {

/// The calls that differ in a replay. The numbers are part of the trace format.
enum class request_kind : std::uint8_t {
    plain,    ///< `malloc`, `realloc`, and linear arrays of types that need no more than 16 B of alignment
    zeroed,   ///< `calloc`
    aligned,  ///< `aligned_alloc`, and linear arrays of all other types
    array,    ///< `allocate_array`, interleaved
};

/// A request, but for its bytes. In an event it is a word of 12 bits; the word of a plain request is 0.
///
///     11      7 6       2 1    0
///     | lanes | log     | kind |      lanes: less 1
struct block_request {
    request_kind kind = request_kind::plain;
    std::uint32_t log = 0;    ///< aligned: log2 of the alignment; array: log2 of the tile
    std::uint32_t lanes = 1;  ///< array: lanes of the chunk, which asked for it together

    static ORCHARD_FN constexpr block_request from_word(std::uint32_t word) {
        return {static_cast<request_kind>(word & 3), word >> 2 & 31, (word >> 7 & 31) + 1};
    }
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t word() const {
        return static_cast<std::uint32_t>(kind) | log << 2 | (lanes - 1) << 7;
    }

    friend ORCHARD_FN constexpr bool operator==(const block_request& a, const block_request& b) {
        return a.word() == b.word();
    }
};

/// A number below 2^32, with the word of a request above it. The slow paths of a plain heap take the number alone,
/// which is the same word: their calls thus have no argument more for heaps that report requests.
struct asked_word {
    static ORCHARD_INLINE std::uint64_t of(std::uint64_t number, std::uint32_t asked) {
        return number | std::uint64_t{asked} << 32;
    }
    static ORCHARD_INLINE std::uint32_t number(std::uint64_t word) { return static_cast<std::uint32_t>(word); }
    static ORCHARD_INLINE std::uint32_t asked(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); }
};

}  // namespace orchard
