// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The model's data about a page and a VA block.
///
/// A page has a location (GPU, CPU, both or neither) and a mapping on the GPU (none, readable, writable). The two
/// differ: a page on the CPU may be mapped remotely, and a page on the GPU loses its mapping when it is discarded.
///
///     gpu cpu   readable writable
///      0   0       0        0       never populated
///      1   0       1        1       on the GPU
///      1   1       1        0       read-duplicated: a write faults, and leaves one copy
///      0   1       0        0       on the CPU: an access faults
///      0   1       1        1       on the CPU, mapped remotely: an access reaches host memory
///      1   0       0        0       discarded on the GPU: the next access faults once more

#include <cstdint>

#include "uvm/model/chunk_list.hpp"
#include "uvm/model/page_mask.hpp"

namespace orchard::uvm_model {

/// Bytes [offset, offset + bytes) of the managed space.
struct byte_range {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
};

/// The owner of memory: the GPU or the host.
enum class processor : std::uint8_t { gpu, cpu };

/// The advice of `cudaMemAdvise`; section 4 of docs/uvm.md.
enum class advice : std::uint8_t {
    prefer_gpu,      ///< preferred location = this GPU
    prefer_cpu,      ///< preferred location = the CPU
    prefer_none,     ///< preferred location unset, the initial state
    accessed_by,     ///< accessed by this GPU
    no_accessed_by,  ///< unset, the initial state
    read_mostly,     ///< mostly read
    no_read_mostly,  ///< unset, the initial state
};

/// The advice that was given for a VA block. Source: `uvm_policy.c`, `uvm_va_policy.h`.
struct policy {
    /// The preferred location.
    enum class place : std::uint8_t { none, gpu, cpu };
    place preferred = place::none;  ///< as set by `advice::prefer_...`
    bool accessed_by = false;       ///< pages on the CPU are mapped for the GPU
    bool read_mostly = false;       ///< reads make copies instead of moving pages
    friend constexpr bool operator==(const policy&, const policy&) = default;
};

/// The states of 64 pages: one bit for each page in each word, the lowest page in the least significant bit. One cache
/// line, so that an access that hits touches only one.
struct alignas(64) page_states {
    std::uint64_t gpu = 0;         ///< resident on the GPU
    std::uint64_t cpu = 0;         ///< resident on the CPU; both: read-duplicated; neither: never populated
    std::uint64_t discarded = 0;   ///< the contents have been discarded
    std::uint64_t readable = 0;    ///< mapped on the GPU, locally or remotely: a read succeeds
    std::uint64_t writable = 0;    ///< a write or an atomic succeeds
    std::uint64_t used = 0;        ///< accessed by the GPU since it came (or was last counted)
    std::uint64_t arrived = 0;     ///< on the GPU because of a fault, and not counted yet
    std::uint64_t prefetched = 0;  ///< of `arrived`, pages that the prefetcher brought
};
static_assert(sizeof(page_states) == 64);

/// No VA block, or no list of regions.
inline constexpr std::uint32_t no_index = 0xffffffffu;

/// A VA block: the pages `pages` of segment `segment`, all 512 unless a policy boundary has truncated it.
struct va_block {
    std::uint32_t segment = 0;  ///< the segment of which it is a part
    page_range pages{0, pages_per_segment};
    policy advised{};                ///< holds for all of its pages
    std::uint32_t resident = 0;      ///< pages on the GPU
    chunk_index chunk = no_chunk;    ///< a complete block's memory
    std::uint32_t parts = no_index;  ///< a truncated block's memory: index of its regions' chunks
    std::uint32_t next = no_index;   ///< the block after it in its segment
    /// Evictions of memory of the block; a truncated one counts each of its regions.
    std::uint32_t evictions = 0;

    /// Returns whether the block is a whole segment. Only a complete block gets a 2 MiB chunk of its own.
    [[nodiscard]] bool complete() const { return pages.size() == pages_per_segment; }
};

/// A truncated block has memory by region: the part of the block in one big page. Its regions are numbered from 0.
/// Source: `uvm_va_block.c` (chunk sizes of a block). In the driver, the first and last region may be chunks of 4 KiB
/// to 32 KiB; here every region takes a slot of 64 KiB.
[[nodiscard]] constexpr std::uint32_t region_of(const va_block& block, std::uint32_t page) {
    return page / pages_per_big_page - block.pages.first / pages_per_big_page;
}
/// Returns the number of regions of the block: 1 to 32.
[[nodiscard]] constexpr std::uint32_t regions_of(const va_block& block) {
    return region_of(block, block.pages.end - 1) + 1;
}
/// Returns the pages of region `region`.
[[nodiscard]] constexpr page_range pages_of_region(const va_block& block, std::uint32_t region) {
    const std::uint32_t first = (block.pages.first / pages_per_big_page + region) * pages_per_big_page;
    const std::uint32_t end = first + pages_per_big_page;
    return {first < block.pages.first ? block.pages.first : first, end > block.pages.end ? block.pages.end : end};
}

}  // namespace orchard::uvm_model
