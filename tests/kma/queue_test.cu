// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The queues of superblocks: their order, and what threads do to them at the same time.

#include "device/published/kma/superblock_queue.cuh"

#include "device/published/xmalloc/system_malloc.cuh"
#include "tests/support/published_rig.cuh"

namespace orchard::test {
namespace {

using device::queued_superblock;
using device::superblock_queue;
using device::superblock_queues;

/// Queues in host memory: the first has all superblocks, the others none.
struct queue_words {
    queue_words(std::uint32_t superblocks, std::uint32_t count)
        : queues(count), next(superblocks + count), values(superblocks + count) {
        for (std::uint32_t i = 0; i < next.size(); ++i) {
            nodes().make_node(i, i < superblocks ? i + 1 : superblock_queues::none, i - 1);
        }
        superblock_queues::make_queue(queues[0], 0, superblocks);
        for (std::uint32_t q = 1; q < count; ++q) {
            superblock_queues::make_queue(queues[q], superblocks + q, superblocks + q);
        }
    }
    superblock_queues nodes() { return {next.data(), values.data()}; }

    std::vector<superblock_queue> queues;
    std::vector<superblock_queues::word> next;
    std::vector<superblock_queues::index_word> values;
};

TEST(kma_queue, superblocks_come_out_in_their_order_to_the_last_one) {
    queue_words words(5, 3);
    const superblock_queues nodes = words.nodes();
    queued_superblock got{};
    for (std::uint32_t round = 0; round < 100; ++round) {
        const std::uint32_t from = round % 3;
        const std::uint32_t to = (round + 1) % 3;
        for (std::uint32_t s = 0; s < 5; ++s) {
            ASSERT_TRUE(nodes.take(words.queues[from], &got));
            EXPECT_EQ(got.superblock, s);
            nodes.put(words.queues[to], got);
        }
        EXPECT_FALSE(nodes.take(words.queues[from], &got));
    }
}

/// Threads move superblocks from queue to queue.
struct move_superblocks {
    superblock_queues nodes;
    superblock_queue* queues;
    std::uint32_t count;
    std::uint32_t rounds;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint32_t round = 0; round < rounds; ++round) {
            const std::uint32_t random = device::mix(static_cast<std::uint32_t>(at.global_thread()) * 333 + round);
            queued_superblock got{};
            if (nodes.take(queues[random % count], &got)) {
                nodes.put(queues[(random >> 16) % count], got);
            }
        }
    }
};

class kma_queues : public on_each_device {};
INSTANTIATE_TEST_SUITE_P(all, kma_queues, both_kinds(), kind_name);

TEST_P(kma_queues, no_superblock_is_lost_or_taken_twice) {
    for (const std::uint32_t superblocks : {1u, 3u, 40u}) {
        constexpr std::uint32_t count = 3;
        published_rig<system_malloc_ref> rig(on_, {});
        queue_words words(superblocks, count);
        const auto queues = rig.array_of(words.queues);
        const auto next = rig.array_of(words.next);
        const auto values = rig.array_of(words.values);
        rig.launch({4, 64}, move_superblocks{{next.data(), values.data()}, queues.data(), count, 60});
        words.queues = rig.to_host(queues);
        words.next = rig.to_host(next);
        words.values = rig.to_host(values);
        std::vector<std::uint32_t> found;
        std::vector<std::uint32_t> nodes;
        for (superblock_queue& q : words.queues) {
            queued_superblock got{};
            while (words.nodes().take(q, &got)) {
                found.push_back(got.superblock);
                nodes.push_back(got.node);
            }
            nodes.push_back(static_cast<std::uint32_t>(q.head.load<simt::order::relaxed>()));
        }
        std::sort(found.begin(), found.end());
        std::sort(nodes.begin(), nodes.end());
        ASSERT_EQ(found.size(), superblocks);
        for (std::uint32_t s = 0; s < superblocks; ++s) {
            EXPECT_EQ(found[s], s);
        }
        EXPECT_TRUE(std::adjacent_find(nodes.begin(), nodes.end()) == nodes.end()) << "a node is in two places";
        EXPECT_EQ(nodes.size(), superblocks + count);
    }
}

}  // namespace
}  // namespace orchard::test
