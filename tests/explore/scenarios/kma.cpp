// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Lanes allocate and free blocks of several of KMA's classes. Half of the blocks are freed by other lanes than their
/// owners. Superblocks go from class to class, through the queue of free ones and those of partial ones. KMA has memory
/// of its own, without a heap and its service.
///
///     kma         three superblocks, fewer than the lanes could use
///     kma_enough  a superblock for each block that can be in use, and one more: no request may get null

#include <array>
#include <utility>
#include <vector>

#include "tests/explore/scenario.hpp"
#include "tests/support/kma_memory.hpp"

namespace orchard::explore {
namespace {

/// A block, whose owner has written its number to the first and the last word.
struct kma_block {
    simt::plain<std::uint64_t>* words = nullptr;
    std::uint64_t last = 0;
    std::uint64_t owner = 0;
};

constexpr std::uint32_t places_of_all = 6;

void run_in(world& w, std::uint32_t superblocks, bool is_enough) {
    rig::kma_memory memory(w.s, superblocks, 10);
    const kma_ref from = memory.ref;
    std::vector<kma_block> blocks(1);
    std::array<simt::device_word<std::uint64_t>, places_of_all> places{};  // numbers of blocks; 0: none
    w.s.name_words(places.data(), sizeof(places), "places", 8);
    const auto free_block = [&](std::uint64_t number) {
        if (number != 0) {
            const kma_block b = blocks[number];  // a copy: other lanes add blocks meanwhile
            w.s.check(b.words[0].get() == b.owner && b.words[b.last].get() == b.owner,
                      "a block changed while it was owned");
            w.s.disown(b.words);
            from.free(b.words);
        }
    };
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        constexpr std::array<std::uint64_t, 4> sizes{16, 240, 496, 992};
        for (int i = 0; i < w.size.operations; ++i) {
            const std::uint64_t bytes = sizes[w.s.pick(4)];
            auto* const words = static_cast<simt::plain<std::uint64_t>*>(from.malloc(bytes));
            std::uint64_t number = 0;
            w.s.check(words != nullptr || !is_enough, "null, although there is memory");
            if (words != nullptr) {
                w.s.own(words, bytes, "block");
                number = blocks.size();
                blocks.push_back({words, bytes / 8 - 1, number});
                words[0].set(number);
                words[bytes / 8 - 1].set(number);
            }
            if (w.s.pick(2) == 0) {
                // Another lane's block for its own; the exchange orders their accesses.
                number = places[w.s.pick(places_of_all)].exchange<simt::order::acq_rel>(number);
            }
            free_block(number);
        }
    });
    if (!w.s.run()) {
        return;
    }
    w.s.check(memory.get(memory.usage().active) == memory.entries(),
              "a superblock is active, but no class takes from it");
    w.s.add_kernel({{1}}, [&](simt::thread_position) {
        for (auto& place : places) {
            free_block(place.load<simt::order::acquire>());
        }
    });
    if (!w.s.run()) {
        return;
    }
    const kma_usage usage = memory.usage();
    w.s.check(memory.get(usage.blocks) == 0, "a block is in use that nobody has");
    w.s.check(memory.get(usage.full) + memory.get(usage.active) == 0, "a superblock without a block is full or active");
    w.s.add_kernel({{1}}, [&](simt::thread_position) {
        for (const auto& [bytes, count] : {std::pair{992u, 3}, {496u, 6}, {240u, 12}, {992u, 3}}) {
            std::vector<void*> all;
            for (int i = 0; i < count; ++i) {
                all.push_back(from.malloc(bytes));
                w.s.check(all.back() != nullptr, "memory is lost");
            }
            for (void* p : all) {
                from.free(p);
            }
        }
    });
    w.s.run();
}

const registrar kma_scenario{{"kma",
                              "Blocks of several of KMA's classes, in fewer superblocks than lanes could use.",
                              {{{3, 2}, {3}}, 5},
                              [](world& w) { run_in(w, 3, false); }}};
const registrar enough{{"kma_enough",
                        "The same, in a superblock for each block that can be in use, and one more.",
                        {{{3, 2}, {3}}, 5},
                        [](world& w) { run_in(w, lanes_of(w.size) + places_of_all + 1, true); }}};

}  // namespace
}  // namespace orchard::explore
