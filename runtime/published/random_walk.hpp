// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `random_walk`, the owner of a heap that one algorithm of M. Pham et al. (ICS 2022) serves.

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/published/published_ref.cuh"
#include "device/simt/launch.cuh"
#include "runtime/heap/published_heap.hpp"

namespace orchard {

/// Owns a heap whose small requests the algorithm `P` serves; larger ones are chunks, as in every heap. Move-only; one
/// thread of the host at a time.
template <device::page_policy P>
class random_walk {
public:
    /// Returns an allocator all of whose memory is free, for kernels of `on`. Errors and cost: those of
    /// `published_heaps::create`.
    /// @param bytes  the option `capacity`
    static absl::StatusOr<random_walk> create(const simt::executor& on, std::uint64_t bytes) {
        options values;
        values.device = on.kind == simt::device_kind::cuda ? device_option::cuda : device_option::emulated;
        values.emulated_workers = static_cast<int>(on.workers);
        values.capacity = bytes;
        auto made = published_heaps::create(values, {.algorithm = P});
        if (!made.ok()) {
            return made.status();
        }
        return random_walk(*std::move(made));
    }

    /// Returns the view for kernels, valid while this object, or the object that it was moved to, lives.
    [[nodiscard]] published_ref<P> ref() const { return published_ref<P>(published_heaps::view(heap_)); }
    /// Gives memory without blocks back, as `heap::trim`. All blocks were freed before; no kernel runs meanwhile.
    absl::Status initialise() { return heap_.trim(); }

private:
    explicit random_walk(heap h) : heap_{std::move(h)} {}

    heap heap_;
};

}  // namespace orchard
