// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The view of an allocator whose kernels call `malloc` and `free` through a pointer to it, as those of several authors
/// do. On a GPU alone.

#include <cstdint>

#include "device/simt/config.cuh"

namespace orchard::arena {

template <class Theirs>
struct authors_view {
    Theirs* theirs;

    ORCHARD_FN void* malloc([[maybe_unused]] std::uint64_t bytes) const {
#if ORCHARD_CUDA_PASS
        return bytes == 0 ? nullptr : theirs->malloc(bytes);
#else
        return nullptr;
#endif
    }
    ORCHARD_FN void free([[maybe_unused]] void* p) const {
#if ORCHARD_CUDA_PASS
        if (p != nullptr) {
            theirs->free(p);
        }
#endif
    }
};

}  // namespace orchard::arena
