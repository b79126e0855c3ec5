// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Orchard's own allocator, in a heap of fixed size.

#include <utility>

#include "device/heap_ref.cuh"
#include "profiling/arena/adapter.hpp"
#include "runtime/heap/heap.hpp"

namespace orchard::arena {
namespace {

/// A heap as the arena needs it. `initialise` is `trim`: the arena frees all blocks before.
struct orchard_owner {
    heap h;

    [[nodiscard]] heap_ref ref() const { return h.ref(); }
    absl::Status initialise() { return h.trim(); }
};

const registrar orchard_registered{adapt<orchard_owner>(
    {.name = "orchard", .source = "this library"},
    [](const simt::executor& on, std::uint64_t bytes) -> absl::StatusOr<orchard_owner> {
        options values;
        values.device = on.kind == simt::device_kind::cuda ? device_option::cuda : device_option::emulated;
        values.emulated_workers = static_cast<int>(on.workers);
        values.backing = backing_option::fixed;
        values.capacity = bytes;
        auto made = heap::create(values);
        if (!made.ok()) {
            return made.status();
        }
        return orchard_owner{*std::move(made)};
    })};

}  // namespace
}  // namespace orchard::arena
