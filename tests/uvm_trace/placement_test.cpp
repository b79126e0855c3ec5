// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Where threads' bytes lie: known places, and no two in one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "uvm/geometry/geometry.hpp"
#include "uvm/model/placement.hpp"

namespace orchard::test {
namespace {

using uvm_model::placement;
using uvm_model::thread_byte;
using uvm_model::thread_memory;

constexpr std::uint64_t kib = 1024;
constexpr std::uint64_t mib = 1024 * kib;

placement placed(const thread_memory& of) {
    absl::StatusOr<placement> p = placement::create(of);
    EXPECT_TRUE(p.ok()) << p.status();
    return *p;
}

/// Layouts, orders, policies, numbers of threads and sizes, those with ragged ends among them.
std::vector<thread_memory> memories() {
    std::vector<thread_memory> all;
    const std::vector<layout> layouts{layout::linear(), layout::interleaved(tile::b4), layout::interleaved(tile::b16),
                                      layout::interleaved(tile::k4), layout::interleaved(tile::k64)};
    for (const layout how : layouts) {
        for (const lane_order order : {lane_order::ascending, lane_order::prefetch_first}) {
            for (const portion_policy portions : {portion_policy::packed, portion_policy::padded}) {
                for (const std::uint64_t threads : {1, 31, 32, 33, 200}) {
                    for (const std::uint64_t bytes : {4 * kib, 20 * kib, 100 * kib + 12}) {
                        all.push_back({threads, bytes, 4, how, order, portions});
                    }
                }
            }
        }
    }
    for (const portion_policy portions : {portion_policy::packed, portion_policy::padded}) {
        for (const std::uint64_t threads : {32, 40, 160, 640}) {
            for (const std::uint64_t bytes : {68 * kib, 100 * kib, 132 * kib}) {
                for (const tile t : {tile::k16, tile::k64}) {
                    all.push_back({.threads = threads,
                                   .bytes_per_thread = bytes,
                                   .how = layout::interleaved(t),
                                   .portions = portions,
                                   .tails = tail_policy::pooled});
                }
            }
        }
    }
    for (const std::uint64_t threads : {1, 33, 200}) {
        for (const std::uint64_t bytes : {std::uint64_t{100}, 512 + 0 * kib, 513 + 0 * kib, 20 * kib, 100 * kib + 12}) {
            all.push_back({.threads = threads, .bytes_per_thread = bytes, .by = uvm_model::placed_by::sync_malloc});
        }
    }
    return all;
}

TEST(Placement, NoTwoBytesLieInOnePlaceAndAllAreFoundAgain) {
    for (const thread_memory& m : memories()) {
        const placement p = placed(m);
        EXPECT_EQ(p.bytes() % segment_bytes, 0u);
        std::set<std::uint64_t> seen;
        std::uint64_t places = 0;
        for (std::uint64_t t = 0; t < m.threads; ++t) {
            for (std::uint64_t o = 0; o < m.bytes_per_thread; o += t % 2 == 0 ? 508 : 4092) {
                const std::uint64_t a = p.address(t, o);
                ASSERT_LT(a, p.bytes());
                ASSERT_EQ(p.byte_at(a), (thread_byte{t, o})) << "at " << a;
                seen.insert(a);
                ++places;
            }
        }
        EXPECT_EQ(seen.size(), places);
    }
}

TEST(Placement, WhatIsNobodysIsFoundToBeSo) {
    for (const thread_memory& m : memories()) {
        const placement p = placed(m);
        for (std::uint64_t a = 0; a < p.bytes(); a += 4012) {
            const thread_byte b = p.byte_at(a);
            if (b.thread < m.threads && b.offset < m.bytes_per_thread) {
                ASSERT_EQ(p.address(b.thread, b.offset), a);
            }
        }
    }
}

TEST(Placement, ChunksShareVaBlocksAsThePolicySays) {
    // 16 KiB a lane: chunks of 512 KiB, 8 leaves.
    thread_memory m{.threads = 320, .bytes_per_thread = 16 * kib};
    EXPECT_EQ(placed(m).chunk(1), 512 * kib);
    EXPECT_EQ(placed(m).chunk(4), 2 * mib);
    EXPECT_EQ(placed(m).bytes(), 6 * mib);
    m.portions = portion_policy::padded;
    EXPECT_EQ(placed(m).chunk(1), 1 * mib);
    EXPECT_EQ(placed(m).chunk(2), 2 * mib);
    EXPECT_EQ(placed(m).bytes(), 10 * mib);
    // 10 KiB a lane: 5 leaves, six of them in a block of 32; padded 8, with an empty sibling.
    m.bytes_per_thread = 10 * kib;
    EXPECT_EQ(placed(m).chunk(2), 2 * mib);
    m.portions = portion_policy::packed;
    EXPECT_EQ(placed(m).chunk(5), 5 * 320 * kib);
    EXPECT_EQ(placed(m).chunk(6), 2 * mib);
}

TEST(Placement, LargeChunksBeginBlocksOfTheirOwn) {
    for (const portion_policy portions : {portion_policy::packed, portion_policy::padded}) {
        thread_memory m{.threads = 96, .bytes_per_thread = 64 * kib, .portions = portions};
        EXPECT_EQ(placed(m).chunk(2), 4 * mib);  // 2 MiB each
        EXPECT_EQ(placed(m).bytes(), 6 * mib);
        m.bytes_per_thread = 68 * kib;  // 2 MiB and a rest
        EXPECT_EQ(placed(m).chunk(2), 8 * mib);
        m.bytes_per_thread = 48 * kib;  // 1.5 MiB: padded a whole block, packed 24 leaves, and no room for a second
        EXPECT_EQ(placed(m).chunk(2), 4 * mib);
    }
}

// 68 KiB a lane: a segment and two leaves. 16 tails share a block, which precedes the segments of their chunks.
TEST(Placement, PooledTailsShareVaBlocks) {
    thread_memory m{.threads = 1024, .bytes_per_thread = 66 * kib, .how = layout::interleaved(tile::k64)};
    EXPECT_EQ(placed(m).bytes(), 128 * mib);
    m.tails = tail_policy::pooled;
    EXPECT_EQ(placed(m).bytes(), 68 * mib);
    EXPECT_EQ(placed(m).chunk(1), 4 * mib);
    EXPECT_EQ(placed(m).chunk(16), 36 * mib);
    EXPECT_EQ(placed(m).address(33, 5), 4 * mib + 64 * kib + 5);
    EXPECT_EQ(placed(m).address(33, 64 * kib + 5), 128 * kib + 4 * kib + 5);
    EXPECT_EQ(placed(m).address(16 * 32, 64 * kib), 34 * mib);
    m.portions = portion_policy::padded;  // 4 leaves for each tail
    EXPECT_EQ(placed(m).chunk(8), 20 * mib);
    m.threads = 1023;  // the last warp has 31 lanes
    EXPECT_EQ(placed(m).bytes(), 128 * mib);
    m = {.threads = 1024, .bytes_per_thread = 66 * kib, .tails = tail_policy::pooled};
    EXPECT_EQ(placed(m).bytes(), 128 * mib) << "linear";
}

TEST(Placement, LanesLieAsTheLayoutSays) {
    thread_memory m{.threads = 64, .bytes_per_thread = 64 * kib, .how = layout::linear()};
    EXPECT_EQ(placed(m).address(3, 5), 3 * 64 * kib + 5);
    EXPECT_EQ(placed(m).address(35, 5), 2 * mib + 3 * 64 * kib + 5);
    m.how = layout::interleaved(tile::k4);
    EXPECT_EQ(placed(m).address(3, 4 * kib + 5), (32 + 3) * 4 * kib + 5);
    m.order = lane_order::prefetch_first;  // lane 3 at position 4
    EXPECT_EQ(placed(m).address(3, 4 * kib + 5), (32 + 4) * 4 * kib + 5);
    m.how = layout::interleaved(tile::b4);
    m.element_bytes = 16;  // no element in two tiles
    EXPECT_EQ(placed(m).address(1, 16), (32 + 1) * 16u);
    // A tail row: 80 KiB are one tile of 64 KiB, and 16 KiB of each lane side by side.
    m = {.threads = 32, .bytes_per_thread = 80 * kib, .how = layout::interleaved(tile::k64)};
    EXPECT_EQ(placed(m).address(2, 64 * kib), 2 * mib + 2 * 16 * kib);
    // A last warp of two lanes.
    m = {.threads = 34, .bytes_per_thread = 4 * kib, .how = layout::interleaved(tile::b16)};
    EXPECT_EQ(placed(m).width(1), 2u);
    EXPECT_EQ(placed(m).address(33, 16), 128 * kib + 3 * 16u);
}

// First fit over pages, thread after thread: neither warps nor VA blocks leave a gap.
TEST(Placement, SyncMallocGivesEachThreadPagesOfItsOwn) {
    thread_memory m{.threads = 1024, .bytes_per_thread = 5 * kib, .by = uvm_model::placed_by::sync_malloc};
    EXPECT_EQ(placed(m).address(1, 5), 8 * kib + 5);
    EXPECT_EQ(placed(m).address(32, 0), 32 * 8 * kib);
    EXPECT_EQ(placed(m).bytes(), 8 * mib);
    m.bytes_per_thread = 68 * kib;  // 2 MiB and a rest: thread 30 lies across the border of a VA block
    EXPECT_EQ(placed(m).address(30, 0), 30 * 68 * kib);
    EXPECT_EQ(placed(m).address(30, 8 * kib), 2 * mib);
    EXPECT_EQ(placed(m).chunk(1), 32 * 68 * kib) << "the service begins a VA block with each warp";
    EXPECT_EQ(placed(m).bytes(), 68 * mib);
    // Slabs up to 512 B.
    m.bytes_per_thread = 512;
    EXPECT_EQ(placed(m).address(3, 0), 3 * 512u);
    m.bytes_per_thread = 513;
    EXPECT_EQ(placed(m).address(3, 0), 3 * 4 * kib);
    m.bytes_per_thread = 100;
    EXPECT_EQ(placed(m).address(3, 0), 3 * 128u);
    m.bytes_per_thread = 4;
    EXPECT_EQ(placed(m).address(3, 0), 3 * 16u);
}

TEST(Placement, WhatCannotBeIsRefused) {
    const auto refused = [](const thread_memory& m, const std::string& text) {
        const auto p = placement::create(m);
        ASSERT_EQ(p.status().code(), absl::StatusCode::kInvalidArgument) << text;
        EXPECT_THAT(std::string(p.status().message()), ::testing::HasSubstr(text));
    };
    refused({.threads = 0}, "0 threads");
    refused({.threads = 1ull << 40}, "1099511627776 threads");
    refused({.bytes_per_thread = 0}, "0 bytes");
    refused({.bytes_per_thread = 1ull << 44}, "bytes for each thread");
    refused({.threads = 1 << 20, .bytes_per_thread = 1ull << 43}, "in all");
    refused({.element_bytes = 12}, "elements of 12 bytes");
    refused({.element_bytes = 0}, "elements of 0 bytes");
    refused({.bytes_per_thread = 2, .element_bytes = 4}, "elements of 4 bytes");
    refused({.how = layout::automatic()}, "layout auto");
    refused({.how = layout::interleaved(tile::k4), .by = uvm_model::placed_by::sync_malloc}, "choose linear");
}

}  // namespace
}  // namespace orchard::test
