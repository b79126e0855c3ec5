// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `heap_ref`, the interface of a heap in kernels.

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

#include "device/arrays/lane_array.cuh"
#include "device/guarded_heap.cuh"
#include "device/small/free_page.cuh"
#include "device/small/small_path.cuh"

namespace orchard {

/// `heap_ref` is the device's view of a heap: the object that kernels call. It is trivially copyable; pass it by value.
/// A copy stays valid while the `heap` that it came from lives.
///
/// Any thread of any kernel may call any function, in any divergence. Lanes that are converged at a call are served
/// together. No function traps, prints, or waits without a deadline.
///
/// The main calls and the files that implement them:
///
///     malloc, small: try_hint                  small/small_path.cuh   usually all: one atomic at the lanes' hint, on
///              |       claim_hint              small/hint.cuh         half a word of a slab's bitmap for 32 lanes
///              +-- slow::search_page           small/search.cuh       probes, reservations of fresh pages, scans
///                    open_wanted               small/slab_growth.cuh  creates missing slabs from segments
///                      acquire                 reclaim/acquire.cuh    the segment: from the segment cache or the host
///                      await_reclaim           reclaim/reclaim.cuh    if there is none: waits for a reclaim
///     malloc, large: slow::allocate_large      large/large_path.cuh   converged lanes share one warp chunk
///                      allocate_chunk          large/chunk_path.cuh   its shape and its record
///                        acquire               reclaim/acquire.cuh    whole segments and a tail
///     free:          free_page                 small/free_page.cuh    one atomic for each bitmap word
///                    slow::free_other          free_other.cuh         a block of a chunk, or an invalid pointer
///
/// A heap with the option `hardened`, or that reports its blocks, goes through device/guarded_heap.cuh instead.
///
/// The functions of namespace `slow` are compiled once where that is possible (slow_paths.cuh). docs/walkthrough.md
/// lists all steps of each call.
class heap_ref {
public:
    heap_ref() = default;
    ORCHARD_INLINE explicit heap_ref(const device::heap_view& view) : view_{view} {}

    /// Returns a block of `bytes` bytes, or null. The block is aligned to 16 B at least. If `bytes` is a power of two
    /// up to 512 KiB, the block is aligned to `bytes`; if it is larger than 512 KiB, to 256 B.
    ///
    /// `malloc(0)` returns null and is no failure. Any other null is a failure, whose reason the host gets
    /// (`heap::on_failure`, `last_failure`). Writes of the memory's last owner are ordered before writes of the caller.
    /// Cost: see `try_hint` and `search_page` (up to 512 KiB), `allocate_chunk` (above).
    ORCHARD_INLINE void* malloc(std::uint64_t bytes) const { return malloc_as(bytes, {}); }

    /// The same, with a tag that the program chooses, for example a number for each kind of object, or `ORCHARD_SITE`:
    /// a hardened heap's report of a fault of this block names it (`block_fault::tag`), and traces and `heap::sites`
    /// count by it. Of a tag above `max_block_tag` the lower 22 bits count. `realloc` keeps it. Other heaps ignore it.
    /// Cost: `malloc`; in a hardened heap some ten loads and three stores more, in one that reports blocks a second
    /// report.
    ORCHARD_INLINE void* malloc(std::uint64_t bytes, std::uint32_t tag) const {
        void* const p = malloc(bytes);
        if (view_.instrumented != 0 && p != nullptr) {
            device::slow::tag_instrumented(*view_.self, p, tag & max_block_tag);
        }
        return p;
    }

    /// Frees a block that this heap's `malloc`, `calloc`, `realloc` or `aligned_alloc` returned; null is allowed. Any
    /// thread of any kernel may call it. It never waits and never fails: an invalid pointer is counted
    /// (`invalid_frees`, with the first such address) and otherwise ignored. Cost: one load, and one atomic for each
    /// bitmap word that the group's pages lie in.
    ORCHARD_INLINE void free(void* p) const;

    /// Returns `count` x `size` bytes, all zero, or null if the product overflows or `malloc` fails. Cost: `malloc`,
    /// and one store for each 16 B.
    ORCHARD_FN void* calloc(std::uint64_t count, std::uint64_t size) const;

