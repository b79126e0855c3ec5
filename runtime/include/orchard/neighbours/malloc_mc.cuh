// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Orchard for users of mallocMC (PIConGPU among them): a creation policy and two reserve pool policies.
/// docs/interop.md has the lines to write. Needs the headers of mallocMC and alpaka, and alpaka's CUDA accelerator.
///
///     mallocMC::Allocator                   here
///       constructor, destructiveResize
///         ReservePoolPolicy::setMemPool       makes a heap, and keeps it
///         CreationPolicy::initHeap            writes the heap's view into the allocator's object on the device
///       malloc, free in kernels               heap_ref::malloc, heap_ref::free
///       getAvailableSlots                     heap::trim, then free_blocks of its counters
///       destructor, destructiveResize
///         ReservePoolPolicy::resetMemPool     ends the heap
///
/// The two belong together: mallocMC has no function that ends what a creation policy has made.

#include <alpaka/alpaka.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <orchard/neighbours/memory_resource.hpp>

#include "device/heap_ref.cuh"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/heap.hpp"
#include "runtime/heap/with_device.hpp"
#include "runtime/options/options.hpp"
#include "runtime/statistics/free_blocks.hpp"

namespace orchard::malloc_mc {

namespace detail {

/// The heaps of the reserve pools of this process, and the allocators that use them. Any thread may call.
class heap_table {
public:
    static heap_table& all() {
        static auto* const table = new heap_table;  // never destroyed: pools may be static objects
        return *table;
    }

    /// Enters a heap, whose memory is reported as `bytes` bytes at `pool`.
    void add(heap* of, const void* pool, std::size_t bytes) {
        const std::lock_guard hold(mutex_);
        rows_.push_back({of, static_cast<const char*>(pool), bytes, nullptr});
    }
    void remove(const heap* of) {
        const std::lock_guard hold(mutex_);
        std::erase_if(rows_, [of](const row& r) { return r.of == of; });
    }
    /// Notes that `allocator` uses the heap whose memory has the byte `pool`, and returns the heap; null if there is
    /// none. An alignment policy may have moved the pool's beginning.
    heap* bind(const void* pool, const void* allocator) {
        const std::lock_guard hold(mutex_);
        for (row& r : rows_) {
            if (pool >= r.pool && pool < r.pool + r.bytes) {
                r.allocator = allocator;
                return r.of;
            }
        }
        return nullptr;
    }
    /// Returns the heap that `allocator` uses, or null.
    heap* of(const void* allocator) {
        const std::lock_guard hold(mutex_);
        const auto found =
            std::find_if(rows_.begin(), rows_.end(), [allocator](const row& r) { return r.allocator == allocator; });
        return found != rows_.end() ? found->of : nullptr;
    }

private:
    struct row {
        heap* of;
        const char* pool;
        std::size_t bytes;
        const void* allocator;  ///< the device address of the allocator's object; null before `bind`
    };

    std::mutex mutex_;
    std::vector<row> rows_;
};

/// Device memory of one GPU, as a resource.
struct device_memory_source {
    simt::executor on;

    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t /*alignment*/) const {
        const absl::StatusOr<void*> memory = allocate_device_memory(on, bytes);
        if (!memory.ok()) {
            throw std::runtime_error(std::string(memory.status().message()));
        }
        return *memory;
    }
    void deallocate(void* memory, std::size_t /*bytes*/, std::size_t /*alignment*/) const noexcept {
        free_device_memory(on, memory);
    }
};

/// Returns the value, or throws std::runtime_error with the status's text: mallocMC reports errors by exceptions.
template <class T>
T value_or_throw(absl::StatusOr<T> made) {
    if (!made.ok()) {
        throw std::runtime_error("orchard: " + made.status().ToString());
    }
    return *std::move(made);
}

/// Returns the options of the variables ORCHARD_<NAME>, for a heap on a GPU.
inline options pool_options() {
    options values = value_or_throw(options::from_environment());
    values.device = device_option::cuda;
    return values;
}

/// Returns the GPU of an alpaka device.
template <class Device>
simt::executor executor_of(const Device& device) {
    simt::executor on;
    on.kind = simt::device_kind::cuda;
    on.device = static_cast<int>(alpaka::getNativeHandle(device));
    return on;
}

/// The kernel that writes a policy's object to the device.
struct store {
    template <class Acc, class Policy>
    ALPAKA_FN_ACC void operator()(const Acc& /*acc*/, Policy* at, Policy value) const {
        *at = value;
    }
};

}  // namespace detail

