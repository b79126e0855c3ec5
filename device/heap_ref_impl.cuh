// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The implementation of `heap_ref`, which is inlined into kernels: the fast path of small `malloc` and of `free`, and
/// the functions that are built on these (`calloc`, `realloc`, `aligned_alloc`). All else is a call of a slow path
/// (slow_paths.cuh), so that the inlined code stays short.
///
/// The functions with a template parameter `Heap` serve `published_ref` as well, which has the same interface.
#include "device/group/block_bytes.cuh"
#include "device/heap_ref.cuh"
#include "device/slow_paths.cuh"

namespace orchard {

namespace device {

/// Returns `count` x `size` zeroed bytes from `heap`, or null; implements `heap_ref::calloc` for every type with that
/// interface. Any lanes call it, in any divergence.
///
/// Errors: too_large if the product overflows, recorded with the greatest size, since the true one does not fit 64
/// bits; those of `malloc`. Cost: as `malloc` and `write_block`.
template <class Heap>
ORCHARD_FN void* calloc_from(const Heap& heap, std::uint64_t count, std::uint64_t size) {
    const std::uint64_t bytes = count * size;
    if (count != 0 && bytes / count != size) {
        slow::record_failure(*heap.view().self, failure_reason::too_large, ~std::uint64_t{0}, chunk_class);
        return nullptr;
    }
    const lane_mask here = simt::converge();
    void* p = heap.malloc(bytes);
    const lane_mask got = simt::ballot(here, p != nullptr);
    if (p != nullptr) {
        write_block(got, p, nullptr, bytes);
    }
    return p;
}

/// Returns how many bytes a block of `have` bytes keeps when it moves to one of `bytes` bytes.
ORCHARD_INLINE std::uint64_t bytes_to_keep(std::uint64_t have, std::uint64_t bytes) {
    const std::uint64_t both = bytes < have || simt::mutation::is(fault::copy_beyond) ? bytes : have;
    return both + (simt::mutation::is(fault::copy_spare) ? 1 : 0) - (simt::mutation::is(fault::copy_short) ? 1 : 0);
}

/// Resizes the block `p` of `heap`; implements `heap_ref::realloc` for every type with that interface. Returns the
/// block's address, or null as `heap_ref::realloc` says. Any lanes call it, in any divergence. Lanes that
/// resize blocks together return together. Otherwise a lane whose block stays would be ahead at its next call, and
/// would copy alone, which takes 32 times as long for a long block.
///
///     bytes <= have, more than half of it     stays
///     bytes <= have, at most half of it       moves to a smaller block; stays if there is none
///     bytes > have                            stays if it is the last block of a chunk, and there is room behind it
///                                             (`extend_block`); else moves; null if there is no memory, and `p` stays
///                                             valid
///
/// `have` is the size that `usable_size` returns. With 640 usable bytes, 321 to 640 B stay, 320 B move.
template <class Heap>
ORCHARD_FN void* realloc_in(const Heap& heap, void* p, std::uint64_t bytes) {
    if (p == nullptr) {
        return heap.malloc(bytes);
    }
    if (bytes == 0) {
        heap.free(p);
        return nullptr;
    }
    heap.view().add(counter::reallocs, 1);
    const std::uint64_t have = heap.usable_size(p);
    // No block of this heap begins at `p`. It is counted as an invalid free, since the call would have freed it.
    if (have == 0) {
        slow::record_invalid_free(*heap.view().self, p);
        return nullptr;
    }
    const lane_mask all = simt::converge();
    // A block of 16 B has no smaller one to move to.
    const bool stays = (bytes <= have && (bytes > have / 2 || have <= 16)) ||
                       (bytes > largest_page_bytes && bytes > have && heap.view().instrumented == 0 &&
                        slow::extend_block(*heap.view().self, p, bytes));
    void* block = stays ? p : heap.malloc(bytes);
    const lane_mask moving = simt::ballot(all, block != p && block != nullptr);
    if (block == nullptr) {
        block = bytes <= have ? p : nullptr;  // `malloc` has recorded the failure in either case
    } else if (block != p) {
        write_block(moving, block, p, bytes_to_keep(have, bytes));
        if (heap.view().instrumented != 0) {
            slow::copy_tag(*heap.view().self, p, block);
        }
        heap.free(p);
        heap.view().add(counter::reallocs_moved, 1);
    }
    simt::sync(all);
    return block;
}

/// Returns log2 of a valid alignment.
ORCHARD_INLINE std::uint32_t log_of_alignment(std::uint64_t alignment) {
    return static_cast<std::uint32_t>(simt::highest_bit(static_cast<std::uint32_t>(alignment)));
}

/// Returns whether `alignment` is valid, a power of two up to 2 MiB; if it is not, records the failure of this request
/// for `bytes`. Each lane calls it for itself.
inline ORCHARD_FN bool check_alignment(const heap_view& h, std::uint64_t alignment, std::uint64_t bytes) {
    const bool right = alignment != 0 && (alignment & (alignment - 1)) == 0 && alignment <= segment_bytes;
    if (!right) {
        slow::record_failure(*h.self, failure_reason::invalid_alignment, bytes, chunk_class);
    }
    return right;
}

}  // namespace device

/// Returns a block, or null after recording the reason. `page_class` is a class whose pages hold the request, or
/// `chunk_class`. Any lanes call it. A lane that `try_hint` served returns without another call; the other lanes of the
/// warp that lack a page (`r.lack`) go on together, so that their groups search in step.
ORCHARD_INLINE void* heap_ref::allocate(std::uint64_t bytes, std::uint32_t page_class, std::uint64_t alignment) const {
    if (page_class == chunk_class) {
        return device::slow::allocate_large(*view_.self, bytes, alignment);
    }
    const device::hint_result r = simt::by_mask(
        simt::converge(), [&](simt::lane_mask here) { return device::try_hint(view_, here, page_class); });
    if (r.mine.page == device::found_page::none) {
        // If the heap is closing, its requests fail without a search.
        return r.closing ? device::slow::fail_page(*view_.self, failure_reason::closing, bytes, page_class)
                         : device::slow::search_page(*view_.self, r.lack, r.group & r.lack, page_class, bytes,
                                                     r.mine.segment);
    }
    return view_.address(r.mine.segment) + std::uint64_t{r.mine.page} * class_bytes(page_class);
}

/// Frees a block; see `heap_ref::free`. The lanes that are converged here free together: `free_page` clears the bits of
/// lanes that meet in one bitmap word by one atomic. Lanes whose pointer is no page in use then go on alone.
ORCHARD_INLINE void heap_ref::free(void* p) const {
    if (p == nullptr) {
        return;
    }
    if (view_.instrumented != 0) {
        // In a hardened heap another block than `p`, which waits for its turn.
        p = device::slow::release_instrumented(*view_.self, p);
        if (p == nullptr) {
            return;
        }
    }
    const simt::lane_mask here = simt::converge();
    // An address outside the heap has no descriptor. 0 describes no slab, so that `free_page` leaves it to
    // `free_other`.
    std::uint64_t d = 0;
    if (view_.owns(p)) {
        // Relaxed: the allocation of this page acquired the descriptor, and the descriptor cannot change while the page
        // is in use.
        d = view_.descriptor(view_.segment_of(p)).load<simt::order::relaxed>();
    }
    if (!simt::by_mask(here, [&](simt::lane_mask mask) { return device::free_page(view_, mask, p, d); })) {
        device::slow::free_other(*view_.self, p);
    }
}

/// A heap whose requests are those of `calloc`.
struct heap_ref::zeroing {
    const heap_ref& heap;

