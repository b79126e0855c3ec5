// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `ouroboros_ref`: malloc and free of Ouroboros, for kernels.
///
///     malloc(bytes)
///       the first instance whose chunks are large enough; the class of the smallest page that is
///         variants with pages    page_heap::allocate
///         variants with chunks   chunk_heap::allocate
///     free(p)
///       the instance in which `p` lies; its chunk's state has the class

#include <cstdint>
#include <type_traits>

#include "device/published/device_allocator.cuh"
#include "device/published/ouroboros/chunk_heap.cuh"
#include "device/published/ouroboros/page_heap.cuh"
#include "device/published/ouroboros/variant.cuh"

namespace orchard::device::ouroboros {

/// The most instances of a manager.
inline constexpr std::uint32_t most_instances = 4;

/// The view of an `ouroboros` in kernels; trivially copyable. Pass it by value. It is valid until the owner ends, or is
/// initialised with other settings.
template <variant V>
class ouroboros_ref {
public:
    using heap = std::conditional_t<holds_chunks(V), chunk_heap<kind_of(V)>, page_heap<kind_of(V)>>;

    ouroboros_ref() = default;
    /// @param instances  `count` views in device memory, of chunks of increasing sizes
    ouroboros_ref(const instance_view* instances, std::uint32_t count) : instances_{instances}, count_{count} {}

    /// Returns a block of at least `bytes`, aligned to 16 B: a page of the next power of two. Null for 0 bytes, for
    /// more than the largest chunk, and if the instance for this size has no page and no chunk left. Near that end,
    /// null may also come while other lanes take chunks or give them back. Any thread, in any divergence. Lanes that
    /// ask together for one class share atomics; in the paper each acts for itself.
    [[nodiscard]] ORCHARD_FN void* malloc(std::uint64_t bytes) const {
        if (bytes == 0) {
            return nullptr;
        }
        for (std::uint32_t i = 0; i < count_; ++i) {
            const instance_view& v = instances_[i];
            if (bytes <= std::uint64_t{1} << v.chunk_log) {
                return heap(v).allocate(class_for(v, static_cast<std::uint32_t>(bytes)));
            }
        }
        return nullptr;
    }

    /// Frees a block. Does nothing for null, and for a pointer at which no page of a chunk begins. Variants with chunks
    /// also ignore a block that is not in use; variants with pages cannot tell. Any thread, in any divergence.
    ORCHARD_FN void free(void* p) const {
        for (std::uint32_t i = 0; i < count_; ++i) {
            if (instances_[i].owns(p)) {
                heap(instances_[i]).free(p);
                return;
            }
        }
    }

    /// Returns the number of instances.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t instances() const { return count_; }
    /// Returns the view of an instance. Valid in device memory alone.
    [[nodiscard]] ORCHARD_INLINE const instance_view& instance(std::uint32_t i) const { return instances_[i]; }

private:
    /// Returns the class of the smallest pages that have `bytes`, which is at least 1.
    static ORCHARD_INLINE std::uint32_t class_for(const instance_view& v, std::uint32_t bytes) {
        const std::uint32_t log = bytes == 1 ? 0 : static_cast<std::uint32_t>(simt::highest_bit(bytes - 1)) + 1;
        return log <= v.smallest_log ? 0 : log - v.smallest_log;
    }

    const instance_view* instances_ = nullptr;
    std::uint32_t count_ = 0;
};

/// Adds the first chunk to each queue that lies in chunks. One thread for each class; the memory is zero but for the
/// pool's counts.
template <variant V>
struct start_queues {
    const instance_view* view;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        if constexpr (kind_of(V) != queue_kind::static_ring) {
            if (at.global_thread() < view->class_count) {
                storage_of<kind_of(V)>(*view, static_cast<std::uint32_t>(at.global_thread())).start();
            }
        } else {
            (void)at;
        }
    }
};

static_assert(device_allocator<ouroboros_ref<variant::s_pages>> && device_allocator<ouroboros_ref<variant::s_chunks>>);

}  // namespace orchard::device::ouroboros