/// Reserve pool policy: all memory of the heap is allocated at once, by one `cudaMalloc`. `getHeapLocations` returns
/// this memory, which the host may copy as a whole (as PIConGPU's `MallocMCBuffer` does). The heap uses the whole
/// segments of 2 MiB in it.
class reserved_pool {
public:
    reserved_pool() = default;
    reserved_pool(const reserved_pool&) = delete;
    reserved_pool& operator=(const reserved_pool&) = delete;
    ~reserved_pool() { resetMemPool(); }

    /// Makes a heap in `bytes` bytes on the GPU `device`, and returns the memory; null for 0 bytes, of which an
    /// allocator returns null for every request. The options are those of the variables ORCHARD_<NAME>.
    /// Throws std::runtime_error with the reason if the heap cannot be made: memory is short, `bytes` has no whole
    /// segment, or a variable is wrong.
    template <class Device>
    void* setMemPool(const Device& device, std::size_t bytes) {
        resetMemPool();
        if (bytes == 0) {
            return nullptr;
        }
        const simt::executor on = detail::executor_of(device);
        with_device(on, [&] {
            made_.emplace(detail::value_or_throw(
                create_in_resource(detail::device_memory_source{on}, bytes, detail::pool_options())));
        });
        detail::heap_table::all().add(&**made_, made_->memory(), bytes);
        return made_->memory();
    }
    /// Ends the heap and frees its memory. No kernel may use it any more.
    void resetMemPool(const void* /*pool*/ = nullptr) {
        if (made_.has_value()) {
            detail::heap_table::all().remove(&**made_);
            made_.reset();
        }
    }
    static std::string classname() { return "orchard::malloc_mc::reserved_pool"; }

private:
    std::optional<resource_heap<detail::device_memory_source>> made_;
};

/// Reserve pool policy: the heap begins without memory and grows while kernels run, up to the allocator's size, with
/// the backing `elastic` where the driver can map memory so, which is the default (docs/backings.md).
/// `getHeapLocations` returns addresses, of which those without memory cannot be read: do not copy them as a whole.
class growing_pool {
public:
    growing_pool() = default;
    growing_pool(const growing_pool&) = delete;
    growing_pool& operator=(const growing_pool&) = delete;
    ~growing_pool() { resetMemPool(); }

    /// Makes a heap whose device budget is `bytes`, rounded down to whole segments of 2 MiB, on the GPU `device`, and
    /// returns its first address; null for 0 bytes. Other options and errors: those of `reserved_pool`. At least 4 MiB.
    template <class Device>
    void* setMemPool(const Device& device, std::size_t bytes) {
        resetMemPool();
        if (bytes == 0) {
            return nullptr;
        }
        with_device(detail::executor_of(device), [&] {
            options values = detail::pool_options();
            values.capacity = bytes / segment_bytes * segment_bytes;
            values.range = values.capacity + values.host_budget;
            made_.emplace(detail::value_or_throw(heap::create(values)));
        });
        void* const first = made_->view().base;
        detail::heap_table::all().add(&*made_, first, bytes);
        return first;
    }
    /// Ends the heap and releases its memory. No kernel may use it any more.
    void resetMemPool(const void* /*pool*/ = nullptr) {
        if (made_.has_value()) {
            detail::heap_table::all().remove(&*made_);
            made_.reset();
        }
    }
    static std::string classname() { return "orchard::malloc_mc::growing_pool"; }

private:
    std::optional<heap> made_;
};

/// Creation policy: requests are answered by the heap of a `reserved_pool` or `growing_pool`. Lanes of a warp that ask
/// together are served together, so take the distribution policy Noop; any alignment policy is allowed. The allocator's
/// object on the device holds this object. mallocMC before 3.0 names its alignment policy in calls of `create`; it is
/// ignored.
class creation_policy {
public:
    template <class AlignmentPolicy>
    using AlignmentAwarePolicy = creation_policy;

    static constexpr bool providesAvailableSlots = true;

