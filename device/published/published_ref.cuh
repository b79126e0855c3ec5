// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The algorithms of M. Pham et al. (ICS 2022) as they were published, as allocators of their own. They work on the
/// segments of a heap that was created for one of them (runtime/heap/published_heap.hpp). They have the interface of
/// `heap_ref`, so that kernels can take either type as a template argument.

#include "device/heap_ref.cuh"
#include "device/published/allocate.cuh"

namespace orchard {

/// The device's view of a heap whose small requests a published algorithm serves. Larger requests are served as in
/// `heap_ref`. Trivially copyable; pass it by value.
///
/// @tparam Policy  the algorithm (device/published/chosen_policy.cuh); most users take `published_ref`, below
template <class Policy>
class basic_published_ref {
public:
    basic_published_ref() = default;
    explicit basic_published_ref(const device::published_view& view) : plain_{view} {}

    // As in `heap_ref`: any thread of any kernel, in any divergence; the same results, and errors recorded for the
    // host. The alignment is that of `heap_ref`, except that with `rw_malloc` a block up to 512 KiB is aligned to its
    // unit, and to 16 B at least. Cost: see `allocate_published`.
    ORCHARD_FN void* malloc(std::uint64_t bytes) const {
        if (bytes == 0) {
            return nullptr;
        }
        return allocate(bytes, device::class_of_aligned(1, bytes), 16);
    }
    // As in `heap_ref`. With `rw_malloc`, a block has marks besides its used bits; with all other policies it is a
    // page, which `heap_ref` frees.
    ORCHARD_FN void free(void* p) const {
        if (p != nullptr && Policy::of(published()) == device::page_policy::rw_malloc) {
            device::free_by_units(published(), p);
        } else {
            plain_.free(p);
        }
    }
    // Built on `malloc` and `free` above by the same functions as those of `heap_ref` (heap_ref_impl.cuh).
    ORCHARD_FN void* calloc(std::uint64_t count, std::uint64_t size) const {
        return device::calloc_from(*this, count, size);
    }
    ORCHARD_FN void* realloc(void* p, std::uint64_t bytes) const { return device::realloc_in(*this, p, bytes); }
    ORCHARD_FN void* aligned_alloc(std::uint64_t alignment, std::uint64_t bytes) const {
        if (bytes == 0 || !device::check_alignment(view(), alignment, bytes)) {
            return nullptr;
        }
        return allocate(bytes, device::class_of_aligned(alignment, bytes), alignment);
    }
    // Interleaved arrays lie in warp chunks, which no published algorithm serves; only linear ones come from `malloc`
    // above.
    template <class T>
    ORCHARD_FN lane_array<T> allocate_array(std::uint64_t count, layout how = layout::automatic()) const {
        return device::allocate_array_from<T>(*this, count, how);
    }
    template <class T>
    ORCHARD_FN void free_array(const lane_array<T>& a) const {
        device::free_array_of(*this, a);
    }
    /// Returns the bytes that may be used at `p`, 0 if `p` is no block of this heap. With `rw_malloc`, the end mark
    /// tells the length of a block in a slab.
    [[nodiscard]] ORCHARD_FN std::uint64_t usable_size(const void* p) const {
        if (Policy::of(published()) == device::page_policy::rw_malloc && device::is_in_slab(published(), p)) {
            return device::block_bytes(published(), p);
        }
        return plain_.usable_size(p);
    }
    [[nodiscard]] ORCHARD_INLINE bool owns(const void* p) const { return plain_.owns(p); }

    /// Returns a page of the smallest class that holds `bytes`, 1 to 512 KiB (GETPAGE in the paper). More than that
    /// returns null with the reason `too_large`. Otherwise as `malloc`.
    ORCHARD_FN void* get_page(std::uint32_t bytes) const {
        if (bytes > largest_page_bytes) {
            device::slow::record_failure(*view().self, failure_reason::too_large, bytes, chunk_class);
            return nullptr;
        }
        return malloc(bytes);
    }
    /// Frees a page that `get_page` returned (FREEPAGE in the paper). As `free`.
    ORCHARD_FN void free_page(void* p) const { free(p); }

    /// Returns the view of the heap that the library's own kernels work on.
    [[nodiscard]] ORCHARD_INLINE const device::heap_view& view() const { return plain_.view(); }

private:
    /// Returns the view in memory.
    [[nodiscard]] ORCHARD_INLINE const device::published_view& published() const {
        return static_cast<const device::published_view&>(*view().self);
    }
    /// Returns a block, or null after recording the reason. Requests above the largest page are chunks, as in
    /// `heap_ref`.
    ORCHARD_FN void* allocate(std::uint64_t bytes, std::uint32_t page_class, std::uint64_t alignment) const {
        if (page_class == chunk_class) {
            return device::slow::allocate_large(*view().self, bytes, alignment);
        }
        failure_reason why = failure_reason::none;
        void* p = device::allocate_published<Policy>(published(), bytes, alignment, page_class, &why);
        if (p == nullptr) {
            device::slow::record_failure(*view().self, why, bytes, page_class);
        }
        return p;
    }

    heap_ref plain_;
};

/// The view of a heap with one algorithm. Kernels that use it contain only that algorithm.
template <device::page_policy P>
using published_ref = basic_published_ref<device::fixed_policy<P>>;

}  // namespace orchard
