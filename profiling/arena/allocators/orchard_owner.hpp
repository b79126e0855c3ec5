// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The owner of a heap of fixed size, for allocators of the arena whose view is one of such a heap.

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/heap_ref.cuh"
#include "runtime/heap/heap.hpp"

namespace orchard::arena {

/// A heap as the arena needs it. `initialise` is `trim`: the arena frees all blocks before.
///
/// @tparam Ref  the view that kernels get: `heap_ref`, or one that is made of it
template <class Ref>
struct orchard_owner {
    heap h;

    [[nodiscard]] Ref ref() const { return Ref(h.ref()); }
    absl::Status initialise() { return h.trim(); }

    /// Returns the owner of a heap of `bytes` bytes on the executor's device. Errors: those of `heap::create`.
    static absl::StatusOr<orchard_owner> create(const simt::executor& on, std::uint64_t bytes) {
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
    }
};

}  // namespace orchard::arena
