// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The applications in the variants of Ouroboros (docs/ouroboros.md): three quarters of the memory in chunks of 8 KiB,
/// as in the paper, and the rest in larger ones, for the lists of vertices of high degree.

#include "runtime/published/ouroboros.hpp"

#include <algorithm>
#include <bit>

#include "examples/published/in_allocator.cuh"

namespace orchard::examples {
namespace {

using device::ouroboros::variant;

/// Returns the size of the larger chunks in so much memory: at most 1 MiB, and some sixty of them at least, of which
/// queues keep up to a third.
std::uint64_t large_chunk(std::uint64_t bytes) {
    return std::clamp<std::uint64_t>(std::bit_floor(bytes / 256), 16384, std::uint64_t{1} << 20);
}

template <variant V>
applications_in in_variant(const char* name) {
    return {name,
            [](const simt::executor& on, std::uint64_t bytes) {
                ouroboros_settings settings;
                settings.instances = {{.bytes = bytes / 4 * 3, .chunk_bytes = 8192},
                                      {.bytes = bytes / 4, .chunk_bytes = large_chunk(bytes)}};
                return ouroboros<V>::create(on, settings);
            },
            large_chunk};
}

const applications_in all[] = {
    in_variant<variant::s_pages>("ouroboros_s_pages"),   in_variant<variant::s_chunks>("ouroboros_s_chunks"),
    in_variant<variant::va_pages>("ouroboros_va_pages"), in_variant<variant::va_chunks>("ouroboros_va_chunks"),
    in_variant<variant::vl_pages>("ouroboros_vl_pages"), in_variant<variant::vl_chunks>("ouroboros_vl_chunks"),
};

}  // namespace
}  // namespace orchard::examples