    /// Returns a block of `bytes` bytes, aligned to 16 B at least, or null; `heap_ref::malloc`.
    template <class AlignmentPolicy = void, class Acc>
    ALPAKA_FN_ACC void* create(const Acc& /*acc*/, std::size_t bytes) const {
        return is_bound_ ? view_.malloc(bytes) : nullptr;
    }
    /// Frees a block; `heap_ref::free`.
    template <class Acc>
    ALPAKA_FN_ACC void destroy(const Acc& /*acc*/, void* block) const {
        if (is_bound_) {
            view_.free(block);
        }
    }
    /// Returns true if `create` failed. The host gets the reason: `heap_of(allocator)->last_failure()`.
    ALPAKA_FN_ACC static bool isOOM(void* block, std::size_t bytes) { return bytes != 0 && block == nullptr; }

    /// Writes the view of the heap in `pool` into `*allocator`, and waits for that. Without a pool of this file, throws
    /// std::logic_error, unless `bytes` is 0.
    template <class Acc, class Device, class Queue, class DeviceAllocator>
    static void initHeap(Device& /*device*/, Queue& queue, DeviceAllocator* allocator, void* pool, std::size_t bytes) {
        static_assert(std::is_same_v<alpaka::AccToTag<Acc>, alpaka::TagGpuCudaRt>,
                      "orchard::malloc_mc::creation_policy needs alpaka's CUDA accelerator");
        creation_policy value;
        if (heap* const of = detail::heap_table::all().bind(pool, allocator); of != nullptr) {
            value.view_ = of->ref();
            value.is_bound_ = true;
        } else if (bytes != 0) {
            throw std::logic_error(
                "orchard::malloc_mc::creation_policy: the allocator's reserve pool policy is none of Orchard's; take "
                "orchard::malloc_mc::reserved_pool or growing_pool");
        }
        using dimension = alpaka::Dim<Acc>;
        using index = alpaka::Idx<Acc>;
        const auto one = alpaka::Vec<dimension, index>::ones();
        alpaka::exec<Acc>(queue, alpaka::WorkDivMembers<dimension, index>{one, one, one}, detail::store{},
                          static_cast<creation_policy*>(allocator), value);
        alpaka::wait(queue);
    }

    /// Returns how many blocks of `bytes` bytes the heap can still hand out, at most 2^32 - 1; exact up to 512 KiB, an
    /// upper bound above (`free_blocks`). 0 for an allocator of 0 bytes. Waits for `queue`; no other kernel may run.
    /// Throws std::runtime_error with the device's own error. Cost: `heap::trim`, which also releases unused memory of
    /// a `growing_pool`, and `heap::stats`.
    template <class Acc, class Device, class Queue, class DeviceAllocator>
    static unsigned getAvailableSlotsHost(Device& /*device*/, Queue& queue, std::size_t bytes,
                                          DeviceAllocator* allocator) {
        heap* const of = detail::heap_table::all().of(allocator);
        if (of == nullptr) {
            return 0;
        }
        alpaka::wait(queue);
        if (const absl::Status trimmed = of->trim(); !trimmed.ok()) {
            throw std::runtime_error("orchard: " + trimmed.ToString());
        }
        const std::uint64_t free = free_blocks(detail::value_or_throw(of->stats()), bytes);
        return static_cast<unsigned>(std::min<std::uint64_t>(free, std::numeric_limits<unsigned>::max()));
    }
    /// Does not compile: the host's service knows the free segments, the device does not.
    template <class AlignmentPolicy = void, class Acc>
    ALPAKA_FN_ACC unsigned getAvailableSlotsAccelerator(const Acc& /*acc*/, std::size_t /*bytes*/) const {
        static_assert(!std::is_same_v<Acc, Acc>,
                      "Orchard has no getAvailableSlots in kernels; call that of the allocator on the host");
        return 0;
    }

    static std::string classname() { return "orchard::malloc_mc::creation_policy"; }

private:
    heap_ref view_{};
    bool is_bound_ = false;
};

/// Returns the heap that `allocator`, a `mallocMC::Allocator`, uses, for its statistics and failures; null for an
/// allocator of 0 bytes. It is valid until the allocator's end or `destructiveResize`.
template <class Allocator>
heap* heap_of(Allocator& allocator) {
    return detail::heap_table::all().of(allocator.getAllocatorHandle().devAllocator);
}

}  // namespace orchard::malloc_mc
