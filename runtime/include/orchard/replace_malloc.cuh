// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Makes `malloc`, `free`, `new` and `delete` of this source's kernels Orchard's, without separable compilation.
///
///     #include <cuda_runtime.h>               // headers that have members of the names malloc or free
///     #include <orchard/replace_malloc.cuh>
///     #include "my_kernels.cuh"               // all else
///
/// The program is linked with orchard::orchard and orchard::launch_hooks, so that the default heap exists before the
/// first kernel. Host code does what it did: its calls of `malloc` and `free` are the C library's, and its `new` calls
/// `malloc`, since a function that replaces `operator new` in kernels replaces the host's, too; with ORCHARD_KEEP_NEW
/// defined before, this header leaves `new` and `delete` of both sides alone. In a source that is compiled with
/// -rdc=true, this header has nothing to do: the linker replaces the functions.
///
/// `malloc` and `free` become macros with an argument, since the compiler takes calls of these names in kernels as the
/// built-in functions, whatever the source defines. Members of these names (`pool.free(p)`) in what follows do not
/// compile; include their headers before. The names `calloc` and `realloc` do not exist in kernels of CUDA; call
/// `orchard_calloc` and `orchard_realloc`. Needs C++17 and some eight seconds of compile time for each source: the code
/// of the heap is compiled into it.

#include <cstddef>
#include <cstdlib>
#include <new>

#include "device/simt/separable.cuh"

#if ORCHARD_SEPARABLE

#include <orchard/orchard.h>

#else

// The device functions of orchard.h are those below: there is no other object that could have them.
#define ORCHARD_SOURCE_HAS_DEVICE_FUNCTIONS 1
#include <orchard/orchard.h>

#include "runtime/default_heap/heap_root.cuh"
#include "runtime/default_heap/module_registration.cuh"

// Of this source alone: a program without separable compilation has one module for each source.
static __constant__ orchard::heap_root orchard_source_root = {
    orchard::heap_root::current_abi, sizeof(orchard::heap_root), {}};

namespace orchard::replaced {
namespace {

int find_source_root(void** root) { return static_cast<int>(cudaGetSymbolAddress(root, orchard_source_root)); }
const detail::module_registration source_registration{find_source_root};

}  // namespace
}  // namespace orchard::replaced

// Documented in orchard/orchard.h.
static __device__ inline void* orchard_malloc(std::size_t bytes) { return orchard_source_root.malloc(bytes); }
static __device__ inline void orchard_free(void* block) { orchard_source_root.free(block); }
static __device__ inline void* orchard_calloc(std::size_t count, std::size_t size) {
    return orchard_source_root.calloc(count, size);
}
static __device__ inline void* orchard_realloc(void* block, std::size_t bytes) {
    return orchard_source_root.realloc(block, bytes);
}
static __device__ inline void* orchard_aligned_alloc(std::size_t alignment, std::size_t bytes) {
    return orchard_source_root.aligned_alloc(alignment, bytes);
}
static __device__ inline std::size_t orchard_usable_size(const void* block) {
    return orchard_source_root.usable_size(block);
}
static __device__ inline void orchard_note_access(const void* p) { orchard_source_root.note_access(p); }

/// Returns a block of the default heap in kernels, and of the C library on the host.
static __host__ __device__ inline void* orchard_replaced_malloc(std::size_t bytes) {
#if ORCHARD_CUDA_PASS
    return orchard_malloc(bytes);
#else
    return std::malloc(bytes);
#endif
}
/// Frees what `orchard_replaced_malloc` returned in code for the same side.
static __host__ __device__ inline void orchard_replaced_free(void* block) {
#if ORCHARD_CUDA_PASS
    orchard_free(block);
#else
    std::free(block);
#endif
}
namespace std {
using ::orchard_replaced_free;
using ::orchard_replaced_malloc;
}  // namespace std

#if !defined(ORCHARD_KEEP_NEW)
/// Returns a block of the default heap, or null, in kernels; on the host what the standard says of `operator new`.
/// Weak, as each source that includes this header has them.
__host__ __device__ __attribute__((weak)) void* operator new(std::size_t bytes) {
#if ORCHARD_CUDA_PASS
    return orchard_malloc(bytes);
#else
    for (;;) {
        void* const block = std::malloc(bytes != 0 ? bytes : 1);
        if (block != nullptr) {
            return block;
        }
        const std::new_handler handler = std::get_new_handler();
        if (handler == nullptr) {
            throw std::bad_alloc();
        }
        handler();
    }
#endif
}
__host__ __device__ __attribute__((weak)) void* operator new[](std::size_t bytes) { return ::operator new(bytes); }
__host__ __device__ __attribute__((weak)) void operator delete(void* block) noexcept { orchard_replaced_free(block); }
__host__ __device__ __attribute__((weak)) void operator delete[](void* block) noexcept { orchard_replaced_free(block); }
__host__ __device__ __attribute__((weak)) void operator delete(void* block, std::size_t) noexcept {
    orchard_replaced_free(block);
}
__host__ __device__ __attribute__((weak)) void operator delete[](void* block, std::size_t) noexcept {
    orchard_replaced_free(block);
}
#endif

#define malloc(bytes) orchard_replaced_malloc(bytes)
#define free(block) orchard_replaced_free(block)

#endif
