// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A heap in the memory of another allocator: a resource of `cuda::mr`, of RMM, or any class with the same functions.
/// No header of CCCL or RMM is needed here. docs/interop.md has examples.
///
///     rmm::mr::cuda_async_memory_resource pool;
///     auto heap = orchard::create_in_resource(pool, 4ull << 30, {.device = orchard::device_option::cuda});
///     if (heap.ok()) my_kernel<<<blocks, threads>>>((*heap)->ref());

#include <sys/types.h>
#include <unistd.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "runtime/heap/heap.hpp"
#include "runtime/heap/with_device.hpp"

namespace orchard {

/// A resource whose functions without a stream are `allocate_sync` and `deallocate_sync`: those of `cuda::mr` from CCCL
/// 3.1 on, and of RMM, which uses it. They are preferred where a class has `allocate` and `deallocate`, too.
template <class Resource>
concept synchronous_resource = requires(Resource& from, void* memory, std::size_t n) {
    { from.allocate_sync(n, n) } -> std::same_as<void*>;
    from.deallocate_sync(memory, n, n);
};

/// A resource whose functions without a stream are `allocate` and `deallocate`: those of `cuda::mr` in CCCL 3.0 (the
/// one of CUDA 13.0), and of `std::pmr::memory_resource`.
template <class Resource>
concept plain_resource = requires(Resource& from, void* memory, std::size_t n) {
    { from.allocate(n, n) } -> std::same_as<void*>;
    from.deallocate(memory, n, n);
};

/// What `create_in_resource` takes memory from. Its functions have the arguments (bytes, alignment) and (memory, bytes,
/// alignment).
template <class Resource>
concept memory_source = synchronous_resource<Resource> || plain_resource<Resource>;

namespace detail {

/// The alignment that is asked of a resource, in bytes: `cudaMalloc` guarantees it, and some resources have no larger
/// one. The heap itself finds its segments in the memory.
inline constexpr std::size_t resource_alignment = 256;

/// A resource, memory of it, and the heap in the memory. It is not moved.
template <memory_source Resource>
struct resource_parts {
    explicit resource_parts(Resource r) : from{std::move(r)} {}
    resource_parts(const resource_parts&) = delete;
    resource_parts& operator=(const resource_parts&) = delete;
    /// A forked process leaves the memory to the process that took it, as `heap` does.
    ~resource_parts() {
        made.reset();  // first, as its threads use the memory
        if (memory != nullptr && ::getpid() == process) {
            with_device(on, [this] { give_back(); });
        }
    }

    void* take(std::size_t n) {
        if constexpr (synchronous_resource<Resource>) {
            return from.allocate_sync(n, resource_alignment);
        } else {
            return from.allocate(n, resource_alignment);
        }
    }
    void give_back() {
        if constexpr (synchronous_resource<Resource>) {
            from.deallocate_sync(memory, bytes, resource_alignment);
        } else {
            from.deallocate(memory, bytes, resource_alignment);
        }
    }

    Resource from;
    void* memory = nullptr;
    std::size_t bytes = 0;
    ::pid_t process = ::getpid();
    simt::executor on{};  ///< names the GPU on which the memory was taken; the emulated device before a heap exists
    std::optional<heap> made;
};

}  // namespace detail

/// A heap and the memory that it lies in; `create_in_resource` makes it. Use it as a pointer to the heap. Move-only. An
/// object that was moved from may only be assigned to or destroyed.
///
/// The end of the object ends the heap, and gives the memory back to the resource, with the heap's GPU as the current
/// one. No kernel may use the heap any more, in any stream: wait for them before. What the resource throws in
/// `deallocate` ends the process.
template <memory_source Resource>
class resource_heap {
public:
    [[nodiscard]] heap& operator*() const { return *parts_->made; }
    [[nodiscard]] heap* operator->() const { return &*parts_->made; }

    /// Returns the memory that the resource gave, and its size in bytes.
    [[nodiscard]] void* memory() const { return parts_->memory; }
    [[nodiscard]] std::uint64_t bytes() const { return parts_->bytes; }
    /// Returns the resource.
    [[nodiscard]] Resource& resource() const { return parts_->from; }

private:
    template <memory_source R>
    friend absl::StatusOr<resource_heap<R>> create_in_resource(R from, std::uint64_t bytes, const options& values);

    explicit resource_heap(std::unique_ptr<detail::resource_parts<Resource>> parts) : parts_{std::move(parts)} {}

    std::unique_ptr<detail::resource_parts<Resource>> parts_;
};

/// Returns a heap in `bytes` bytes that `from` allocates, on the calling thread's current GPU. The heap uses the whole
/// segments (2 MiB, aligned to 2 MiB) in this memory: ask for 2 MiB more than the heap is to have. It neither grows nor
/// gives memory back before it ends. The options `backing`, `capacity` and `range` of `values` are ignored.
///
/// `from` is moved or copied into the result. Resources of RMM and `cuda::mr::any_resource` share their state with the
/// copy; of a resource that has no copy, pass `std::move(it)` or a `resource_ref`, whose resource must outlive the
/// heap. Kernels must be able to access its memory. The memory is taken without a stream.
///
/// Errors: those of `heap::create_in`, and the memory is then given back; ResourceExhausted, with the resource's own
/// text, if it throws a `std::exception` or returns null. Other exceptions pass through. Cost: the resource's, and that
/// of `heap::create_in`.
template <memory_source Resource>
absl::StatusOr<resource_heap<Resource>> create_in_resource(Resource from, std::uint64_t bytes, const options& values) {
    auto parts = std::make_unique<detail::resource_parts<Resource>>(std::move(from));
    try {
        parts->memory = parts->take(bytes);
    } catch (const std::exception& error) {
        return absl::ResourceExhaustedError(
            absl::StrFormat("create_in_resource: the resource gave no %d bytes: %s", bytes, error.what()));
    }
    if (parts->memory == nullptr) {
        return absl::ResourceExhaustedError(
            absl::StrFormat("create_in_resource: the resource returned null for %d bytes", bytes));
    }
    parts->bytes = bytes;
    absl::StatusOr<heap> made = heap::create_in(parts->memory, bytes, values);
    if (!made.ok()) {
        return made.status();
    }
    parts->made.emplace(*std::move(made));
    parts->on = (*parts->made).executor();
    return resource_heap<Resource>(std::move(parts));
}

}  // namespace orchard
