// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// XMalloc in the arena (docs/xmalloc.md), before Orchard's heap and, on a GPU, before CUDA's `malloc`.

#include "runtime/published/xmalloc.hpp"

#include "profiling/arena/adapter.hpp"
#include "profiling/arena/allocators/cuda_malloc.hpp"

namespace orchard::arena {
namespace {

/// Returns the allocator before a heap of its own.
/// @param queues  of each size class; 0: no block is buffered
template <bool Coalesces>
allocator before_heap(const char* name, std::uint32_t queues) {
    using owner = xmalloc<heap_ref, Coalesces>;
    return adapt<owner>({.name = name, .source = "Huang et al., 2013; before Orchard's heap"},
                        [queues](const simt::executor& on, std::uint64_t bytes) {
                            return owner::create(on, {.queues = queues, .capacity = bytes});
                        });
}

/// Returns the allocator before CUDA's `malloc`, as its authors had it.
allocator before_cuda_malloc() {
    using owner = xmalloc<system_malloc_ref>;
    return adapt<owner>(
        {.name = "xmalloc_cuda_malloc", .source = "Huang et al., 2013; before CUDA's malloc", .needs_cuda = true},
        [](const simt::executor& on, std::uint64_t bytes) -> absl::StatusOr<owner> {
            if (auto base = cuda_malloc_owner::create(on, bytes); !base.ok()) {
                return base.status();
            }
            return owner::create(on);
        });
}

const registrar whole{before_heap<true>("xmalloc", 16)};
const registrar one_queue{before_heap<true>("xmalloc_1_queue", 1)};
const registrar coalescing_alone{before_heap<true>("xmalloc_no_queues", 0)};
const registrar queues_alone{before_heap<false>("xmalloc_queues", 16)};
const registrar as_published{before_cuda_malloc()};

}  // namespace
}  // namespace orchard::arena
