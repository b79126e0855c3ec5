// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include "device/heap_ref.cuh"
#include "device/slow_paths.cuh"

namespace orchard {

namespace device {

/// 16 bytes, moved at once.
struct alignas(16) sixteen_bytes {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
};

/// Copies; both ends aligned to 16 B and readable and writable up to a multiple of 16 B. One lane.
inline ORCHARD_FN void copy_block(void* to, const void* from, std::uint64_t bytes) {
    auto* t = static_cast<sixteen_bytes*>(to);
    const auto* f = static_cast<const sixteen_bytes*>(from);
    for (std::uint64_t i = 0; i < (bytes + 15) / 16; ++i) {
        t[i] = f[i];
    }
}

/// A page or run of units where the heap's policy is one of the published algorithms, or null.
template <class Policy>
ORCHARD_NOINLINE void* allocate_by_policy(const heap_view& h, std::uint64_t bytes, std::uint32_t page_class,
                                          std::uint64_t alignment) {
    failure_reason why = failure_reason::none;
    void* p = allocate_published<Policy>(h, bytes, alignment, page_class, &why);
    if (p == nullptr) {
        slow::record_failure(h, why, bytes, page_class);
    }
    return p;
}

}  // namespace device

template <class Policy>
ORCHARD_INLINE void* basic_heap_ref<Policy>::allocate(std::uint64_t bytes, std::uint32_t page_class,
                                                      std::uint64_t alignment) const {
    if (page_class == chunk_class) {
        return device::slow::allocate_large(*view_.self, bytes, alignment);
    }
    if constexpr (!Policy::is_default) {
        if (Policy::of(view_) != device::page_policy::default_walk) {
            return device::allocate_by_policy<Policy>(*view_.self, bytes, page_class, alignment);
        }
    }
    const device::home_result r = simt::by_mask(
        simt::converge(), [&](simt::lane_mask here) { return device::look_at_home(view_, here, page_class); });
    if (r.mine.page == device::found_page::none) {
        return r.closing ? device::slow::refuse_page(*view_.self, failure_reason::closing, bytes, page_class)
                         : device::slow::search_page(*view_.self, r.lack, r.group & r.lack, page_class, bytes,
                                                     r.mine.segment);
    }
    return view_.address(r.mine.segment) + std::uint64_t{r.mine.page} * class_bytes(page_class);
}

template <class Policy>
ORCHARD_INLINE void* basic_heap_ref<Policy>::get_page(std::uint32_t bytes) const {
    if (bytes == 0 || bytes > largest_page_bytes) {
        if (bytes != 0) {
            device::slow::record_failure(*view_.self, failure_reason::too_large, bytes, chunk_class);
        }
        return nullptr;
    }
    return allocate(bytes, class_of(bytes), 16);
}

template <class Policy>
ORCHARD_INLINE void basic_heap_ref<Policy>::free(void* p) const {
    if (p == nullptr) {
        return;
    }
    if constexpr (Policy::may_be(device::page_policy::rw_malloc)) {
        if (Policy::of(view_) == device::page_policy::rw_malloc) {
            return device::slow::free_by_units(*view_.self, p);
        }
    }
    const simt::lane_mask here = simt::converge();
    std::uint64_t d = 0;
    if (view_.owns(p)) {
        // Relaxed: the lane that frees a page knows of the descriptor that its allocation looked at, and it cannot
        // change while the page is not free.
        d = view_.descriptors[(static_cast<const char*>(p) - view_.base) >> segment_shift].load<simt::order::relaxed>();
    }
    if (!simt::by_mask(here, [&](simt::lane_mask mask) { return device::free_page(view_, mask, p, d); })) {
        device::slow::free_other(*view_.self, p);
    }
}

template <class Policy>
ORCHARD_FN void* basic_heap_ref<Policy>::calloc(std::uint64_t count, std::uint64_t size) const {
    const std::uint64_t bytes = count * size;
    if (count != 0 && bytes / count != size) {
        device::slow::record_failure(*view_.self, failure_reason::too_large, ~std::uint64_t{0}, chunk_class);
        return nullptr;
    }
    void* p = malloc(bytes);
    if (p != nullptr) {
        auto* words = static_cast<device::sixteen_bytes*>(p);
        for (std::uint64_t i = 0; i < (bytes + 15) / 16; ++i) {
            words[i] = {};
        }
    }
    return p;
}

template <class Policy>
ORCHARD_FN std::uint64_t basic_heap_ref<Policy>::usable_size(const void* p) const {
    if (!owns(p)) {
        return 0;
    }
    const auto segment = static_cast<std::uint32_t>((static_cast<const char*>(p) - view_.base) >> segment_shift);
    const std::uint64_t d = view_.descriptors[segment].load<simt::order::acquire>();
    switch (device::descriptor::kind(d)) {
        case device::segment_kind::slab:
            if (Policy::of(view_) == device::page_policy::rw_malloc) {
                return device::slow::block_bytes(view_, p);
            }
            return device::page_in_use(view_, p, d) ? class_bytes(device::descriptor::page_class(d)) : 0;
        case device::segment_kind::chunk:
        case device::segment_kind::portions: return device::slow::bytes_in_chunk(*view_.self, p);
        default: return 0;
    }
}

template <class Policy>
ORCHARD_FN void* basic_heap_ref<Policy>::realloc(void* p, std::uint64_t bytes) const {
    if (p == nullptr) {
        return malloc(bytes);
    }
    if (bytes == 0) {
        free(p);
        return nullptr;
    }
    view_.add(device::counter::reallocs, 1);
    const std::uint64_t have = usable_size(p);
    if (have == 0) {
        device::slow::record_invalid_free(*view_.self, p);
        return nullptr;
    }
    if (bytes <= have && (bytes > have / 2 || have <= 16)) {
        return p;
    }
    void* moved = malloc(bytes);
    if (moved == nullptr) {
        return bytes <= have ? p : nullptr;
    }
    device::copy_block(moved, p, bytes < have ? bytes : have);
    free(p);
    view_.add(device::counter::reallocs_moved, 1);
    return moved;
}

template <class Policy>
ORCHARD_FN void* basic_heap_ref<Policy>::aligned_alloc(std::uint64_t alignment, std::uint64_t bytes) const {
    if (bytes == 0) {
        return nullptr;
    }
    if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > segment_bytes) {
        device::slow::record_failure(*view_.self, failure_reason::invalid_alignment, bytes, chunk_class);
        return nullptr;
    }
    std::uint32_t page_class = chunk_class;
    if (bytes <= largest_page_bytes && alignment <= largest_page_bytes) {
        page_class = class_of(static_cast<std::uint32_t>(bytes > alignment ? bytes : alignment));
        while (class_bytes(page_class) % alignment != 0) {
            ++page_class;  // ends at the next power of two
        }
    }
    return allocate(bytes, page_class, alignment);
}

}  // namespace orchard
