// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// KMA in the arena (docs/kma.md): superblocks of 16 KiB, which serve blocks of up to 8 KiB.

#include "runtime/published/kma.hpp"

#include "profiling/arena/adapter.hpp"

namespace orchard::arena {
namespace {

constexpr std::uint32_t superblock = 16384;

const registrar kma_registered{adapt<kma>({.name = "kma", .source = "Spliet, 2013", .largest = superblock - 32},
                                          [](const simt::executor& on, std::uint64_t bytes) {
                                              return kma::create(on,
                                                                 {.capacity = bytes, .superblock_bytes = superblock});
                                          })};

}  // namespace
}  // namespace orchard::arena
