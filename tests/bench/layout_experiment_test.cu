// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The reads whose cost `orchard bench ranges` measures.

#include <gtest/gtest.h>

#include "profiling/bench/layout_experiment.cuh"

namespace orchard::bench {
namespace {

// On the emulated device nothing moves, so that the counts of what is read are seen only here.
TEST(layout_experiment, counts_the_pages_of_all_reads) {
    settings s;
    s.heap.emulated_workers = 2;
    s.repeats = 1;
    // 32 lanes of 1 MiB, 100 reads each in 256 pages of 4 KiB or 16 of 64 KiB.
    const layout_experiment experiment(s, 32, 1 << 20, 40 << 20);
    for (const layout how : {layout::linear(), layout::interleaved(tile::k64)}) {
        const auto heap = experiment.run_by_heap(how);
        const auto hand = experiment.run_by_hand(how);
        ASSERT_TRUE(heap.ok() && hand.ok()) << heap.status() << hand.status();
        for (std::size_t i = 0; i < heap->size(); ++i) {
            EXPECT_EQ((*heap)[i].read_4k_mb, (*hand)[i].read_4k_mb) << (*heap)[i].pattern;
            EXPECT_EQ((*heap)[i].read_64k_mb, (*hand)[i].read_64k_mb) << (*heap)[i].pattern;
        }
        const pattern_result& stride = (*heap)[1];
        ASSERT_EQ(stride.pattern, "stride of 64 KiB");
        EXPECT_DOUBLE_EQ(stride.read_64k_mb, 32 * 16 * 65536 * 1e-6)
            << "16 places of each lane, each in a page of its own";
        EXPECT_DOUBLE_EQ(stride.read_4k_mb, 32 * 16 * 4096 * 1e-6);
        EXPECT_LT((*heap)[0].read_4k_mb, (*heap)[2].read_4k_mb * 1.01);
    }
}

}  // namespace
}  // namespace orchard::bench
