// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The effect of an invalid free: it is counted with its address, or, in a hardened heap, ends the kernel. Emulated
/// device only, because on CUDA a trap ends the process's use of the GPU.

#include <gtest/gtest.h>

#include "device/heap_ref.cuh"
#include "runtime/heap/heap.hpp"

namespace orchard {
namespace {

/// The first thread frees `wrong`; the other threads free a page of their own.
struct free_wrongly {
    heap_ref heap;
    void* wrong;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        void* own = heap.malloc(100);
        heap.free(at.thread == 0 ? wrong : own);
        if (at.thread == 0) {
            heap.free(own);
        }
    }
};

heap make_heap(bool hardened) {
    options o;
    o.device = device_option::emulated;
    o.capacity = 64ull << 20;
    o.hardened = hardened;
    auto h = heap::create(o);
    EXPECT_TRUE(h.ok()) << h.status();
    return *std::move(h);
}

TEST(WrongFree, IsCountedWithItsAddressAndChangesNothing) {
    heap h = make_heap(false);
    EXPECT_EQ(h.first_invalid_free(), 0u);
    int here = 0;
    const auto result = simt::launch(h.executor(), simt::grid{1, 64}, free_wrongly{h.ref(), &here});
    EXPECT_TRUE(result.ok) << result.error;
    EXPECT_EQ(h.first_invalid_free(), reinterpret_cast<std::uintptr_t>(&here));
    auto s = h.stats();
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_EQ(s->invalid_frees, 1u);
    EXPECT_EQ(s->frees, 64u);
    EXPECT_TRUE(h.validate().ok());
}

TEST(WrongFree, EndsTheKernelOfAHardenedHeap) {
    heap h = make_heap(true);
    int here = 0;
    const auto result = simt::launch(h.executor(), simt::grid{1, 64}, free_wrongly{h.ref(), &here});
    EXPECT_FALSE(result.ok);
    EXPECT_NE(result.error.find("free of what was not allocated"), std::string::npos) << result.error;
    EXPECT_EQ(h.first_invalid_free(), reinterpret_cast<std::uintptr_t>(&here));
}

TEST(WrongFree, OfNothingIsFineInAHardenedHeap) {
    heap h = make_heap(true);
    const auto result = simt::launch(h.executor(), simt::grid{1, 64}, free_wrongly{h.ref(), nullptr});
    EXPECT_TRUE(result.ok) << result.error;
}

}  // namespace
}  // namespace orchard
