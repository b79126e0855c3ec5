// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The variants of Ouroboros in the arena (docs/ouroboros.md): one instance, with pages of 16 B to 8 KiB.

#include "profiling/arena/adapter.hpp"
#include "runtime/published/ouroboros.hpp"

namespace orchard::arena {

/// Returns the allocator of one variant.
template <device::ouroboros::variant V>
allocator ouroboros_allocator(const char* name) {
    constexpr std::uint64_t chunk = 8192;
    return adapt<ouroboros<V>>({.name = name, .source = "Winter et al., ICS 2020", .largest = chunk},
                               [](const simt::executor& on, std::uint64_t bytes) {
                                   ouroboros_settings settings;
                                   settings.instances.front() = {.bytes = bytes, .chunk_bytes = chunk};
                                   return ouroboros<V>::create(on, settings);
                               });
}

}  // namespace orchard::arena
