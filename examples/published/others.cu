// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The applications in KMA (docs/kma.md), with superblocks of 64 KiB, and in XMalloc before a heap (docs/xmalloc.md).

#include "examples/published/in_allocator.cuh"
#include "runtime/published/kma.hpp"
#include "runtime/published/xmalloc.hpp"

namespace orchard::examples {
namespace {

constexpr std::uint32_t superblock = 65536;

const applications_in in_kma{"kma",
                             [](const simt::executor& on, std::uint64_t bytes) {
                                 return kma::create(on, {.capacity = bytes, .superblock_bytes = superblock});
                             },
                             [](std::uint64_t) -> std::uint64_t { return superblock - 32; }};
const applications_in in_xmalloc{
    "xmalloc",
    [](const simt::executor& on, std::uint64_t bytes) { return xmalloc<heap_ref>::create(on, {.capacity = bytes}); },
    any_size};

}  // namespace
}  // namespace orchard::examples
