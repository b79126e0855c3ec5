// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// What all six variants of Ouroboros keep, on both devices.

#include "tests/ouroboros/ouroboros_fixture.hpp"

namespace orchard::test {
namespace {

template <class Subject>
class ouroboros_contract : public ouroboros_test<Subject> {};
TYPED_TEST_SUITE(ouroboros_contract, ouroboros_subjects, ouroboros_names);

/// Returns n sizes from 1 to `most` bytes, small ones most often.
std::vector<std::uint64_t> mixed_sizes(std::size_t n, std::uint64_t most) {
    std::vector<std::uint64_t> sizes(n);
    std::uint64_t x = 12345;
    for (std::uint64_t& s : sizes) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        s = 1 + (x >> 33) % (most >> (x >> 20 & 7));
    }
    return sizes;
}

TYPED_TEST(ouroboros_contract, BlocksAreApartAndKeepTheirContents) {
    const auto m = this->make({.instances = {{.bytes = 4 << 20}}});
    const std::vector<std::uint64_t> sizes = mixed_sizes(1000, 8192);
    for (int round = 0; round < 2; ++round) {
        const std::vector<void*> blocks = this->allocate(m, sizes);
        EXPECT_EQ(this->served(blocks), sizes.size());
        this->expect_apart(blocks, sizes);
        this->free_all(m);
    }
    (void)this->usage(m);
}

TYPED_TEST(ouroboros_contract, FreedMemoryIsUsedAgainWithoutGrowth) {
    // Chunks of 512 B, so that queues in chunks go through many of them.
    const auto m = this->make({.instances = {{.bytes = 256 << 10, .chunk_bytes = 512}}});
    const std::vector<std::uint64_t> sizes(1000, 60);  // 8 pages of 64 B in a chunk: 125 chunks
    for (int round = 0; round < 12; ++round) {
        const std::vector<void*> blocks = this->allocate(m, sizes);
        ASSERT_EQ(this->served(blocks), sizes.size()) << "in round " << round;
        this->expect_apart(blocks, sizes);
        ASSERT_EQ(this->usage(m).of_pages, 125u) << "no chunk more than the blocks need; round " << round;
        this->free_all(m);
        // On a GPU, lanes that free at the same time may leave a few free chunks to their class, until memory lacks.
        const std::uint64_t may_stay = TypeParam::device == device_option::cuda ? 12 : 0;
        const std::uint64_t left = this->usage(m).of_pages;
        ASSERT_TRUE(this->with_chunks ? left <= may_stay : left == 125) << left;
    }
    // Queues in chunks: the pages of 125 chunks, which are 1,000, lie in 8 chunks; each of the six classes has a chunk
    // beside, one ahead, and one in the trail.
    EXPECT_LE(this->usage(m).of_queues,
              device::ouroboros::kind_of(this->which) == device::ouroboros::queue_kind::static_ring ? 0u : 8u + 6 * 3);
}

/// One lane takes all blocks that are left, and frees them again.
template <variant V>
struct take_rest {
    device::ouroboros::ouroboros_ref<V> heap;
    std::uint64_t bytes;
    simt::device_word<std::uint32_t>* taken;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.global_thread() != 0) {
            return;
        }
        void** list = nullptr;
        for (auto** p = static_cast<void**>(heap.malloc(bytes)); p != nullptr;
             p = static_cast<void**>(heap.malloc(bytes))) {
            *p = list;
            list = p;
            taken->template fetch_add<simt::order::relaxed>(1);
        }
        while (list != nullptr) {
            auto** const next = static_cast<void**>(*list);
            heap.free(list);
            list = next;
        }
    }
};

TYPED_TEST(ouroboros_contract, FullMemoryIsServedAgainAfterFrees) {
    const auto m = this->make({.instances = {{.bytes = 128 << 10, .chunk_bytes = 1024}}});
    const std::vector<std::uint64_t> sizes(700, 256);
    std::size_t before = 0;
    for (int round = 0; round < 3; ++round) {
        const std::vector<void*> blocks = this->allocate(m, sizes);
        this->expect_apart(blocks, sizes);
        EXPECT_LT(this->served(blocks), sizes.size());
        const ouroboros_usage u = this->usage(m);
        // While others take chunks, null may come early; a lane that is alone gets the rest.
        auto rest = *device_array<simt::device_word<std::uint32_t>>::create(this->on, 1);
        this->launch(1, take_rest<TestFixture::which>{m.ref(), 256, rest.data()});
        const std::size_t all = this->served(blocks) + this->read(rest);
        EXPECT_EQ(all, (u.of_pages + u.free - u.reserved) * 4) << "all is used that may be, and no page is lost";
        EXPECT_TRUE(round == 0 || all == before) << "the same again";
        before = all;
        this->free_all(m);
    }
}

