// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The parts of Ouroboros: the bulk semaphore, the index queue, and the three kinds of queues.

#include <atomic>
#include <numeric>

#include "tests/ouroboros/ouroboros_fixture.hpp"
#include "tests/simt/run_emulated.hpp"

namespace orchard::test {
namespace {

using device::ouroboros::bulk_semaphore;
using device::ouroboros::queue_kind;

void expect_counters(const bulk_semaphore& s, std::uint32_t count) {
    EXPECT_EQ(s.read().count, count);
    EXPECT_EQ(s.read().reserved, 0u);
    EXPECT_EQ(s.read().expected, 0u);
}

TEST(OuroborosSemaphore, AFailedAllocationAddsNothingAndEndsTheWaits) {
    bulk_semaphore s{};
    std::atomic<int> refused{0};
    const auto r = simt::run_emulated({2, 64}, [&](simt::thread_position) {
        const bool taken = s.wait(1, 16, [] {
            simt::pause(0);  // the other lanes reserve pages of this chunk, which does not come
            return false;
        });
        refused += taken ? 0 : 1;
    });
    ASSERT_TRUE(r.ok) << r.error;
    EXPECT_EQ(refused, 128);
    expect_counters(s, 0);
}

TEST(OuroborosSemaphore, OneLaneAllocatesForAllThatItsChunkServes) {
    for (const std::uint32_t pages : {1u, 8u, 32u, 1000u}) {
        bulk_semaphore s{};
        std::atomic<std::uint32_t> chunks{0};
        const auto r = simt::run_emulated({3, 64}, [&](simt::thread_position) {
            EXPECT_TRUE(s.wait(1, pages, [&] {
                simt::pause(0);
                ++chunks;
                s.signal_chunk(pages);
                return true;
            }));
        });
        ASSERT_TRUE(r.ok) << r.error;
        EXPECT_EQ(chunks, (192 + pages - 1) / pages) << "no chunk more than the lanes need";
        expect_counters(s, chunks * pages - 192);
    }
}

TEST(OuroborosSemaphore, PagesThatAreThereAreTakenBeforeAFailure) {
    bulk_semaphore s{};
    const auto none = [] { return false; };
    s.signal(3);
    EXPECT_TRUE(s.wait(2, 8, none));
    EXPECT_FALSE(s.wait(2, 8, none)) << "one is left";
    EXPECT_FALSE(s.try_take(2));
    EXPECT_TRUE(s.try_take(1));
    expect_counters(s, 0);
    // A page that is freed while the allocation fails is taken.
    EXPECT_TRUE(s.wait(1, 8, [&] {
        s.signal(1);
        return false;
    }));
    expect_counters(s, 0);
}

TEST(OuroborosSemaphore, CountsMorePagesThan21BitsHold) {
    bulk_semaphore s{};
    constexpr std::uint32_t many = 3u << 21;
    s.signal(many);
    expect_counters(s, many);
    EXPECT_TRUE(s.try_take(many - 1));
    expect_counters(s, 1);
}

using ring_queue = device::ouroboros::index_queue<device::ouroboros::static_ring>;

struct ring_memory {
    device::ouroboros::queue_words words{};
    std::vector<simt::device_word<std::uint32_t>> ring = std::vector<simt::device_word<std::uint32_t>>(8);
    ring_queue queue{words, device::ouroboros::static_ring(ring.data(), 3), 8};
};

TEST(OuroborosIndexQueue, HoldsAsManyAsItHasPlacesAndNotOneMore) {
    ring_memory m;
    for (std::uint32_t round = 0; round < 5; ++round) {
        EXPECT_EQ(m.queue.try_take(), 0u);
        for (std::uint32_t i = 1; i <= 8; ++i) {
            EXPECT_TRUE(m.queue.try_put(round * 8 + i));
        }
        EXPECT_FALSE(m.queue.try_put(1000)) << "in print, a ninth waits for a place";
        for (std::uint32_t i = 1; i <= 8; ++i) {
            EXPECT_EQ(m.queue.try_take(), round * 8 + i) << "in order";
        }
    }
}

TEST(OuroborosIndexQueue, EachValueComesOutOnce) {
    ring_memory m;
    constexpr std::uint32_t lanes = 4 * 64;
    constexpr std::uint32_t each = 20;
    std::vector<std::atomic<std::uint32_t>> seen(lanes * each + 1);
    const auto note = [&](std::uint32_t value) {
        if (value != 0) {
            ++seen[value];
        }
    };
    const auto r = simt::run_emulated(
        {4, 64},
        [&](simt::thread_position at) {
            for (std::uint32_t i = 0; i < each; ++i) {
                const auto value = static_cast<std::uint32_t>(at.global_thread()) * each + i + 1;
                while (!m.queue.try_put(value)) {
                    note(m.queue.try_take());
                }
                if (i % 3 == 0) {
                    note(m.queue.try_take());
                }
            }
        },
        3);
    ASSERT_TRUE(r.ok) << r.error;
    for (std::uint32_t left = m.queue.try_take(); left != 0; left = m.queue.try_take()) {
        ++seen[left];
    }
    for (std::uint32_t value = 1; value < seen.size(); ++value) {
        ASSERT_EQ(seen[value], 1u) << value;
    }
}

/// A queue of one kind alone, of class 0 of a manager that is not used otherwise: chunks of 256 B, 64 places each.
template <class Kind>
class ouroboros_queues : public ::testing::Test {
protected:
    static constexpr queue_kind kind = device::ouroboros::kind_of(Kind::value);
    using storage = decltype(device::ouroboros::storage_of<kind>(device::ouroboros::instance_view(), 0));
    using queue = device::ouroboros::counted_queue<storage>;
    using manager = ouroboros<Kind::value>;

