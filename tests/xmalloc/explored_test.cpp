// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// XMalloc under the exploring scheduler: in every order of events and with weak memory, a block has one owner at a
/// time, an owner's writes happen before the next owner's, and no block is lost.

#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "device/published/xmalloc/xmalloc_ref.cuh"
#include "device/simt/explore/simulation.hpp"
#include "tests/support/explore_seeds.hpp"

namespace orchard {
namespace {

using device::block_buffers;
using device::block_fifo;
using device::block_fifo_ends;
using device::buffer_classes;
using simt::explore::simulation;

void make_empty(block_fifo_ends& ends, block_fifo::word* messages, std::uint32_t room) {
    ends.head.store<simt::order::relaxed>(0);
    ends.tail.store<simt::order::relaxed>(block_fifo::first_tail());
    for (std::uint32_t i = 0; i < room; ++i) {
        messages[i].store<simt::order::relaxed>(block_fifo::first_message(i, room));
    }
}

/// Lanes pass three blocks through a queue with room for two; a lane keeps what the queue refuses.
void full_queue(simulation& s) {
    constexpr std::uint32_t room = 2;
    block_fifo_ends ends{};
    std::array<block_fifo::word, room> messages{};
    make_empty(ends, messages.data(), room);
    alignas(16) std::array<std::array<simt::plain<std::uint64_t>, 2>, 4> blocks{};
    s.name_words(&ends.head, 8, "head");
    s.name_words(&ends.tail, 8, "tail");
    s.name_words(messages.data(), sizeof(messages), "messages", 8);
    const block_fifo queue(&ends, messages.data(), room);
    int refused = 0;
    int owned = 0;
    s.add_kernel({{2}, {2}}, [&](simt::thread_position at) {
        auto* mine = blocks[at.block * 2 + at.thread].data();
        for (int round = 0; round < 3; ++round) {
            if (mine != nullptr) {
                mine->set(at.global_thread() + 1);
                if (queue.put(reinterpret_cast<std::uint64_t>(mine))) {
                    mine = nullptr;
                } else {
                    ++refused;
                }
            }
            if (mine == nullptr) {
                mine = reinterpret_cast<simt::plain<std::uint64_t>*>(queue.take());
                if (mine != nullptr) {
                    s.own(mine, 16, "block");
                    mine->set(0);
                    s.disown(mine);
                }
            }
        }
        owned += mine != nullptr ? 1 : 0;
    });
    if (s.run()) {
        int left = 0;
        while (queue.take() != 0) {
            ++left;
        }
        s.check(owned + left == 4, "a block is lost");
        s.check(left <= static_cast<int>(room), "the queue holds more than it has room for");
    }
}

/// A base allocator of four blocks of 96 B.
struct four_blocks {
    using block = std::array<simt::plain<std::uint64_t>, 12>;

    simt::device_word<std::uint32_t>* taken = nullptr;
    block* blocks = nullptr;

    [[nodiscard]] void* malloc(std::uint64_t bytes) const {
        for (std::uint32_t i = 0; bytes <= sizeof(block) && i < 4; ++i) {
            if ((taken->fetch_or<simt::order::acquire>(1u << i) >> i & 1) == 0) {
                return blocks + i;
            }
        }
        return nullptr;
    }
    void free(void* p) const { taken->fetch_and<simt::order::release>(~(1u << (static_cast<block*>(p) - blocks))); }
};

/// Lanes of two warps allocate and free through both layers, while four blocks are less than they could use.
void both_layers(simulation& s) {
    simt::device_word<std::uint32_t> taken(0);
    const auto blocks = std::make_unique<std::array<four_blocks::block, 4>>();
    const std::uint32_t queues = 1 + s.pick(2);
    std::array<block_fifo_ends, buffer_classes::count * 2> ends{};
    const auto messages = std::make_unique<std::array<block_fifo::word, buffer_classes::count * 256>>();
    for (std::uint32_t q = 0; q < buffer_classes::count * queues; ++q) {
        make_empty(ends[q], messages->data() + q * (256 / queues), 256 / queues);
    }
    s.name_words(&taken, 4, "taken");
    s.name_words(ends.data(), sizeof(ends), "ends", 8);
    const four_blocks base{&taken, blocks->data()};
    const xmalloc_ref<four_blocks> from({base, queues, ends.data(), messages->data()}, 32);
    s.add_kernel({{2}, {2}}, [&](simt::thread_position at) {
        for (int round = 0; round < 2; ++round) {
            // Two lanes with 16 B need 80 B with their headers; a lane with more than 32 B is served alone.
            const std::uint32_t bytes = s.pick(3) == 0 ? 40 : 16;
            auto* const words = static_cast<simt::plain<std::uint64_t>*>(from.malloc(bytes));
            if (words == nullptr) {
                continue;
            }
            s.own(words, bytes, "block");
            for (std::uint32_t i = 0; i < bytes / 8; ++i) {
                words[i].set(at.global_thread() + 1);
            }
            for (std::uint32_t i = 0; i < bytes / 8; ++i) {
                s.check(words[i].get() == at.global_thread() + 1, "another lane wrote to an owned block");
            }
            s.disown(words);
            from.free(words);
        }
    });
    if (!s.run()) {
        return;
    }
    s.add_kernel({{1}}, [&](simt::thread_position) {
        for (std::uint32_t q = 0; q < from.buffers().all_queues(); ++q) {
            from.buffers().drain(q);
        }
    });
    if (s.run()) {
        s.check(taken.load<simt::order::relaxed>() == 0, "a block is lost");
    }
}

TEST(Explored, AQueueThatIsFullAndEmptyInTurns) { test::explore_seeds(full_queue, 2500, 50); }

TEST(Explored, BothLayersBeforeABaseThatLacksMemory) { test::explore_seeds(both_layers, 1200, 50); }

}  // namespace
}  // namespace orchard