TYPED_TEST(ouroboros_contract, ChunksChangeTheirClassWhereQueuesHoldChunks) {
    const auto m = this->make({.instances = {{.bytes = 128 << 10, .chunk_bytes = 1024}}});
    const std::vector<std::uint64_t> small(5000, 32);
    const std::size_t many = this->served(this->allocate(m, small));
    EXPECT_LT(many, small.size());
    const ouroboros_usage u = this->usage(m);
    this->free_all(m);
    const std::vector<std::uint64_t> large(128, 1024);
    const std::size_t few = this->served(this->allocate(m, large));
    if (this->with_chunks) {
        EXPECT_EQ(few, u.of_pages) << "each chunk of 32 pages of 32 B is one page of 1,024 B now";
    } else {
        EXPECT_LE(few, u.free - u.reserved) << "section 4.1: a chunk keeps its class";
    }
    this->free_all(m);
    EXPECT_GE(this->served(this->allocate(m, small)), many);
    this->free_all(m);
}

TYPED_TEST(ouroboros_contract, RequestsWithoutAnAnswerGetNull) {
    const auto m = this->make({.instances = {{.bytes = 1 << 20}}});
    const std::vector<void*> blocks =
        this->allocate(m, {0, 1, 8192, 8193, ~std::uint64_t{0}, std::uint64_t{1} << 32, 16});
    EXPECT_EQ(blocks[0], nullptr);
    EXPECT_NE(blocks[1], nullptr);
    EXPECT_NE(blocks[2], nullptr) << "a page as large as a chunk";
    EXPECT_EQ(blocks[3], nullptr);
    EXPECT_EQ(blocks[4], nullptr);
    EXPECT_EQ(blocks[5], nullptr);
    EXPECT_NE(blocks[6], nullptr);
}

/// Each lane allocates and frees at random, in any divergence; each block carries its owner's tag at both ends.
template <variant V>
struct churn {
    static constexpr int most_held = 3;
    device::ouroboros::ouroboros_ref<V> heap;
    simt::device_word<std::uint32_t>* wrong;
    simt::device_word<std::uint32_t>* nulls;
    std::uint32_t most_bytes;
    int rounds;

    struct held {
        std::uint32_t* at = nullptr;
        std::uint32_t words = 0;
    };

    ORCHARD_FN void drop(held& h, std::uint32_t tag) const {
        if (h.at == nullptr) {
            return;
        }
        if (h.at[0] != tag || h.at[h.words - 1] != tag) {
            wrong->template fetch_add<simt::order::relaxed>(1);
        }
        heap.free(h.at);
        h.at = nullptr;
    }
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto tag = static_cast<std::uint32_t>(at.global_thread()) + 1;
        std::uint32_t x = tag * 0x9e3779b9u;
        held blocks[most_held];
        for (int round = 0; round < rounds; ++round) {
            x = x * 1664525u + 1013904223u;
            held& h = blocks[(x >> 28) % most_held];
            drop(h, tag);
            if ((x >> 8 & 3) != 0) {
                const std::uint32_t bytes = 4 + (x >> 10) % ((most_bytes >> (x >> 26 & 3)) - 3);
                h = {static_cast<std::uint32_t*>(heap.malloc(bytes)), bytes / 4};
                if (h.at == nullptr) {
                    nulls->template fetch_add<simt::order::relaxed>(1);
                } else {
                    h.at[0] = h.at[h.words - 1] = tag;
                }
            }
            if ((x >> 16 & 3) == 0) {
                simt::pause(0);
            }
        }
        for (held& h : blocks) {
            drop(h, tag);
        }
    }
};

TYPED_TEST(ouroboros_contract, ManyLanesAllocateAndFreeAtOnce) {
    // At most 3 blocks of 192 lanes are in use; also if each class has as many pages, 2 MiB suffice.
    const auto m = this->make({.instances = {{.bytes = 2 << 20, .chunk_bytes = 1024, .smallest_page = 32}}});
    auto wrong = *device_array<simt::device_word<std::uint32_t>>::create(this->on, 1);
    auto nulls = *device_array<simt::device_word<std::uint32_t>>::create(this->on, 1);
    this->launch(192, churn<TestFixture::which>{m.ref(), wrong.data(), nulls.data(), 1024, 100});
    EXPECT_EQ(this->read(wrong), 0u);
    EXPECT_EQ(this->read(nulls), 0u);
    const ouroboros_usage u = this->usage(m);
    if (this->with_chunks) {
        // A chunk may stay that was full of free pages while they were promised; the next request in need takes it.
        EXPECT_LE(u.of_pages, u.chunks / 8);
    }
}

