// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// An allocator of one's own in the arena: a template to copy (docs/arena.md). Kernels get the view, by value.
#include "profiling/arena/memory_owner.hpp"

namespace orchard {
namespace {

struct my_view {
    simt::device_word<std::uint64_t>* top;
    char* memory;
    std::uint64_t size;

    ORCHARD_FN void* malloc(std::uint64_t bytes) const {
        const std::uint64_t at = top->fetch_add<simt::order::relaxed>((bytes + 15) / 16 * 16);
        return bytes != 0 && at + bytes <= size ? memory + at : nullptr;
    }
    ORCHARD_FN void free(void*) const {}
};

const arena::registrar mine{
    arena::adapt<arena::memory_owner<my_view>>({.name = "mine", .source = "an example", .frees = false})};

}  // namespace
}  // namespace orchard
