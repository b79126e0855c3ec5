// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A heap whose small requests are grouped by the warp: the contract of `device_allocator`, how many blocks of the heap
// are in use, and that none is left when all parts are free.

#include "device/published/xmalloc/by_warp_ref.cuh"

#include <algorithm>
#include <optional>
#include <random>

#include "runtime/heap/heap.hpp"
#include "tests/support/published_rig.cuh"

namespace orchard::test {
namespace {

using by_8_kib = by_warp_ref<8192>;
using by_64_kib = by_warp_ref<65536>;

/// The view of two heaps: thread i uses the first one if i is even, and the second one if it is odd.
struct one_of_two {
    by_8_kib first;
    by_8_kib second;

    [[nodiscard]] ORCHARD_FN by_8_kib mine() const {
        return simt::position().global_thread() % 2 == 0 ? first : second;
    }
    [[nodiscard]] ORCHARD_FN void* malloc(std::uint64_t bytes) const { return mine().malloc(bytes); }
    ORCHARD_FN void free(void* p) const { mine().free(p); }
};

class by_warp_allocator : public on_each_device {
protected:
    void SetUp() override {
        on_each_device::SetUp();
        if (!IsSkipped()) {
            make_heap(64);
        }
    }
    void make_heap(std::uint64_t segments) {
        heap_.reset();
        heap_.emplace(new_heap(segments));
    }
    [[nodiscard]] static heap new_heap(std::uint64_t segments) {
        options o;
        o.device = GetParam();
        o.capacity = segments * segment_bytes;
        o.emulated_workers = 3;
        auto made = heap::create(o);
        EXPECT_TRUE(made.ok()) << made.status();
        return *std::move(made);
    }
    template <class Ref>
    published_rig<Ref> rig() {
        return published_rig<Ref>(heap_->executor(), Ref(heap_->ref()));
    }
    /// Returns the blocks of a heap that are in use.
    static std::uint64_t blocks_of(heap& h) {
        EXPECT_TRUE(h.validate().ok());
        const auto s = h.stats();
        EXPECT_TRUE(s.ok()) << s.status();
        return s->pages_in_use + s->live_chunks;
    }
    std::uint64_t blocks_of_heap() { return blocks_of(*heap_); }

    /// Returns the sizes of `warps` warps of which lane i asks for the size of class i, up to 8 KiB.
    static std::vector<std::uint64_t> each_its_class(std::size_t warps) {
        std::vector<std::uint64_t> sizes(warps * simt::warp_size);
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            sizes[i] = class_bytes(static_cast<std::uint32_t>(i % simt::warp_size));
        }
        return sizes;
    }

    template <class Ref>
    void check_contract() {
        auto from = rig<Ref>();
        for (int round = 0; round < 3; ++round) {
            from.cycle(mixed_sizes(1000, 300));
            from.cycle(mixed_sizes(200, 5000));
            from.cycle(each_its_class(9));
        }
        EXPECT_EQ(from.churn(2000, 30), 0u);
        from.expect_mallocs_beside_frees(100, 640);
        constexpr std::uint64_t too_large = std::uint64_t{1} << 33;
        from.expect_nulls({too_large, 0xffffffff, 0xfffffff0, ~std::uint64_t{0}, ~std::uint64_t{0} - 20});
        EXPECT_EQ(blocks_of_heap(), 0u) << "a block is lost";
    }

    /// Blocks are freed in a random order, in several kernels, by other warps than allocated them. All blocks keep what
    /// was written into them until they are freed.
    template <class Ref>
    void check_frees_in_any_order(const std::vector<std::uint64_t>& sizes) {
        auto from = rig<Ref>();
        std::vector<block> left = from.allocate(sizes);
        ASSERT_EQ(from.count_disjoint(left),
                  static_cast<std::size_t>(std::count_if(sizes.begin(), sizes.end(), [](auto s) { return s != 0; })));
        std::erase_if(left, [](const block& b) { return b.address == 0; });
        std::mt19937 random(7);
        std::shuffle(left.begin(), left.end(), random);
        from.stamp(left);
        while (!left.empty()) {
            // The last ones are freed, so that the numbers of the others, which they are stamped with, stay.
            const std::size_t some = std::min<std::size_t>(left.size(), 1 + random() % 150);
            from.free({left.end() - static_cast<std::ptrdiff_t>(some), left.end()});
            left.resize(left.size() - some);
            if (!left.empty()) {
                from.expect_stamped(left);
                EXPECT_NE(blocks_of_heap(), 0u);
            }
        }
        EXPECT_EQ(blocks_of_heap(), 0u);
    }

