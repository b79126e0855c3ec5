// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// XMalloc in the arena (docs/xmalloc.md), before Orchard's heap and, on a GPU, before CUDA's `malloc`.

#include "runtime/published/xmalloc.hpp"

#include "profiling/arena/adapter.hpp"

namespace orchard::arena {
namespace {

/// Returns the allocator before a heap of its own.
template <bool Coalesces>
allocator before_heap(const char* name) {
    using owner = xmalloc<heap_ref, Coalesces>;
    return adapt<owner>(
        {.name = name, .source = "Huang et al., 2013; before Orchard's heap"},
        [](const simt::executor& on, std::uint64_t bytes) { return owner::create(on, {.capacity = bytes}); });
}

const registrar coalescing{before_heap<true>("xmalloc")};
const registrar queues_alone{before_heap<false>("xmalloc_queues")};

}  // namespace
}  // namespace orchard::arena
