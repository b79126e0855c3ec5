// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Copies and clears whole blocks, for `realloc` and `calloc`. Each lane has its own block, of any size. A lane works
/// on a short block alone. On a long block, all lanes that are there work together, block after block: neighbouring
/// lanes then access neighbouring 16 B.
///
///     lane 0: 100 B, alone      lane 1: 64 KiB, with 32 lanes in 32 rounds of four times 512 B      lane 2: ...

#include <cstdint>

#include "device/group/leader.cuh"
#include "device/simt/touch.cuh"

namespace orchard::device {

/// 16 bytes that are copied in one access. Every block is aligned to 16 B at least.
struct alignas(16) sixteen_bytes {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
};

/// The shortest block, in bytes, that the lanes work on together. A full warp takes two rounds for it, a lane alone 64.
inline constexpr std::uint64_t shared_from = 4096;

/// A block to be written by `width` lanes, of which this one is number `rank`.
struct block_part {
    char* to;
    const char* from;  ///< the bytes to be copied; null: the block is cleared
    std::uint64_t bytes;
    std::uint32_t rank;
    std::uint32_t width;
};

/// Writes this lane's part of the block: each `width`th 16 B from number `rank` on, and the lane of rank 0 up to 15
/// bytes at the end. Four loads are in flight at a time, and prefetches of those of later rounds: more loads would take
/// more registers, and without either, a round waits for the memory for as long as it takes. Both blocks are aligned to
/// 16 B.
inline ORCHARD_NOINLINE void write_part(const block_part& p) {
    constexpr std::uint32_t at_once = 4;
    constexpr std::uint32_t rounds_ahead = 16;  // of 2 KiB each, in a full warp
    auto* const to = reinterpret_cast<sixteen_bytes*>(p.to);
    const auto* const from = reinterpret_cast<const sixteen_bytes*>(p.from);
    const std::uint64_t count = p.bytes / sizeof(sixteen_bytes);
    // Copies, because the compiler must assume that a store to the block changes `p`.
    const std::uint64_t width = p.width;
    const std::uint32_t rank = p.rank;
    ORCHARD_NO_UNROLL
    for (std::uint64_t i = rank; i < count; i += at_once * width) {
        sixteen_bytes read[at_once];
        ORCHARD_UNROLL
        for (std::uint32_t j = 0; j < at_once; ++j) {
            if (from != nullptr && i + j * width < count) {
                read[j] = from[i + j * width];
            }
        }
        ORCHARD_UNROLL
        for (std::uint32_t j = 0; j < at_once; ++j) {
            const std::uint64_t later = i + (rounds_ahead * at_once + j) * width;
            if (from != nullptr && later < count) {
                simt::prefetch(from + later);
            }
        }
        ORCHARD_UNROLL
        for (std::uint32_t j = 0; j < at_once; ++j) {
            if (i + j * width < count) {
                to[i + j * width] = read[j];
            }
        }
    }
    ORCHARD_NO_UNROLL
    for (std::uint64_t i = count * sizeof(sixteen_bytes); rank == 0 && i < p.bytes; ++i) {
        p.to[i] = p.from != nullptr ? p.from[i] : 0;
    }
}

/// Copies `bytes` bytes from `from` to this lane's block `to`, or clears them if `from` is null. All lanes of `here`
/// call it; they share the work on their long blocks, ordered by barriers before and behind it. Cost: a load and a
/// store for each 16 B; a collective, and for each long block six.
inline ORCHARD_NOINLINE void write_block(simt::lane_mask here, void* to, const void* from, std::uint64_t bytes) {
    block_part p{static_cast<char*>(to), static_cast<const char*>(from), bytes, 0, 1};
    if (bytes < shared_from) {
        write_part(p);
    }
    simt::lane_mask left = simt::ballot(here, bytes >= shared_from);
    if (left == 0) {
        return;
    }
    // The block's owner may have written it, and will read it.
    simt::sync(here);
    p.rank = static_cast<std::uint32_t>(simt::rank_in(here));
    p.width = static_cast<std::uint32_t>(simt::popcount(here));
    ORCHARD_NO_UNROLL
    for (; left != 0; left &= left - 1) {
        const int lane = simt::lowest_bit(left);
        p.to = reinterpret_cast<char*>(simt::shuffle(here, reinterpret_cast<std::uintptr_t>(to), lane));
        p.from = reinterpret_cast<const char*>(simt::shuffle(here, reinterpret_cast<std::uintptr_t>(from), lane));
        p.bytes = simt::shuffle(here, bytes, lane);
        write_part(p);
    }
    simt::sync(here);
}

}  // namespace orchard::device
