// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Kernels that many tests of a heap launch.

#include <cstdint>

#include "device/heap_ref.cuh"
#include "device/simt/launch.cuh"
#include "tests/support/tested_heap.hpp"

namespace orchard::test {

/// A block of memory, as a number: the host only compares it.
struct block {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;

    [[nodiscard]] ORCHARD_FN void* pointer() const { return reinterpret_cast<void*>(address); }
    friend bool operator==(const block&, const block&) = default;
};

ORCHARD_FN inline std::uint64_t as_number(const void* p) { return reinterpret_cast<std::uint64_t>(p); }

/// Returns the expected byte at `offset` of block number `owner`.
ORCHARD_FN inline unsigned char stamp_of(std::uint64_t owner, std::uint64_t offset) {
    return static_cast<unsigned char>((device::mix(static_cast<std::uint32_t>(owner) + 1) >> 7) + offset * 37);
}

/// Calls `visit(offset)`: all bytes of a small block; of a large one its ends and a byte of each OS page.
template <class Visit>
ORCHARD_FN void for_stamped_bytes(std::uint64_t bytes, Visit visit) {
    constexpr std::uint64_t small = 256;
    for (std::uint64_t i = 0; i < (bytes <= 2 * small ? bytes : small); ++i) {
        visit(i);
    }
    if (bytes > 2 * small) {
        for (std::uint64_t i = 4096; i < bytes - small; i += 4096) {
            visit(i);
        }
        for (std::uint64_t i = bytes - small; i < bytes; ++i) {
            visit(i);
        }
    }
}

ORCHARD_FN inline void stamp_block(void* p, std::uint64_t bytes, std::uint64_t owner) {
    auto* at = static_cast<unsigned char*>(p);
    for_stamped_bytes(bytes, [=](std::uint64_t i) { at[i] = stamp_of(owner, i); });
}

ORCHARD_FN inline bool has_stamp(const void* p, std::uint64_t bytes, std::uint64_t owner) {
    const auto* at = static_cast<const unsigned char*>(p);
    bool same = true;
    for_stamped_bytes(bytes, [&](std::uint64_t i) { same = same && at[i] == stamp_of(owner, i); });
    return same;
}

/// Thread i allocates `sizes[i]` bytes.
struct allocate_each {
    heap_ref heap;
    const std::uint64_t* sizes;
    block* blocks;
    std::uint64_t count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < count) {
            blocks[i] = {as_number(heap.malloc(sizes[i])), sizes[i]};
        }
    }
};

/// Lanes of a mask allocate and free `rounds` times: every time but the first the lanes find pages at home.
struct allocate_and_free {
    heap_ref heap;
    std::uint64_t bytes;
    std::uint32_t rounds;
    simt::lane_mask mask;
    std::uint32_t frees;  ///< 0: keeps all

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if ((mask >> at.thread & 1) == 0) {
            return;
        }
        for (std::uint32_t i = 0; i < rounds; ++i) {
            void* p = heap.malloc(bytes);
            if (frees != 0) {
                heap.free(p);
            }
        }
    }
};

/// Thread i writes block i.
struct stamp_each {
    const block* blocks;
    std::uint64_t count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < count) {
            stamp_block(blocks[i].pointer(), blocks[i].bytes, i);
        }
    }
};

/// Looks at the blocks from the last to the first; counts those that are not what `stamp_each` wrote.
struct verify_each {
    const block* blocks;
    std::uint64_t count;
    simt::device_word<std::uint32_t>* errors;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.global_thread() >= count) {
            return;
        }
        const std::uint64_t i = count - 1 - at.global_thread();
        if (!has_stamp(blocks[i].pointer(), blocks[i].bytes, i)) {
            errors->fetch_add<simt::order::relaxed>(1);
        }
    }
};

/// Thread i frees block i.
struct free_each {
    heap_ref heap;
    const block* blocks;
    std::uint64_t count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < count) {
            heap.free(blocks[i].pointer());
        }
    }
};

/// Each thread allocates blocks of `bytes` (at least 16) until it gets null or has `most` of them, and chains them: the
/// first word of a block is the address of the previous block, the second is the owner.
struct fill_heap {
    heap_ref heap;
    std::uint64_t bytes;
    std::uint64_t most;
    std::uint64_t* heads;   ///< [threads]
    std::uint64_t* counts;  ///< [threads]

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        std::uint64_t head = 0;
        std::uint64_t count = 0;
        while (count < most) {
            auto* p = static_cast<std::uint64_t*>(heap.malloc(bytes));
            if (p == nullptr) {
                break;
            }
            p[0] = head;
            p[1] = i;
            head = as_number(p);
            ++count;
        }
        heads[i] = head;
        counts[i] = count;
    }
};

/// Frees what `fill_heap` chained; counts blocks that were not their owner's.
struct free_chains {
    heap_ref heap;
    const std::uint64_t* heads;
    simt::device_word<std::uint32_t>* errors;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        for (auto* p = reinterpret_cast<std::uint64_t*>(heads[i]); p != nullptr;) {
            if (p[1] != i) {
                errors->fetch_add<simt::order::relaxed>(1);
                return;
            }
            auto* before = reinterpret_cast<std::uint64_t*>(p[0]);
            heap.free(p);
            p = before;
        }
    }
};

}  // namespace orchard::test
