// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include "device/hardened/guarded_block.cuh"

namespace orchard::device {

/// Writes spare bytes and guard of a new block of `usable` bytes in a hardened heap; does nothing in another heap. The
/// paths that find the memory call it last, since a caller that kept the size until they return would need more
/// registers. One lane calls it alone.
inline ORCHARD_NOINLINE void guard_block(const heap_view& h, void* p, std::uint64_t usable, std::uint64_t wanted) {
    guarded_call c(h, p);
    c.usable = usable;
    c.bytes = wanted - guard_bytes;
    fill_spare(c);
    write_guard(c);
}

}  // namespace orchard::device