    static manager make(std::uint32_t trail) {
        return *manager::create(simt::executor{},
                                {.instances = {{.bytes = 64 << 10, .chunk_bytes = 256}}, .trail = trail});
    }
    static queue queue_of(const manager& m) {
        const device::ouroboros::instance_view& v = m.ref().instance(0);
        return {v.classes[0].queue, device::ouroboros::storage_of<kind>(v, 0)};
    }
    /// Expects that all chunks are free but those that queues have while they are empty.
    static void expect_given_back(const manager& m, std::uint32_t trail) {
        const ouroboros_usage u = *m.usage();
        EXPECT_EQ(u.of_pages + u.of_queues + u.free, u.chunks);
        // The other four classes have not begun, and have one each.
        EXPECT_LE(u.of_queues, kind == queue_kind::static_ring ? 0 : 4 + 2 + trail);
    }
};
template <variant V>
using of_kind = std::integral_constant<variant, V>;
using all_kinds = ::testing::Types<of_kind<variant::s_pages>, of_kind<variant::va_pages>, of_kind<variant::vl_pages>>;
struct kind_names {
    template <class Kind>
    static std::string GetName(int) {
        return device::ouroboros::name_of(Kind::value);
    }
};
TYPED_TEST_SUITE(ouroboros_queues, all_kinds, kind_names);

TYPED_TEST(ouroboros_queues, KeepTheOrderOverManyChunks) {
    for (const std::uint32_t trail : {0u, 1u, 3u}) {
        const auto m = this->make(trail);
        auto q = this->queue_of(m);
        std::uint32_t in = 0;
        std::uint32_t out = 0;
        for (std::uint32_t round = 0; round < 60; ++round) {
            for (std::uint32_t i = 0; i < 50 + round; ++i) {
                q.put(++in);
            }
            while (out + round % 7 < in) {
                ASSERT_EQ(q.take(), ++out);
            }
        }
        while (out < in) {
            ASSERT_EQ(q.take(), ++out);
        }
        this->expect_given_back(m, trail);
    }
}

TYPED_TEST(ouroboros_queues, PassEachValueOnceBetweenManyLanes) {
    for (const std::uint32_t trail : {0u, 2u}) {
        const auto m = this->make(trail);
        constexpr std::uint32_t lanes = 4 * 32;
        constexpr std::uint32_t each = 40;
        std::vector<std::atomic<std::uint32_t>> seen(lanes * each + 1);
        const auto r = simt::run_emulated(
            {4, 32},
            [&](simt::thread_position at) {
                auto q = this->queue_of(m);
                for (std::uint32_t i = 0; i < each; ++i) {
                    const auto t = static_cast<std::uint32_t>(at.global_thread());
                    // Every lane adds before it takes, so that there is a value for each.
                    q.put(t * each + i + 1);
                    if (t % 3 == 0) {
                        simt::pause(0);
                    }
                    ++seen[q.take()];
                }
            },
            3);
        ASSERT_TRUE(r.ok) << r.error;
        for (std::uint32_t value = 1; value < seen.size(); ++value) {
            ASSERT_EQ(seen[value], 1u) << value;
        }
        this->expect_given_back(m, trail);
    }
}

TYPED_TEST(ouroboros_queues, LetReadersComeBeforeWriters) {
    const auto m = this->make(1);
    constexpr std::uint32_t n = 3 * 64;
    std::vector<std::atomic<std::uint32_t>> seen(n + 1);
    const auto r = simt::run_emulated(
        {1, 2 * n},
        [&](simt::thread_position at) {
            auto q = this->queue_of(m);
            if (at.thread < n) {
                ++seen[q.take()];
            } else {
                q.put(at.thread - n + 1);
            }
        },
        1);
    ASSERT_TRUE(r.ok) << r.error;
    for (std::uint32_t value = 1; value <= n; ++value) {
        ASSERT_EQ(seen[value], 1u) << value;
    }
    this->expect_given_back(m, 1);
}

}  // namespace
}  // namespace orchard::test
