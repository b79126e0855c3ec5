// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include "device/heap_ref.cuh"

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

}  // namespace device

inline ORCHARD_FN void* heap_ref::allocate(std::uint64_t bytes, std::uint32_t page_class,
                                           std::uint64_t alignment) const {
    const simt::lane_mask here = simt::converge();
    // Lanes of several heaps may stand here together: the key tells heaps and classes apart.
    const simt::lane_mask group = simt::match(here, reinterpret_cast<std::uintptr_t>(view_.state) + page_class);
    failure_reason why = failure_reason::none;
    void* p = page_class == chunk_class ? device::allocate_chunk(view_, group, bytes, alignment, &why)
                                        : device::allocate_page(view_, group, page_class, &why);
    const auto lanes = static_cast<std::uint32_t>(simt::popcount(group));
    if (simt::lane_id() == simt::leader_of(group)) {
        view_.add(device::counter::groups, 1);
        view_.add(device::counter::allocations, lanes);
        if (lanes > 1) {
            view_.add(device::counter::multi_lane_groups, 1);
        }
    }
    if (page_class == chunk_class) {
        view_.add(device::counter::allocated_bytes, p != nullptr ? bytes : 0);
    } else if (simt::lane_id() == simt::leader_of(group)) {
        view_.add(device::counter::allocated_bytes, std::uint64_t{lanes} * class_bytes(page_class));
    }
    if (p == nullptr) {
        if (page_class != chunk_class) {
            view_.add(device::counter::allocated_bytes, ~std::uint64_t{class_bytes(page_class)} + 1);
        }
        record_failure(why, bytes, page_class);
    }
    return p;
}

inline ORCHARD_NOINLINE void heap_ref::record_failure(failure_reason why, std::uint64_t bytes,
                                                      std::uint32_t page_class) const {
    view_.add(device::counter::failed_allocations, 1);
    auto& f = view_.state->failure;
    if (f.count.fetch_add<simt::order::relaxed>(1) == 0) {
        const simt::thread_position at = simt::position();
        f.reason.set(static_cast<std::uint32_t>(why));
        f.bytes.set(bytes);
        f.size_class.set(page_class);
        f.block.set(at.block);
        f.thread.set(at.thread);
        f.time_ns.set(simt::clock_ns());
        f.ready.store<simt::order::release>(1);
    }
}

inline ORCHARD_NOINLINE void heap_ref::record_invalid_free(const void* p) const {
    view_.add(device::counter::invalid_frees, 1);
    std::uint64_t expected = 0;
    view_.state->failure.first_invalid_free.compare_exchange<simt::order::relaxed>(expected,
                                                                                   reinterpret_cast<std::uintptr_t>(p));
    if (view_.hardened) {
        simt::stop_kernel("orchard: free of what was not allocated, in a hardened heap");
    }
}

inline ORCHARD_FN void heap_ref::free(void* p) const {
    if (p == nullptr) {
        return;
    }
    using device::descriptor;
    using device::segment_kind;
    const simt::lane_mask here = simt::converge();
    const simt::lane_mask same_heap = simt::match(here, reinterpret_cast<std::uintptr_t>(view_.state));
    std::uint64_t d = 0;
    if (view_.owns(p)) {
        const auto segment = static_cast<std::uint32_t>((static_cast<char*>(p) - view_.base) >> segment_shift);
        // Pairs with the release that made the segment what it is.
        d = view_.descriptors[segment].load<simt::order::acquire>();
    }
    const segment_kind kind = descriptor::kind(d);
    const simt::lane_mask pages = simt::ballot(same_heap, kind == segment_kind::slab);
    bool freed = false;
    if (kind == segment_kind::slab) {
        freed = device::free_page(view_, pages, p, d) == device::free_result::freed;
    } else if (kind == segment_kind::chunk) {
        freed = device::free_chunk_block(view_, p, d);
    }
    const auto count = static_cast<std::uint32_t>(simt::popcount(simt::ballot(same_heap, freed)));
    if (simt::lane_id() == simt::leader_of(same_heap) && count != 0) {
        view_.add(device::counter::frees, count);
    }
    if (!freed) {
        record_invalid_free(p);
    }
}

inline ORCHARD_FN void* heap_ref::calloc(std::uint64_t count, std::uint64_t size) const {
    const std::uint64_t bytes = count * size;
    if (count != 0 && bytes / count != size) {
        view_.add(device::counter::allocations, 1);
        record_failure(failure_reason::too_large, ~std::uint64_t{0}, chunk_class);
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

inline ORCHARD_FN std::uint64_t heap_ref::usable_size(const void* p) const {
    if (!owns(p)) {
        return 0;
    }
    const auto segment = static_cast<std::uint32_t>((static_cast<const char*>(p) - view_.base) >> segment_shift);
    const std::uint64_t d = view_.descriptors[segment].load<simt::order::acquire>();
    switch (device::descriptor::kind(d)) {
        case device::segment_kind::slab:
            return device::page_in_use(view_, p, d) ? class_bytes(device::descriptor::page_class(d)) : 0;
        case device::segment_kind::chunk: {
            const std::uint32_t first = device::descriptor::extent(d);
            const auto& record = view_.records[first];
            const auto offset = static_cast<std::uint64_t>(static_cast<const char*>(p) - view_.address(first));
            const std::uint32_t block = device::find_block(record, offset);
            const bool live =
                block < record.lanes.get() && (record.live.load<simt::order::relaxed>() >> block & 1) != 0;
            return live ? record.offset[block + 1].get() - offset : 0;
        }
        default: return 0;
    }
}

inline ORCHARD_FN void* heap_ref::realloc(void* p, std::uint64_t bytes) const {
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
        record_invalid_free(p);
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

inline ORCHARD_FN void* heap_ref::aligned_alloc(std::uint64_t alignment, std::uint64_t bytes) const {
    if (bytes == 0) {
        return nullptr;
    }
    if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > segment_bytes) {
        view_.add(device::counter::allocations, 1);
        record_failure(failure_reason::invalid_alignment, bytes, chunk_class);
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
