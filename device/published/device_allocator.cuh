// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What every allocator offers to kernels: the part that the contract tests, the commands' option --allocator, and
/// `orchard arena` need. `heap_ref`, `published_ref` and the views of all other published allocators have it.

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace orchard::device {

/// The view of an allocator that a kernel takes by value.
///
/// - `malloc(bytes)`: any thread, in any divergence. Returns memory of at least `bytes`, aligned to 16 B, which no
///   other block overlaps; null for 0 bytes, for a size that the allocator does not serve, and if memory lacks. It
///   always returns.
/// - `free(p)`: frees what `malloc` returned, from any thread of any later or the same kernel; nothing for null.
///
/// The owner on the host (runtime/published) is made by `create(on, ...)` from a `simt::executor`, and has `ref()` for
/// kernels, `executor()`, and `initialise()`, which makes it empty again.
template <class R>
concept device_allocator = std::is_trivially_copyable_v<R> && requires(const R view, void* p, std::uint64_t bytes) {
    { view.malloc(bytes) } -> std::same_as<void*>;
    view.free(p);
};

}  // namespace orchard::device
