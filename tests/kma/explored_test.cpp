// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// KMA under the exploring scheduler: in every order of events and with weak memory, a block has one owner at a time,
/// an owner's writes happen before the next owner's, and no block, superblock or node is lost.

#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

#include "device/simt/explore/simulation.hpp"
#include "tests/support/explore_seeds.hpp"
#include "tests/support/kma_memory.hpp"

namespace orchard {
namespace {

using device::queued_superblock;
using device::superblock_queue;
using device::superblock_queues;
using simt::explore::simulation;

/// Lanes move two superblocks between two queues that share their nodes.
void two_queues(simulation& s) {
    constexpr std::uint32_t superblocks = 2;
    std::array<superblock_queues::word, 4> next{};
    std::array<superblock_queues::index_word, 4> values{};
    std::array<superblock_queue, 2> queues{};
    std::array<simt::plain<std::uint64_t>, superblocks> content{};
    const superblock_queues nodes(next.data(), values.data());
    for (std::uint32_t i = 0; i < 4; ++i) {
        nodes.make_node(i, i < superblocks ? i + 1 : superblock_queues::none, i - 1);
    }
    superblock_queues::make_queue(queues[0], 0, superblocks);
    superblock_queues::make_queue(queues[1], 3, 3);
    s.name_words(next.data(), sizeof(next), "next", 8);
    s.name_words(values.data(), sizeof(values), "values", 4);
    s.name_words(queues.data(), sizeof(queues), "queues", 8);
    s.add_kernel({{2}, {2}}, [&](simt::thread_position at) {
        for (int round = 0; round < 4; ++round) {
            queued_superblock got{};
            if (nodes.take(queues[s.pick(2)], &got)) {
                s.check(got.superblock < superblocks, "a superblock that does not exist");
                auto& words = content[got.superblock];
                s.own(&words, 8, "superblock");
                words.set(at.global_thread());
                s.check(words.get() == at.global_thread(), "another lane has the superblock");
                s.disown(&words);
                nodes.put(queues[s.pick(2)], got);
            }
        }
    });
    if (s.run()) {
        queued_superblock got{};
        std::uint32_t found = 0;
        for (superblock_queue& q : queues) {
            while (nodes.take(q, &got)) {
                ++found;
            }
        }
        s.check(found == superblocks, "a superblock is lost");
    }
}

/// Lanes allocate and free blocks of two classes, of which a superblock has four and two, in two superblocks of 1 KiB.
void two_superblocks(simulation& s) {
    rig::kma_memory memory(s, 2, 10);
    const kma_ref from = memory.ref;
    struct owned {
        simt::plain<std::uint64_t>* words = nullptr;
        std::uint64_t tag = 0;
    };
    std::array<std::array<owned, 2>, 4> of_lanes{};
    const auto give_back = [&](owned& block) {
        if (block.words != nullptr) {
            s.check(block.words[0].get() == block.tag && block.words[29].get() == block.tag,
                    "another lane wrote to an owned block");
            s.disown(block.words);
            from.free(block.words);
            block.words = nullptr;
        }
    };
    s.add_kernel({{2}, {2}}, [&](simt::thread_position at) {
        auto& held = of_lanes[at.block * 2 + at.thread];
        for (int round = 0; round < 4; ++round) {
            const std::uint64_t bytes = s.pick(2) == 0 ? 240 : 496;
            owned& mine = held[s.pick(2)];
            if (mine.words == nullptr) {
                mine = {static_cast<simt::plain<std::uint64_t>*>(from.malloc(bytes)), at.global_thread() + 1};
                if (mine.words != nullptr) {
                    s.own(mine.words, bytes, "block");
                    mine.words[0].set(mine.tag);
                    mine.words[29].set(mine.tag);
                }
            }
            give_back(held[s.pick(2)]);
        }
    });
    if (!s.run()) {
        return;
    }
    s.check(memory.get(memory.usage().active) == memory.entries(),
            "a superblock is active, but no class takes from it");
    s.add_kernel({{1}}, [&](simt::thread_position) {
        for (auto& held : of_lanes) {
            for (owned& block : held) {
                give_back(block);
            }
        }
    });
    if (!s.run()) {
        return;
    }
    const kma_usage usage = memory.usage();
    s.check(memory.get(usage.blocks) == 0, "a block is in use that nobody has");
    s.check(memory.get(usage.full) + memory.get(usage.active) == 0, "a superblock without a block is full or active");
    s.add_kernel({{1}}, [&](simt::thread_position) {
        // All memory can be had, by one class after another.
        for (const auto& [bytes, count] : {std::pair{992u, 2}, {496u, 4}, {240u, 8}, {992u, 2}, {16u, 100}}) {
            std::vector<void*> all;
            for (int i = 0; i < count; ++i) {
                all.push_back(from.malloc(bytes));
                s.check(all.back() != nullptr, "memory is lost");
            }
            for (void* p : all) {
                from.free(p);
            }
        }
    });
    s.run();
}

TEST(Explored, TwoQueuesThatShareTheirNodes) { test::explore_seeds(two_queues, 1500, 50); }

TEST(Explored, TwoClassesThatShareTwoSuperblocks) { test::explore_seeds(two_superblocks, 700, 50); }

}  // namespace
}  // namespace orchard
