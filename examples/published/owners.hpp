// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The published allocators as the applications make them, and their largest blocks.

#include <algorithm>
#include <bit>
#include <cstdint>

#include "runtime/published/kma.hpp"
#include "runtime/published/ouroboros.hpp"
#include "runtime/published/xmalloc.hpp"

namespace orchard::examples {

/// Returns a limit that no block reaches, whatever the memory.
inline std::uint64_t any_size(std::uint64_t) { return ~std::uint64_t{0}; }

/// Bytes of KMA's superblocks, the most that it may have.
inline constexpr std::uint32_t kma_superblock = 65536;
/// Returns the bytes of the largest block of KMA, whatever the memory: a superblock without its header.
inline std::uint64_t kma_largest(std::uint64_t) { return kma_superblock - 32; }
/// Returns KMA with superblocks of the most bytes. Errors: those of `kma::create`.
inline absl::StatusOr<kma> create_kma(const simt::executor& on, std::uint64_t bytes) {
    return kma::create(on, {.capacity = bytes, .superblock_bytes = kma_superblock});
}

/// Returns XMalloc before a heap of its own, with its usual queues. Errors: those of `xmalloc::create`.
inline absl::StatusOr<xmalloc<heap_ref>> create_xmalloc(const simt::executor& on, std::uint64_t bytes) {
    return xmalloc<heap_ref>::create(on, {.capacity = bytes});
}

/// Returns the size of the larger chunks of Ouroboros in so much memory: at most 1 MiB, and some sixty of them at
/// least, of which queues keep up to a third.
inline std::uint64_t ouroboros_largest(std::uint64_t bytes) {
    return std::clamp<std::uint64_t>(std::bit_floor(bytes / 256), 16384, std::uint64_t{1} << 20);
}
/// Returns a variant of Ouroboros with three quarters of the memory in chunks of 8 KiB, as in the paper, and the rest
/// in larger ones, for the lists of vertices of high degree.
template <device::ouroboros::variant V>
absl::StatusOr<ouroboros<V>> create_ouroboros(const simt::executor& on, std::uint64_t bytes) {
    ouroboros_settings settings;
    settings.instances = {{.bytes = bytes / 4 * 3, .chunk_bytes = 8192},
                          {.bytes = bytes / 4, .chunk_bytes = ouroboros_largest(bytes)}};
    return ouroboros<V>::create(on, settings);
}

}  // namespace orchard::examples
