// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `page_heap`: an instance whose queues hold pages (section 4.1 and Alg. 3 of the paper).
///
///     allocate   takes a page from the semaphore -> takes a page from the queue
///                  no page: takes a chunk from the pool, puts all its pages into the queue, then signals them
///     free       puts the page into the queue, then signals it
///
/// A chunk keeps its class: its free pages are in the queue, from which they cannot be removed. In print, pages are
/// signalled before they are in the queue, and also if the pool has no chunk: lanes then wait for ever. A page whose
/// queue is full is lost; here, a class gets no more chunks than its queue has room for.

#include <cstdint>

#include "device/published/ouroboros/array_hierarchy.cuh"
#include "device/published/ouroboros/linked_chunks.cuh"
#include "device/published/ouroboros/static_ring.cuh"
#include "device/published/ouroboros/variant.cuh"

namespace orchard::device::ouroboros {

/// Returns the storage of a class's queue, of the kind `K`.
template <queue_kind K>
ORCHARD_INLINE auto storage_of(const instance_view& v, std::uint32_t page_class) {
    if constexpr (K == queue_kind::static_ring) {
        return static_ring(v.rings + v.layout[page_class].offset, v.layout[page_class].log);
    } else if constexpr (K == queue_kind::array_hierarchy) {
        return array_hierarchy(v, page_class);
    } else {
        return linked_chunks(v, page_class);
    }
}

template <queue_kind K>
class page_heap {
public:
    ORCHARD_INLINE explicit page_heap(const instance_view& v) : v_{&v} {}

    /// Returns a page of the class; null if there is neither a page nor a chunk. Any lanes, in any divergence; those
    /// that come together for one class share the semaphore's atomic. Cost: that, and what the queue costs, if pages
    /// are there.
    ORCHARD_FN void* allocate(std::uint32_t page_class) const {
        const std::uint32_t pages = v_->pages(page_class);
        bulk_semaphore& semaphore = v_->classes[page_class].pages;
        const simt::lane_mask group = simt::match(simt::converge(), reinterpret_cast<std::uintptr_t>(&semaphore));
        if (!wait_together(semaphore, group, pages, [&] { return add_chunk(page_class); })) {
            return nullptr;
        }
        const std::uint32_t page = queue(page_class).take() - 1;
        return v_->chunk_at(page >> page_bits()) +
               (std::uint64_t{page & ((1u << page_bits()) - 1)} << v_->page_log(page_class));
    }

    /// Frees the page at `p`, which lies in the instance. Does nothing if no page begins there. Any lane, alone.
    ORCHARD_FN void free(const void* p) const {
        const std::uint64_t offset = v_->offset_of(p);
        const auto index = static_cast<std::uint32_t>(offset >> v_->chunk_log);
        // Relaxed: a lane that has a page of the chunk is ordered behind the lane that set the state.
        const std::uint64_t s = v_->headers[index].state.template load<simt::order::relaxed>();
        const std::uint32_t c = chunk_state::page_class(s);
        const std::uint64_t within = offset & ((std::uint64_t{1} << v_->chunk_log) - 1);
        const auto page = static_cast<std::uint32_t>(within >> v_->page_log(c));
        if (chunk_state::role(s) != chunk_role::pages || within != std::uint64_t{page} << v_->page_log(c)) {
            return;
        }
        queue(c).put(value_of(index, page));
        v_->classes[c].pages.signal(1);
    }

private:
    ORCHARD_INLINE counted_queue<decltype(storage_of<K>(instance_view(), 0))> queue(std::uint32_t page_class) const {
        return {v_->classes[page_class].queue, storage_of<K>(*v_, page_class)};
    }
    [[nodiscard]] ORCHARD_INLINE std::uint32_t page_bits() const { return v_->chunk_log - v_->smallest_log; }
    [[nodiscard]] ORCHARD_INLINE std::uint32_t value_of(std::uint32_t index, std::uint32_t page) const {
        return (index << page_bits() | page) + 1;
    }

    /// Adds a chunk to the class; false if there is none, or if the queue has no room for its pages.
    ORCHARD_NOINLINE bool add_chunk(std::uint32_t page_class) const {
        if (!bind(page_class)) {
            return false;
        }
        const std::uint32_t pages = v_->pages(page_class);
        const std::uint32_t index = chunk_pool(*v_).take();
        // Relaxed: the puts release it.
        v_->headers[index].state.template store<simt::order::relaxed>(chunk_state::pages(0, page_class, 0));
        auto q = queue(page_class);
        const std::uint64_t first = q.take_places(pages);
        for (std::uint32_t page = 0; page < pages; ++page) {
            q.put_at(first + page, value_of(index, page));
        }
        v_->classes[page_class].pages.signal_chunk(pages);
        return true;
    }
    /// Claims a chunk of the pool for the class. A queue in chunks may need one more chunk for each so many chunks of
    /// pages, which is reserved now.
    ORCHARD_INLINE bool bind(std::uint32_t page_class) const {
        chunk_pool pool(*v_);
        // A place has 4 B, a page at least 16 B: the places of a chunk suffice for the pages of 4 chunks or more.
        const std::uint32_t chunks_log = v_->places_log() - (v_->chunk_log - v_->page_log(page_class));
        if (K == queue_kind::static_ring && v_->layout[page_class].most_bound >= v_->chunks) {
            return pool.claim(0);
        }
        auto& bound = v_->classes[page_class].bound;
        std::uint32_t have = bound.template load<simt::order::relaxed>();
        for (;;) {
            const bool full_chunk = (have & ((1u << chunks_log) - 1)) == 0;
            const std::uint32_t more = K != queue_kind::static_ring && full_chunk ? 1 : 0;
            if (have >= v_->layout[page_class].most_bound || !pool.claim(more)) {
                return false;
            }
            // Relaxed: the numbers alone matter.
            if (bound.template compare_exchange<simt::order::relaxed>(have, have + 1)) {
                return true;
            }
            pool.unclaim(more);
        }
    }

    const instance_view* v_;
};

}  // namespace orchard::device::ouroboros
