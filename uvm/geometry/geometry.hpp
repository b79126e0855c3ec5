// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The sizes in which the UVM driver works, and the strong types of counts in these sizes. Source: NVIDIA open kernel
/// modules, `kernel-open/nvidia-uvm` (`uvm_va_block.h`, `uvm_perf_prefetch.c`).

#include <cstdint>

#include "device/simt/config.cuh"

namespace orchard {

/// Bytes of an OS page.
inline constexpr std::uint64_t os_page_bytes = 4ull << 10;
/// Bytes of a big page (basic block): the unit of fault service, a leaf of the prefetch tree.
inline constexpr std::uint64_t big_page_bytes = 64ull << 10;
/// Bytes of a VA block (segment): the reach of one prefetch tree, Orchard's unit of large allocation.
inline constexpr std::uint64_t segment_bytes = 2ull << 20;
/// log2 of `segment_bytes`.
inline constexpr int segment_shift = 21;
/// The most segments that one heap can own: an index must fit the mailbox's 24-bit field (2^24 segments of 2 MiB, 32
/// TiB). A heap uses one less, so that the number of all its segments fits the field, too.
inline constexpr std::uint32_t max_segments = 1u << 24;

/// Index of a segment in its super chunk: (pointer - base) >> 21. A type of its own, so that an index and a count of
/// segments cannot be swapped in a call.
enum class segment_index : std::uint32_t {};
/// The index that means "no segment".
inline constexpr segment_index no_segment{0xffffffffu};

ORCHARD_FN constexpr std::uint32_t to_underlying(segment_index i) { return static_cast<std::uint32_t>(i); }
ORCHARD_FN constexpr segment_index operator+(segment_index i, std::uint32_t n) {
    return segment_index{static_cast<std::uint32_t>(i) + n};
}

/// A run of consecutive segments: [first, first + count). The default is an empty run at `no_segment`.
struct segment_run {
    segment_index first = no_segment;
    std::uint32_t count = 0;
    friend ORCHARD_FN constexpr bool operator==(const segment_run& a, const segment_run& b) {
        return a.first == b.first && a.count == b.count;
    }
    friend ORCHARD_FN constexpr bool operator!=(const segment_run& a, const segment_run& b) { return !(a == b); }
};

/// Returns the number of segments needed for `n` bytes: 0 for 0, 1 for 1 and for 2 MiB, 2 for one byte more. Rounded up
/// without a sum that could overflow for the largest `n`.
ORCHARD_FN constexpr std::uint64_t segments_for(std::uint64_t n) {
    return (n >> segment_shift) + ((n & (segment_bytes - 1)) != 0 ? 1 : 0);
}

}  // namespace orchard
