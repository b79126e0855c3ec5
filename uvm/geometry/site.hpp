// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstdint>

#include "device/simt/config.cuh"
#include "uvm/geometry/hardening.hpp"

/// Allocation sites: tags of blocks that stand for a place in the source.
///
///     void* p = heap.malloc(bytes, ORCHARD_SITE);      // in device code, or ORCHARD_MALLOC(heap, bytes)
///     ORCHARD_NAME_SITES;                              // once in that file, outside of all functions
///
/// A tag is a hash of the file's name, without folders, and of the line. The second macro tells the host the file's
/// name, so that reports say "file.cu:120" instead of a number (runtime/trace/site_names.hpp). Two places may have one
/// tag: of 100 sites two have it with a chance of 0.1 %; a report then names both.

namespace orchard {

/// Returns the tag of a place: FNV-1a of the name's last part and of the line, folded to 22 bits, and never 0.
ORCHARD_FN constexpr std::uint32_t site_tag(const char* file, std::uint32_t line) {
    const char* name = file;
    for (const char* c = file; *c != '\0'; ++c) {
        if (*c == '/') {
            name = c + 1;
        }
    }
    std::uint32_t hash = 2166136261u;
    for (; *name != '\0'; ++name) {
        hash = (hash ^ static_cast<std::uint8_t>(*name)) * 16777619u;
    }
    for (std::uint32_t shift = 0; shift < 32; shift += 8) {
        hash = (hash ^ (line >> shift & 0xff)) * 16777619u;
    }
    const std::uint32_t tag = (hash >> 22 ^ hash) & max_block_tag;
    return tag != 0 ? tag : 1;
}

/// A constant that is computed when the source is compiled.
template <std::uint32_t Tag>
struct constant_tag {
    static constexpr std::uint32_t value = Tag;
};

}  // namespace orchard

#define ORCHARD_SITE (::orchard::constant_tag<::orchard::site_tag(__FILE__, __LINE__)>::value)
#define ORCHARD_MALLOC(heap, bytes) ((heap).malloc((bytes), ORCHARD_SITE))