    /// Resizes the block `p` to at least `bytes` bytes and returns its address: `p` itself if the block need not move,
    /// a new address if its contents were copied, or null if no memory was found; `p` then stays valid.
    /// `realloc(nullptr, n)` is `malloc(n)`. `realloc(p, 0)` frees `p` and returns null. A large block grows in
    /// place if it is the last of a warp chunk of whole segments, as that of a lane alone often is, and the segments
    /// behind are free. Cost: `malloc`, a copy by the lanes that are here, `free`; for a large block that may grow in
    /// place also a round trip to the host. Lanes that resize blocks together wait for each other.
    ORCHARD_FN void* realloc(void* p, std::uint64_t bytes) const;

    /// Returns a block of `bytes` bytes aligned to `alignment`, a power of two up to 2 MiB. Any other alignment returns
    /// null with the reason `invalid_alignment`. Cost: as `malloc`.
    ORCHARD_FN void* aligned_alloc(std::uint64_t alignment, std::uint64_t bytes) const;

    /// Returns a new object of type `T`, constructed from `args`, or null if there is no memory; nothing is constructed
    /// then. `T` is aligned to at most 2 MiB, and is no array. The constructor must not throw: the block would be lost.
    /// Cost: `malloc`, or `aligned_alloc` if `T` is aligned to more than 16 B, and the constructor.
    template <class T, class... Args>
    [[nodiscard]] ORCHARD_INLINE T* make(Args&&... args) const;

    /// Destroys the object `p` and frees its memory; null is allowed. `p` is what `make<T>` or `new (heap) T` returned,
    /// or a pointer to its base class, if the base class has a virtual destructor and lies at the object's beginning.
    /// A destructor that itself frees in a heap is declared `noexcept(false)` if it is to run on the emulated device,
    /// whose lanes leave a launch that fails by an exception. Cost: the destructor, and `free`.
    template <class T>
    ORCHARD_INLINE void destroy(T* p) const;

    /// Returns an array of `count` elements for each calling lane, in the layout `how`. `layout::automatic()` stands
    /// for the heap's option `layout`; docs/layouts.md describes the choice if that option is `automatic` too.
    /// Converged lanes that want the same layout get their arrays in one warp chunk, whatever their counts. With tiles
    /// of at most 4 KiB, arrays of similar size are interleaved with each other; with larger tiles, all are. Any lanes
    /// may call it, in any divergence; a single lane gets a linear array, and with tiles above 4 KiB so does a lane
    /// that asks for less than that.
    ///
    /// The memory reserved exceeds the request by at most a quarter, and is then rounded up to 64 KiB. For this bound,
    /// a lane's request counts as whole tiles, or as whole OS pages if the tile is larger. `data()` of the array is not
    /// null, unless a tile is above 4 KiB (docs/layouts.md says when it is null then). A tile smaller than `T` is
    /// enlarged to the size of `T`.
    ///
    /// A count of 0 gives an empty array and is no failure. Any other empty array is a failure, recorded as `malloc`
    /// does. Free the array with `free_array`: `free`, `realloc` and `usable_size` do not accept an interleaved array.
    /// `T`: `sizeof(T)` is a power of two of at most 64 KiB. Elements are not constructed. Cost: as `malloc`, for one
    /// chunk that serves all lanes; about four collectives for each sub-array (lanes of one size).
    template <class T>
    ORCHARD_FN lane_array<T> allocate_array(std::uint64_t count, layout how = layout::automatic()) const;

    /// The same, and the UVM driver is advised `what` about the arrays, in place of the heap's option `advice`: before
    /// the call returns, and until the memory is back at the host, where the option's advice is given again. Lanes
    /// share a chunk with lanes that want the same layout and advice.
    ///
    /// The advice is given to a chunk that takes 2 MiB or more, for all lanes together; its length is then rounded up
    /// to whole VA blocks of 2 MiB, since a VA block has one advice. It is ignored for smaller chunks; in heaps whose
    /// backing is not managed; for linear arrays of a heap that is hardened or reports its blocks; and after a failure
    /// for lack of memory, if the second attempt finds memory on the device. Memory that was freed and waits in the
    /// segment cache keeps its advice and may serve another request with it; with the option `cached_segments` = 0 the
    /// next request returns it to the host.
    ///
    /// Cost: a request to the host for each chunk, also if the segment cache has memory, and a few calls of the driver,
    /// which the growth thread makes. It waits for these, at most until the host counts them as blocked
    /// (`request_timeout`).
    template <class T>
    ORCHARD_FN lane_array<T> allocate_array(std::uint64_t count, layout how, managed_advice what) const;

