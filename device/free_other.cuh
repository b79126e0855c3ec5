// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Frees of pointers that are no page.
///
///     heap_ref::free --no page--> free_other --> free_from_chunk     a block of a chunk
///                                            --> record_invalid_free anything else

#include "device/large/chunk_free.cuh"
#include "device/small/free_page.cuh"
#include "device/state/failures.cuh"

namespace orchard::device {

/// Frees `p`, which is no page in use: a block of a chunk, or else an invalid free. Any lanes call it; those that come
/// here together free together. Any address may be passed, also one outside the heap. Cost: see `free_from_chunk`
/// (large/chunk_free.cuh).
inline ORCHARD_NOINLINE void free_other(const heap_view& h, const void* p) {
    block_search s(h, p);
    if (!free_from_chunk(s)) {
        record_invalid_free(s.h, s.address());
    }
}

}  // namespace orchard::device
