// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// What a heap tells the profiling library; profiled_heap.hpp has the interface.

#include "runtime/heap/profiled_heap.hpp"

#include <dlfcn.h>

#include <new>

#include "runtime/heap/metadata_copy.hpp"

namespace orchard::detail {
namespace {

/// Returns the use of a segment by its descriptor. The generation counts the uses so far.
std::uint8_t owner_of(std::uint64_t word) {
    using device::descriptor;
    switch (descriptor::kind(word)) {
        case device::segment_kind::slab:
            return static_cast<std::uint8_t>(segment_owner::first_slab + descriptor::page_class(word));
        case device::segment_kind::chunk: return segment_owner::chunk;
        case device::segment_kind::portions: return segment_owner::portions;
        case device::segment_kind::none: break;
    }
    return descriptor::generation_field::get(word) == 0 ? segment_owner::unused : segment_owner::freed;
}

}  // namespace

/// The library makes its names global when the driver loads it.
profile_heap_function find_profiler() {
    return reinterpret_cast<profile_heap_function>(::dlsym(RTLD_DEFAULT, profile_heap_name));
}

/// The destructor of a heap calls it, so that a lack of memory for the copy must not leave it.
void tell_profiler(profiled_event event, const device::heap_view& view, backing& memory) try {
    const profile_heap_function tell = find_profiler();
    if (tell == nullptr) {
        return;
    }
    profiled_heap about{reinterpret_cast<std::uint64_t>(view.base), std::uint64_t{view.segments} << segment_shift,
                        segment_bytes, nullptr};
    std::vector<std::uint8_t> owners;
    if (event == profiled_event::closed) {
        if (const auto words = copy_of_descriptors(view, memory); words.ok()) {
            owners.reserve(words->size());
            for (const std::uint64_t word : *words) {
                owners.push_back(owner_of(word));
            }
            about.owners = owners.data();
        }
    }
    tell(event, &about);
} catch (const std::bad_alloc&) {
}

}  // namespace orchard::detail