    /// Frees an array that `allocate_array` returned; an empty array is allowed. Any thread of any kernel may call it,
    /// alone or with others. It never waits and never fails: any other argument is counted as in `free` and changes
    /// nothing. The memory becomes free with the last array of the warp chunk. Cost: up to fourteen loads, one atomic.
    template <class T>
    ORCHARD_FN void free_array(const lane_array<T>& a) const;

    /// Returns the number of bytes that may be used at `p`, a block of this heap; 0 if `p` is no such block. Cost: one
    /// to seven loads.
    [[nodiscard]] ORCHARD_FN std::uint64_t usable_size(const void* p) const;

    /// Counts an access to the memory at `p`, so that `heap::migrate` knows which memory is in use. A kernel calls it
    /// for a sample of its accesses, as `sampled_array` does. Does nothing if no memory of this heap moves (option
    /// `move_unit`), or for an address outside the heap. Cost: one relaxed atomic without a result.
    ORCHARD_INLINE void note_access(const void* p) const {
        if (view_.samples != nullptr && view_.owns(p)) {
            (void)view_.samples[view_.segment_of(p)].template fetch_add<simt::order::relaxed>(1u);
        }
    }

    /// Returns whether `p` points into this heap's range of addresses. No memory access.
    [[nodiscard]] ORCHARD_INLINE bool owns(const void* p) const { return p != nullptr && view_.owns(p); }

    /// Returns the view of the heap that the library's own kernels work on.
    [[nodiscard]] ORCHARD_INLINE const device::heap_view& view() const { return view_; }

private:
    struct zeroing;

    /// Returns what `malloc` returns; an instrumented heap reports the request as `asked`.
    ORCHARD_INLINE void* malloc_as(std::uint64_t bytes, block_request asked) const {
        if (bytes == 0) {
            return nullptr;
        }
        if (view_.instrumented != 0) {
            return device::instrumented_malloc(view_, bytes, 16, asked.word());
        }
        const std::uint32_t spare = simt::mutation::is(simt::mutation::fault::page_alignment) ? 1 : 0;
        const std::uint32_t page_class =
            bytes <= largest_page_bytes ? class_of(static_cast<std::uint32_t>(bytes) + spare) : chunk_class;
        return allocate(bytes, page_class, 16);
    }
    ORCHARD_INLINE void* allocate(std::uint64_t bytes, std::uint32_t page_class, std::uint64_t alignment) const;

    device::heap_view view_;
};

static_assert(std::is_trivially_copyable_v<heap_ref>);

}  // namespace orchard

/// `new (heap) T(...)` returns a new object in a heap, or null without constructing one if there is no memory; as
/// `heap_ref::make`. The object is destroyed by `heap_ref::destroy`: `delete` would free it in CUDA's own heap.
/// `new (heap) T[n]` is not available, since nothing would know how many elements to destroy.
///
/// The operator must be `noexcept`, or the compiler would not look for null. Therefore, if a launch on the emulated
/// device fails while a lane waits in it, the process ends (device/simt/launch.cuh). `make` has no such limit.
ORCHARD_INLINE void* operator new(std::size_t bytes, const orchard::heap_ref& heap) noexcept;
ORCHARD_INLINE void* operator new(std::size_t bytes, std::align_val_t alignment,
                                  const orchard::heap_ref& heap) noexcept;
void* operator new[](std::size_t bytes, const orchard::heap_ref& heap) = delete;
void* operator new[](std::size_t bytes, std::align_val_t alignment, const orchard::heap_ref& heap) = delete;
/// Free the memory if a constructor throws, which only host code can do.
ORCHARD_INLINE void operator delete(void* p, const orchard::heap_ref& heap) noexcept;
ORCHARD_INLINE void operator delete(void* p, std::align_val_t alignment, const orchard::heap_ref& heap) noexcept;

#include "device/heap_arrays_impl.cuh"
#include "device/heap_ref_impl.cuh"
