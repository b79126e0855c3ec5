// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The queues of free blocks, and the sizes of their classes.

#include "device/published/xmalloc/block_buffers.cuh"
#include "device/published/xmalloc/system_malloc.cuh"
#include "tests/support/published_rig.cuh"

namespace orchard::test {
namespace {

using device::block_fifo;
using device::block_fifo_ends;
using device::buffer_classes;

/// The words of a queue in host memory.
struct fifo_words {
    explicit fifo_words(std::uint32_t room) : messages(room) {
        ends.head.store<simt::order::relaxed>(0);
        ends.tail.store<simt::order::relaxed>(block_fifo::first_tail());
        for (std::uint32_t i = 0; i < room; ++i) {
            messages[i].store<simt::order::relaxed>(block_fifo::first_message(i, room));
        }
    }
    [[nodiscard]] block_fifo queue() { return {&ends, messages.data(), static_cast<std::uint32_t>(messages.size())}; }

    block_fifo_ends ends{};
    std::vector<block_fifo::word> messages;
};

TEST(xmalloc_fifo, blocks_come_out_in_their_order_and_a_full_queue_takes_none) {
    for (const std::uint32_t room : {2u, 16u, 256u}) {
        fifo_words words(room);
        const block_fifo queue = words.queue();
        std::uint64_t next_in = 1;
        std::uint64_t next_out = 1;
        for (std::uint32_t round = 0; round < 5; ++round) {
            EXPECT_EQ(queue.take(), 0u);
            while (queue.put(next_in * 16)) {
                ++next_in;
            }
            EXPECT_EQ(next_in - next_out, room);
            for (std::uint32_t i = 0; i < room - round % 2; ++i) {
                EXPECT_EQ(queue.take(), next_out++ * 16);
            }
            while (next_out < next_in) {
                EXPECT_EQ(queue.take(), next_out++ * 16);
            }
        }
    }
}

TEST(xmalloc_fifo, numbers_wrap) {
    fifo_words words(2);
    const block_fifo queue = words.queue();
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 1; i < (1 << 20) + 50; ++i) {
        wrong += queue.put(i * 16) ? 0 : 1;
        wrong += queue.take() == i * 16 ? 0 : 1;
    }
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(queue.take(), 0u);
}

TEST(xmalloc_fifo, any_address_below_the_end_is_kept) {
    fifo_words words(16);
    for (const std::uint64_t address : {std::uint64_t{16}, std::uint64_t{1} << 32, (std::uint64_t{1} << 48) - 16}) {
        EXPECT_TRUE(words.queue().put(address));
        EXPECT_EQ(words.queue().take(), address);
    }
}

/// Each thread takes a block from any of its two queues and puts it into the other one; what a full queue refuses goes
/// to the thread's place in `left`.
struct pass_blocks {
    block_fifo_ends* ends;       // [2]
    block_fifo::word* messages;  // [2][room]
    std::uint32_t room;
    std::uint32_t rounds;
    std::uint64_t* left;  // [threads][rounds]

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint32_t round = 0; round < rounds; ++round) {
            const std::uint32_t from = (round + at.thread) % 2;
            const std::uint64_t address = block_fifo(ends + from, messages + from * room, room).take();
            const std::uint32_t to = 1 - from;
            if (address != 0 && !block_fifo(ends + to, messages + to * room, room).put(address)) {
                left[at.global_thread() * rounds + round] = address;
            }
        }
    }
};

class xmalloc_queues : public on_each_device {};
INSTANTIATE_TEST_SUITE_P(all, xmalloc_queues, both_kinds(), kind_name);

TEST_P(xmalloc_queues, no_block_is_lost_or_taken_twice) {
    constexpr std::uint32_t room = 8;
    constexpr std::uint32_t rounds = 40;
    constexpr simt::grid shape{4, 64};
    published_rig<system_malloc_ref> rig(on_, {});
    fifo_words first(room);
    fifo_words second(room);
    for (std::uint64_t i = 1; i <= room; ++i) {
        EXPECT_TRUE(first.queue().put(i * 16));
        EXPECT_TRUE(second.queue().put((room + i) * 16));
    }
    std::vector<block_fifo::word> both = first.messages;
    both.insert(both.end(), second.messages.begin(), second.messages.end());
    const auto ends = rig.array_of(std::vector<block_fifo_ends>{first.ends, second.ends});
    const auto messages = rig.array_of(both);
    const auto left = rig.array_of(std::vector<std::uint64_t>(256 * rounds));
    rig.launch(shape, pass_blocks{ends.data(), messages.data(), room, rounds, left.data()});
    std::vector<std::uint64_t> found;
    for (const std::uint64_t address : rig.to_host(left)) {
        if (address != 0) {
            found.push_back(address);
        }
    }
    std::vector<block_fifo_ends> ended = rig.to_host(ends);
    std::vector<block_fifo::word> held = rig.to_host(messages);
    for (std::uint32_t q = 0; q < 2; ++q) {
        const block_fifo queue(&ended[q], held.data() + q * room, room);
        for (std::uint64_t address = queue.take(); address != 0; address = queue.take()) {
            found.push_back(address);
        }
    }
    std::sort(found.begin(), found.end());
    ASSERT_EQ(found.size(), 2 * room);
    for (std::uint64_t i = 0; i < 2 * room; ++i) {
        EXPECT_EQ(found[i], (i + 1) * 16);
    }
}

TEST(xmalloc_classes, each_size_has_the_smallest_class_that_holds_it) {
    for (std::uint32_t c = 0; c < buffer_classes::count; ++c) {
        const std::uint64_t bytes = buffer_classes::bytes_of(c);
        EXPECT_EQ(bytes % 16, 0u);
        EXPECT_EQ(buffer_classes::class_of(bytes), c);
        EXPECT_EQ(buffer_classes::class_of(bytes + 1), c + 1);
    }
    EXPECT_EQ(buffer_classes::class_of(1), 0u);
    EXPECT_EQ(buffer_classes::bytes_of(buffer_classes::count - 1), buffer_classes::largest);
    EXPECT_EQ(buffer_classes::class_of(~std::uint64_t{0}), buffer_classes::none);
}

}  // namespace
}  // namespace orchard::test