    std::optional<heap> heap_;
};
INSTANTIATE_TEST_SUITE_P(all, by_warp_allocator, both_kinds(), kind_name);

TEST_P(by_warp_allocator, contract_with_blocks_of_8_kib) { check_contract<by_8_kib>(); }
TEST_P(by_warp_allocator, contract_with_blocks_of_64_kib) { check_contract<by_64_kib>(); }

TEST_P(by_warp_allocator, a_warp_gets_one_block_and_its_last_free_releases_it) {
    auto from = rig<by_8_kib>();
    std::vector<std::uint64_t> sizes(32, 40);
    sizes[1] = 900;
    std::vector<block> got = from.allocate(sizes);
    EXPECT_EQ(from.count_disjoint(got), 32u);
    EXPECT_EQ(blocks_of_heap(), 1u);
    const std::vector<block> last(1, got[17]);
    got[17] = {};
    from.free(got);
    EXPECT_EQ(blocks_of_heap(), 1u);
    from.free(last);
    EXPECT_EQ(blocks_of_heap(), 0u);
}

TEST_P(by_warp_allocator, larger_requests_are_alone_and_free_at_once) {
    auto from = rig<by_8_kib>();
    std::vector<std::uint64_t> sizes(32, 40);
    sizes[3] = by_8_kib::most_bytes_shared + 1;
    sizes[30] = 3 << 20;
    std::vector<block> got = from.allocate(sizes);
    EXPECT_EQ(from.count_disjoint(got), 32u);
    EXPECT_EQ(blocks_of_heap(), 3u);
    from.free({got[3], got[30]});
    EXPECT_EQ(blocks_of_heap(), 1u);
    got[3] = got[30] = {};
    from.free(got);
    EXPECT_EQ(blocks_of_heap(), 0u);
}

TEST_P(by_warp_allocator, one_lane_has_a_block_alone) {
    auto from = rig<by_8_kib>();
    std::vector<std::uint64_t> sizes(96, 0);
    sizes[5] = 16;
    sizes[40] = 112;
    sizes[64] = 5000;  // too large to be shared
    sizes[95] = 1000;  // so that no other lane shares with this one
    const std::vector<block> got = from.allocate(sizes);
    EXPECT_EQ(blocks_of_heap(), 4u);
    from.free(got);
    EXPECT_EQ(blocks_of_heap(), 0u);
}

TEST_P(by_warp_allocator, lanes_that_do_not_fit_any_more_are_alone) {
    auto from = rig<by_8_kib>();
    // 15 parts of 512 B with headers take 7,920 B, and the lanes behind them find no room.
    const std::vector<block> got = from.allocate(std::vector<std::uint64_t>(32, 512));
    EXPECT_EQ(from.count_disjoint(got), 32u);
    EXPECT_EQ(blocks_of_heap(), 1u + 17u);
    from.free(got);
    EXPECT_EQ(blocks_of_heap(), 0u);
}

TEST_P(by_warp_allocator, lanes_of_32_classes) {
    // Of 8 KiB the lanes of up to 1 KiB share a block, and the twelve others are alone; of 64 KiB all share one.
    const std::vector<block> in_8 = rig<by_8_kib>().allocate(each_its_class(3));
    EXPECT_EQ(rig<by_8_kib>().count_disjoint(in_8), 96u);
    EXPECT_EQ(blocks_of_heap(), 3u * (1 + 12));
    const std::vector<block> in_64 = rig<by_64_kib>().allocate(each_its_class(3));
    EXPECT_EQ(rig<by_64_kib>().count_disjoint(in_64), 96u);
    EXPECT_EQ(blocks_of_heap(), 3u * (1 + 12) + 3);
    rig<by_8_kib>().free(in_8);
    EXPECT_EQ(blocks_of_heap(), 3u);
    rig<by_64_kib>().free(in_64);
    EXPECT_EQ(blocks_of_heap(), 0u);
}

TEST_P(by_warp_allocator, frees_in_any_order_by_other_warps) {
    check_frees_in_any_order<by_8_kib>(mixed_sizes(1000, 300));
    check_frees_in_any_order<by_8_kib>(mixed_sizes(500, 4000));
    check_frees_in_any_order<by_8_kib>(each_its_class(20));
    check_frees_in_any_order<by_64_kib>(each_its_class(20));
    // Any lanes may be missing.
    std::vector<std::uint64_t> sizes = mixed_sizes(1000, 600);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        if (device::mix(static_cast<std::uint32_t>(i)) % 3 == 0) {
            sizes[i] = 0;
        }
    }
    check_frees_in_any_order<by_8_kib>(sizes);
}

TEST_P(by_warp_allocator, lanes_are_served_alone_if_there_is_no_memory_for_all) {
    make_heap(2);
    auto from = rig<by_8_kib>();
    // One segment is a chunk, the other one has the pages of the class of a lane alone, so that there is no block for
    // several lanes.
    const block small = from.allocate_one(100);
    const block large = from.allocate_one(segment_bytes - 16);
    EXPECT_EQ(from.count_disjoint({small, large}), 2u);
    const std::vector<block> got = from.allocate(std::vector<std::uint64_t>(32, 100));
    EXPECT_EQ(from.count_disjoint(got), 32u);
    EXPECT_EQ(blocks_of_heap(), 34u);
    from.free(got);
    from.free({small, large});
    EXPECT_EQ(blocks_of_heap(), 0u);
}

TEST_P(by_warp_allocator, lanes_of_one_warp_ask_two_heaps) {
    heap other = new_heap(32);
    const one_of_two both{by_8_kib(heap_->ref()), by_8_kib(other.ref())};
    auto from = rig<by_8_kib>();
    const std::vector<std::uint64_t> sizes = mixed_sizes(96, 120);
    const auto wanted = from.array_of(sizes);
    const auto blocks = from.array_of(std::vector<block>(sizes.size()));
    from.launch(simt::grid_for(sizes.size(), 96),
                allocate_sizes<one_of_two>{both, wanted.data(), blocks.data(), sizes.size()});
    EXPECT_EQ(from.count_disjoint(from.to_host(blocks)), sizes.size());
    EXPECT_EQ(blocks_of_heap(), 3u);
    EXPECT_EQ(blocks_of(other), 3u);
    from.launch(simt::grid_for(sizes.size(), 64), free_blocks<one_of_two>{both, blocks.data(), sizes.size()});
    EXPECT_EQ(blocks_of_heap(), 0u);
    EXPECT_EQ(blocks_of(other), 0u);
}

}  // namespace
}  // namespace orchard::test