    [[nodiscard]] ORCHARD_INLINE const device::heap_view& view() const { return heap.view(); }
    ORCHARD_INLINE void* malloc(std::uint64_t bytes) const { return heap.malloc_as(bytes, {request_kind::zeroed}); }
};

inline ORCHARD_FN void* heap_ref::calloc(std::uint64_t count, std::uint64_t size) const {
    return device::calloc_from(zeroing{*this}, count, size);
}

/// Returns the size of the page or of the block of a chunk that begins at `p`; 0 if none in use does. The descriptor
/// says which of the two it can be.
inline ORCHARD_FN std::uint64_t heap_ref::usable_size(const void* p) const {
    if (!owns(p)) {
        return 0;
    }
    if (view_.instrumented != 0) {
        return device::slow::instrumented_bytes(*view_.self, p);
    }
    const std::uint32_t segment = view_.segment_of(p);
    // Acquire: pairs with the release that set the descriptor; a chunk's record was written before that.
    const std::uint64_t d = view_.descriptor(segment).load<simt::order::acquire>();
    switch (device::descriptor::kind(d)) {
        case device::segment_kind::slab:
            return device::page_in_use(view_, p, d) ? class_bytes(device::descriptor::page_class(d)) : 0;
        case device::segment_kind::chunk:
        case device::segment_kind::portions: return device::slow::bytes_in_chunk(*view_.self, p);
        default: return 0;
    }
}

inline ORCHARD_FN void* heap_ref::realloc(void* p, std::uint64_t bytes) const {
    return device::realloc_in(*this, p, bytes);
}

/// Returns a page of a class that has the alignment, or a block of a chunk, which can have any alignment up to 2 MiB.
inline ORCHARD_FN void* heap_ref::aligned_alloc(std::uint64_t alignment, std::uint64_t bytes) const {
    if (bytes == 0 || !device::check_alignment(view_, alignment, bytes)) {
        return nullptr;
    }
    if (view_.instrumented != 0) {
        const block_request asked{request_kind::aligned, device::log_of_alignment(alignment)};
        return device::instrumented_malloc(view_, bytes, alignment, asked.word());
    }
    return allocate(bytes, device::class_of_aligned(alignment, bytes), alignment);
}

template <class T, class... Args>
ORCHARD_INLINE T* heap_ref::make(Args&&... args) const {
    static_assert(std::is_object_v<T> && !std::is_array_v<T>, "make<T> makes one object; T is no array, no reference");
    static_assert(alignof(T) <= segment_bytes, "no block is aligned to more than 2 MiB");
    void* const p = alignof(T) <= 16 ? malloc(sizeof(T)) : aligned_alloc(alignof(T), sizeof(T));
    return p == nullptr ? nullptr : ::new (p) T(static_cast<Args&&>(args)...);
}

template <class T>
ORCHARD_INLINE void heap_ref::destroy(T* p) const {
    static_assert(std::is_object_v<T>, "destroy needs the type of the object; free takes any pointer");
    if (p != nullptr) {
        p->~T();
        free(const_cast<std::remove_cv_t<T>*>(p));
    }
}

}  // namespace orchard

ORCHARD_INLINE void* operator new(std::size_t bytes, const orchard::heap_ref& heap) noexcept {
    return heap.malloc(bytes);
}
ORCHARD_INLINE void* operator new(std::size_t bytes, std::align_val_t alignment,
                                  const orchard::heap_ref& heap) noexcept {
    return heap.aligned_alloc(static_cast<std::size_t>(alignment), bytes);
}
ORCHARD_INLINE void operator delete(void* p, const orchard::heap_ref& heap) noexcept { heap.free(p); }
ORCHARD_INLINE void operator delete(void* p, std::align_val_t, const orchard::heap_ref& heap) noexcept { heap.free(p); }
