// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/arrays/lane_array.cuh"
#include "device/small/free_page.cuh"
#include "device/small/small_path.cuh"

namespace orchard {

/// The device's view of a heap: what kernels call. Trivially copyable; pass it by value. It stays valid while the
/// `heap` that it came from lives.
///
/// Any thread of any kernel may call anything, in any divergence: lanes that are there together are served together.
/// Nothing here traps, prints or waits without a deadline.
///
///     malloc, small: try_hint                  small/small_path.cuh   one atomic at the lane's hint; mostly all
///              |       claim_hint              small/hint.cuh         half a word of a slab's bitmap for 32 lanes
///              +-- slow::search_page           small/search.cuh       probes, reservations of fresh pages, scans
///                    open_slab                 small/slab_growth.cuh  a slab more, from a segment
///                      acquire                 reclaim/acquire.cuh    the segment: cached, or asked of the host
///                      await_reclaim           reclaim/reclaim.cuh    where none is to be had
///     malloc, large: slow::allocate_large      large/large_path.cuh   lanes together, one warp chunk
///                      allocate_chunk          large/chunk_path.cuh   its shape, its record
///                        acquire               reclaim/acquire.cuh    whole segments and a tail
///     free:          free_page                 small/free_page.cuh    one atomic for each bitmap word
///                    slow::free_other          free_alone.cuh         a block of a chunk, or what was not allocated
///
/// What stands behind `slow::` is compiled once for the host, in slow_paths.cpp; docs/walkthrough.md tells all of it.
class heap_ref {
public:
    heap_ref() = default;
    explicit heap_ref(const device::heap_view& view) : view_{view} {}

    /// `bytes` bytes, aligned to 16 B at least (powers of two up to 512 KiB: to themselves; above: to 256 B).
    ///
    /// `malloc(0)` is null, and no failure. Null otherwise means failure, with a reason that the host gets
    /// (`heap::on_failure`, `last_failure`). What the memory's last owner wrote is ordered before what the caller
    /// writes. Cost: see `try_hint`, `search_page` (up to 512 KiB) and `allocate_chunk`.
    ORCHARD_INLINE void* malloc(std::uint64_t bytes) const {
        if (bytes == 0) {
            return nullptr;
        }
        const std::uint32_t page_class =
            bytes <= largest_page_bytes ? class_of(static_cast<std::uint32_t>(bytes)) : chunk_class;
        return allocate(bytes, page_class, 16);
    }

    /// Gives back what this heap's `malloc`, `calloc`, `realloc` or `aligned_alloc` returned; from any thread of any
    /// kernel. Null is nothing. Never waits, never fails: what was not allocated is counted (`invalid_frees`, and the
    /// first one's address) and otherwise ignored. Cost: one load, one atomic for each bitmap word of the group.
    ORCHARD_INLINE void free(void* p) const;

    /// `count` x `size` bytes, all zero. Null where the product overflows. Cost: `malloc` and one store for each 16 B.
    ORCHARD_FN void* calloc(std::uint64_t count, std::uint64_t size) const;

    /// The block `p` with room for `bytes`: at the same place where that is possible, else moved. Null keeps `p`.
    /// `realloc(nullptr, n)` is `malloc(n)`; `realloc(p, 0)` frees. Cost: `malloc`, a copy by one lane, `free`.
    ORCHARD_FN void* realloc(void* p, std::uint64_t bytes) const;

    /// `bytes` bytes aligned to `alignment`, a power of two up to 2 MiB. Null with `invalid_alignment` otherwise.
    ORCHARD_FN void* aligned_alloc(std::uint64_t alignment, std::uint64_t bytes) const;

    /// An array of `count` elements for each lane that comes here, in the layout `how`; `automatic` is the heap's
    /// option `layout`, and docs/layouts.md says what it does where that is `automatic` too. Lanes that are there
    /// together and want the same layout get theirs in one warp chunk, whatever their counts: interleaved with those
    /// lanes whose sizes are alike. Any lanes, in any divergence; a lane alone gets a linear array.
    ///
    /// What is reserved is at most a quarter more than the lanes ask for, and then rounded up to 64 KiB; a lane counts
    /// as whole tiles, or as whole OS pages where the tile is larger. `data()` of the array is not null, except where a
    /// tile above 4 KiB left a rest, which lies in tail rows. A tile smaller than `T` becomes as large as that.
    ///
    /// 0 elements are an empty array, and no failure. An empty array otherwise means failure, recorded as `malloc`'s.
    /// Free it with `free_array`; to `free`, `realloc` and `usable_size` an interleaved array is no block.
    /// `T`: `sizeof(T)` a power of two, at most 64 KiB. Elements are not constructed.
    /// Cost: as `malloc`, of one chunk for all lanes; about four collectives for each sub-array (lanes of one size).
    template <class T>
    ORCHARD_FN lane_array<T> allocate_array(std::uint64_t count, layout how = layout::automatic()) const;

    /// Gives back an array that `allocate_array` returned; from any thread of any kernel, alone or with others. An
    /// empty one is nothing. Never waits, never fails: what is no such array is counted as in `free`, and changes
    /// nothing. The memory is free when the last array of the warp chunk is. Cost: up to eighteen loads, one atomic.
    template <class T>
    ORCHARD_FN void free_array(const lane_array<T>& a) const;

    /// Bytes that may be used at `p`, which this heap returned; 0 where it did not. Cost: one to seven loads.
    [[nodiscard]] ORCHARD_FN std::uint64_t usable_size(const void* p) const;

    /// Whether `p` points into this heap's range. No memory access.
    [[nodiscard]] ORCHARD_INLINE bool owns(const void* p) const { return p != nullptr && view_.owns(p); }

    /// What the library's own kernels work on.
    [[nodiscard]] ORCHARD_INLINE const device::heap_view& view() const { return view_; }

private:
    ORCHARD_INLINE void* allocate(std::uint64_t bytes, std::uint32_t page_class, std::uint64_t alignment) const;

    device::heap_view view_;
};

static_assert(std::is_trivially_copyable_v<heap_ref>);

}  // namespace orchard

#include "device/arrays/heap_arrays_impl.cuh"
#include "device/heap_ref_impl.cuh"
