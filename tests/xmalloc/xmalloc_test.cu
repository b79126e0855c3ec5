// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// XMalloc in front of a heap, of the system's heap and of a bump allocator: the contract of `device_allocator`, and the
// faults of the published text.

#include "runtime/published/xmalloc.hpp"

#include <optional>

#include "runtime/published/bump.hpp"
#include "tests/support/published_rig.cuh"

namespace orchard::test {
namespace {

constexpr std::uint64_t too_large = std::uint64_t{1} << 33;

class xmalloc_allocator : public on_each_device {
protected:
    void SetUp() override {
        on_each_device::SetUp();
        if (!IsSkipped()) {
            make_heap(32);
        }
    }
    void TearDown() override {
        if (heap_) {
            const absl::Status s = heap_->validate();
            EXPECT_TRUE(s.ok()) << s;
        }
    }
    void make_heap(std::uint64_t segments) {
        options o;
        o.device = GetParam();
        o.capacity = segments * segment_bytes;
        o.emulated_workers = 3;
        heap_.reset();
        auto made = heap::create(o);
        ASSERT_TRUE(made.ok()) << made.status();
        heap_.emplace(*std::move(made));
    }
    template <bool Coalesces = true>
    xmalloc<heap_ref, Coalesces> before_heap(std::uint32_t queues, std::uint32_t most_coalesced = 1024) {
        auto made = xmalloc<heap_ref, Coalesces>::create(
            *heap_, {.queues = queues, .most_coalesced = most_coalesced, .capacity = 0});
        EXPECT_TRUE(made.ok()) << made.status();
        return *std::move(made);
    }
    template <class Allocator>
    static auto rig_of(const Allocator& a) {
        return published_rig<decltype(a.ref())>(a.executor(), a.ref());
    }
    /// Returns the blocks of the heap that are in use.
    std::uint64_t blocks_of_heap() {
        EXPECT_TRUE(heap_->validate().ok());
        const auto s = heap_->stats();
        EXPECT_TRUE(s.ok()) << s.status();
        return s->pages_in_use + s->live_chunks;
    }
    template <bool Coalesces>
    void check_contract(std::uint32_t queues) {
        {
            auto a = before_heap<Coalesces>(queues);
            auto rig = rig_of(a);
            for (int round = 0; round < 3; ++round) {
                rig.cycle(mixed_sizes(1000, 300));
                rig.cycle(mixed_sizes(200, 5000));
            }
            EXPECT_EQ(rig.churn(2000, 30), 0u);
            rig.expect_mallocs_beside_frees(100, 640);
            rig.expect_nulls({too_large, 0xffffffff, 0xfffffff0, ~std::uint64_t{0}, ~std::uint64_t{0} - 20});
            const auto buffered = a.buffered();
            ASSERT_TRUE(buffered.ok()) << buffered.status();
            EXPECT_EQ(*buffered != 0, queues != 0);
            EXPECT_EQ(blocks_of_heap(), *buffered) << "a block is lost";
        }
        EXPECT_EQ(blocks_of_heap(), 0u) << "the owner gives the blocks of its queues back";
    }

