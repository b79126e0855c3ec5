// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The sizes of KMA's blocks: how a superblock is divided, for each size class.
///
///     superblock    | header 16 B | block 0 | block 1 | ... | block n - 1 | (rest) | bitmap |
///
/// Class c has blocks of 16 << c bytes. If the header and the bitmap cost a small class its last block, little is lost;
/// of a large class they take a little from each block:
///
///     4 KiB      class    0    1    2    3    4     5     6     7     8
///                bytes   16   32   64  128  256   496  1008  2032  4064
///                blocks 253  127   63   31   15     8     4     2     1
///
/// Source: R. Spliet, 2013, section 5.1.1. Differences: docs/kma.md.

#include <cstdint>

#include "device/simt/lane.cuh"

namespace orchard::device {

/// The division of a superblock into blocks of one class.
struct superblock_shape {
    static constexpr std::uint32_t header_bytes = 16;
    static constexpr std::uint32_t no_class = ~std::uint32_t{0};

    std::uint32_t block_bytes;
    std::uint32_t blocks;
    std::uint32_t bitmap_words;  ///< of 32 bits, at the end of the superblock

    /// Returns the number of classes of superblocks of `2^log_bytes` bytes.
    static ORCHARD_INLINE std::uint32_t classes(std::uint32_t log_bytes) { return log_bytes - 3; }

    /// Returns the shape of class `c` of superblocks of `2^log_bytes` bytes. Each block is a multiple of 16 B. Cost:
    /// some shifts.
    static ORCHARD_FN superblock_shape of(std::uint32_t c, std::uint32_t log_bytes) {
        const std::uint32_t log_block = c + 4;
        const std::uint32_t data = (1u << log_bytes) - header_bytes;
        superblock_shape shape{};
        // A block less costs 2^log_block bytes. Smaller blocks cost up to 16 B each: 2^(log_bytes - log_block + 4).
        const bool loses_a_block = 2 * log_block <= log_bytes + 4;
        if (loses_a_block) {
            // The bitmap's room is that of all blocks; as it takes the place of some, it may need a word less.
            shape.blocks = (data - ((data >> log_block) + 31) / 32 * 4) >> log_block;
            shape.bitmap_words = (shape.blocks + 31) / 32;
            shape.block_bytes = 1u << log_block;
        } else {
            shape.blocks = 1u << (log_bytes - log_block);
            shape.bitmap_words = (shape.blocks + 31) / 32;
            shape.block_bytes = (data - 4 * shape.bitmap_words) >> (log_bytes - log_block) & ~15u;
        }
        return shape;
    }

    /// Returns the class of the smallest blocks that hold `bytes` > 0; `no_class` if none does. Blocks of a large class
    /// are a little smaller than a power of two, so that such a request belongs to the class above.
    static ORCHARD_FN std::uint32_t class_of(std::uint64_t bytes, std::uint32_t log_bytes) {
        if (bytes > std::uint64_t{1} << log_bytes) {
            return no_class;
        }
        const auto last = static_cast<std::uint32_t>(bytes) - 1;
        std::uint32_t c = last < 16 ? 0 : static_cast<std::uint32_t>(simt::highest_bit(last)) - 3;
        if (of(c, log_bytes).block_bytes < bytes) {
            ++c;
        }
        return c < classes(log_bytes) ? c : no_class;
    }
};

}  // namespace orchard::device