TYPED_TEST(ouroboros_contract, ScarceMemoryIsNeverGivenTwice) {
    // Less than a tenth of what the lanes ask for; how many get null depends on the order in which they run.
    const auto m = this->make({.instances = {{.bytes = 40 << 10, .chunk_bytes = 512, .smallest_page = 64}}});
    auto wrong = *device_array<simt::device_word<std::uint32_t>>::create(this->on, 1);
    auto nulls = *device_array<simt::device_word<std::uint32_t>>::create(this->on, 1);
    this->launch(192, churn<TestFixture::which>{m.ref(), wrong.data(), nulls.data(), 512, 60});
    EXPECT_EQ(this->read(wrong), 0u);
    (void)this->usage(m);
    if (this->with_chunks) {
        const std::vector<std::uint64_t> sizes(30, 512);
        EXPECT_EQ(this->served(this->allocate(m, sizes)), sizes.size()) << "all memory has come back";
        this->free_all(m);
    }
}

TYPED_TEST(ouroboros_contract, InstancesServeSizesOfTheirOwn) {
    const auto m = this->make({.instances = {{.bytes = 256 << 10, .chunk_bytes = 1024},
                                             {.bytes = 1 << 20, .chunk_bytes = 16 << 10},
                                             {.bytes = 2 << 20, .chunk_bytes = 64 << 10, .smallest_page = 64 << 10}}});
    ASSERT_EQ(m.instances(), 3u);
    const std::vector<std::uint64_t> sizes{16, 1024, 1025, 2048, 16 << 10, (16 << 10) + 1, 64 << 10, (64 << 10) + 1};
    const std::vector<void*> blocks = this->allocate(m, sizes);
    EXPECT_EQ(this->served(blocks), sizes.size() - 1);
    EXPECT_EQ(blocks.back(), nullptr);
    this->expect_apart(blocks, sizes);
    EXPECT_EQ(this->usage(m, 0).of_pages, 2u);
    EXPECT_EQ(this->usage(m, 1).of_pages, 2u);  // both blocks of 1,025 B and 2,048 B lie in one chunk
    EXPECT_EQ(this->usage(m, 2).of_pages, 2u);
    this->free_all(m);
}

TYPED_TEST(ouroboros_contract, InitialisedAgainItIsEmptyAndOfAnotherSize) {
    auto m = this->make({.instances = {{.bytes = 128 << 10, .chunk_bytes = 1024}}});
    const std::vector<std::uint64_t> sizes(200, 1024);
    const std::size_t first = this->served(this->allocate(m, sizes));
    EXPECT_LT(first, sizes.size());
    ASSERT_TRUE(m.initialise().ok());
    EXPECT_EQ(this->usage(m).of_pages, 0u);
    EXPECT_EQ(this->served(this->allocate(m, sizes)), first);
    ASSERT_TRUE(m.initialise({.instances = {{.bytes = 512 << 10, .chunk_bytes = 1024}}}).ok());
    EXPECT_EQ(this->served(this->allocate(m, sizes)), sizes.size());
    this->free_all(m);
    EXPECT_FALSE(m.initialise({.instances = {}}).ok());
    EXPECT_EQ(this->served(this->allocate(m, sizes)), sizes.size()) << "unchanged by an error";
    this->free_all(m);
}

/// One lane frees what is no block.
template <variant V>
struct free_wrongly {
    device::ouroboros::ouroboros_ref<V> heap;
    bool twice;
    simt::device_word<std::uint32_t>* wrong;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.global_thread() != 0) {
            return;
        }
        auto* const p = static_cast<char*>(heap.malloc(64));
        void* const kept = heap.malloc(64);
        heap.free(nullptr);
        heap.free(p + 8);
        heap.free(heap.instance(0).chunks_at +
                  (std::uint64_t{heap.instance(0).chunks - 1} << heap.instance(0).chunk_log));
        heap.free(heap.instance(0).chunks_at + (std::uint64_t{heap.instance(0).chunks} << heap.instance(0).chunk_log));
        heap.free(p);
        if (twice) {
            heap.free(p);
        }
        void* const a = heap.malloc(64);
        void* const b = heap.malloc(64);
        if (a == b || a == kept || b == kept || a == nullptr || b == nullptr) {
            wrong->template fetch_add<simt::order::relaxed>(1);
        }
    }
};

TYPED_TEST(ouroboros_contract, WrongFreesAreIgnored) {
    const auto m = this->make({.instances = {{.bytes = 1 << 20}}});
    auto wrong = *device_array<simt::device_word<std::uint32_t>>::create(this->on, 1);
    this->launch(1, free_wrongly<TestFixture::which>{m.ref(), this->with_chunks, wrong.data()});
    EXPECT_EQ(this->read(wrong), 0u);
    (void)this->usage(m);
}

}  // namespace
}  // namespace orchard::test