    std::optional<heap> heap_;
};
INSTANTIATE_TEST_SUITE_P(all, xmalloc_allocator, both_kinds(), kind_name);

TEST_P(xmalloc_allocator, contract_with_both_layers) { check_contract<true>(16); }
TEST_P(xmalloc_allocator, contract_with_one_queue_a_class) { check_contract<true>(1); }
TEST_P(xmalloc_allocator, contract_without_queues) { check_contract<true>(0); }
TEST_P(xmalloc_allocator, contract_without_coalescing) { check_contract<false>(16); }
TEST_P(xmalloc_allocator, contract_without_either) { check_contract<false>(0); }

TEST_P(xmalloc_allocator, reuse_needs_no_more_memory) {
    // With several queues, a block may lie in another one than the thread draws.
    auto a = before_heap(1);
    auto rig = rig_of(a);
    rig.cycle(mixed_sizes(600, 500));
    const std::uint64_t after_one = blocks_of_heap();
    for (int round = 0; round < 20; ++round) {
        rig.cycle(mixed_sizes(600, 500));
    }
    EXPECT_LE(blocks_of_heap(), after_one);
}

TEST_P(xmalloc_allocator, a_warp_gets_one_block_and_its_last_free_releases_it) {
    auto a = before_heap(0);
    auto rig = rig_of(a);
    std::vector<std::uint64_t> sizes(32, 40);
    sizes[1] = 900;
    std::vector<block> got = rig.allocate(sizes);
    EXPECT_EQ(blocks_of_heap(), 1u);
    const std::vector<block> last(1, got[17]);
    got[17] = {};
    rig.free(got);
    EXPECT_EQ(blocks_of_heap(), 1u);
    rig.free(last);
    EXPECT_EQ(blocks_of_heap(), 0u);
    sizes[3] = 1025;  // more than `most_coalesced`
    got = rig.allocate(sizes);
    EXPECT_EQ(blocks_of_heap(), 2u);
    rig.free({got[3]});
    EXPECT_EQ(blocks_of_heap(), 1u) << "a large block is free at once";
    got[3] = {};
    rig.free(got);
    EXPECT_EQ(blocks_of_heap(), 0u);
}

TEST_P(xmalloc_allocator, without_coalescing_each_lane_has_a_block) {
    auto a = before_heap<false>(0);
    auto rig = rig_of(a);
    const std::vector<block> got = rig.allocate(std::vector<std::uint64_t>(32, 40));
    EXPECT_EQ(blocks_of_heap(), 32u);
    rig.free(got);
    EXPECT_EQ(blocks_of_heap(), 0u);
}

// In print all lanes of a warp get null if there is no block for all of them.
TEST_P(xmalloc_allocator, lanes_are_served_alone_if_there_is_no_memory_for_all) {
    auto memory = bump::create(on_, {1024});
    ASSERT_TRUE(memory.ok()) << memory.status();
    auto a = xmalloc<bump_ref>::create_before(memory->ref(), on_, {.queues = 0});
    ASSERT_TRUE(a.ok()) << a.status();
    const std::vector<block> got = rig_of(*a).allocate(std::vector<std::uint64_t>(32, 64));
    EXPECT_EQ(rig_of(*a).count_disjoint(got), 1024u / (64 + 16));
}

// In print a request asks one queue and then the base allocator: free blocks in other queues are out of its reach.
TEST_P(xmalloc_allocator, free_blocks_in_other_queues_serve_when_the_base_has_no_memory) {
    make_heap(2);
    auto a = before_heap(16);
    auto rig = rig_of(a);
    std::vector<block> got = rig.allocate(std::vector<std::uint64_t>(700, 8000));
    const std::size_t had = rig.count_disjoint(got);
    EXPECT_GT(had, 200u);
    EXPECT_LT(had, 700u) << "the heap ends";
    rig.stamp(got);
    rig.expect_stamped(got);
    rig.free(got);
    EXPECT_GT(*a.buffered(), 100u);
    // The same class again, from any of its queues; then memory that lies in queues of another class.
    got = rig.allocate(std::vector<std::uint64_t>(40, 8000));
    EXPECT_EQ(rig.count_disjoint(got), 40u);
    rig.free(got);
    const block large = rig.allocate_one(3 << 20);
    EXPECT_NE(large.address, 0u);
    EXPECT_EQ(*a.buffered(), 0u);
    rig.free({large});
    rig.cycle(std::vector<std::uint64_t>(480, 100));
}

TEST_P(xmalloc_allocator, the_systems_heap_as_the_base) {
    using allocator = xmalloc<system_malloc_ref>;
    auto a = allocator::create(on_);
    ASSERT_TRUE(a.ok()) << a.status();
    auto rig = rig_of(*a);
    rig.cycle(mixed_sizes(1000, 300));
    EXPECT_EQ(rig.churn(700, 20), 0u);
    EXPECT_GT(*a->buffered(), 0u);
    ASSERT_TRUE(a->initialise().ok());
    EXPECT_EQ(*a->buffered(), 0u);
    rig_of(*a).cycle(mixed_sizes(100, 300));
}

TEST_P(xmalloc_allocator, a_heap_of_its_own_is_empty_again) {
    auto a = xmalloc<>::create(on_, {.capacity = 4 * segment_bytes});
    ASSERT_TRUE(a.ok()) << a.status();
    for (int round = 0; round < 3; ++round) {
        const std::vector<block> got = rig_of(*a).allocate(std::vector<std::uint64_t>(5, segment_bytes / 2));
        EXPECT_EQ(rig_of(*a).count_disjoint(got), 5u) << "the blocks of the round before are gone";
        ASSERT_TRUE(a->initialise().ok());
    }
    auto moved = *std::move(a);
    rig_of(moved).cycle(mixed_sizes(100, 300));
}

TEST(xmalloc_settings, wrong_ones_are_named) {
    for (const std::uint32_t queues : {3u, 17u, 32u}) {
        const absl::Status s = xmalloc<system_malloc_ref>::create({}, {.queues = queues}).status();
        EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
        EXPECT_NE(s.message().find("queues = " + std::to_string(queues)), std::string::npos) << s;
    }
    const absl::Status s = xmalloc<system_malloc_ref>::create({}, {.most_coalesced = 65537}).status();
    EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(s.message().find("65537"), std::string::npos) << s;
}

}  // namespace
}  // namespace orchard::test
