// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Many groups publish, claim, free and retire at once: no page has two owners, and at the end no page is in use.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/simt/run_emulated.hpp"
#include "tests/support/heap_memory.cuh"

namespace orchard {
namespace {

using device::mix;
using rig::heap_memory;
using simt::order;
using word32 = simt::device_word<std::uint32_t>;

/// Classes whose pages are whole units of 16 KiB: the 128 units of a segment distinguish pages of different classes.
constexpr std::uint64_t unit_bytes = 16 << 10;
constexpr std::uint32_t units = static_cast<std::uint32_t>(segment_bytes / unit_bytes);
constexpr std::uint32_t classes[] = {class_of(16 << 10), class_of(64 << 10), class_of(512 << 10)};

class SlabRaces : public ::testing::TestWithParam<std::uint32_t> {
protected:
    static constexpr std::uint32_t max_held = 4;
    struct held_pages {
        std::uint32_t c = 0;
        std::uint32_t segment = 0;
        std::uint32_t word = 0;
        std::uint64_t bits = 0;
    };

    SlabRaces() : heap_{GetParam()}, owners_(std::size_t{GetParam()} * units) {}

    void mark(const held_pages& pages, bool owned) {
        const auto per_page = static_cast<std::uint32_t>(class_bytes(pages.c) / unit_bytes);
        for (std::uint64_t left = pages.bits; left != 0; left &= left - 1) {
            const std::uint32_t page = pages.word * 64 + static_cast<std::uint32_t>(simt::lowest_bit(left));
            for (std::uint32_t u = page * per_page; u < (page + 1) * per_page; ++u) {
                word32& owner = owners_[std::size_t{pages.segment} * units + u];
                if (owned) {
                    shared_.fetch_add<order::relaxed>(owner.fetch_add<order::relaxed>(1));
                } else {
                    owner.fetch_sub<order::relaxed>(1);
                }
            }
        }
    }
    /// Leader only: claims some pages in a slab of the class, if there is one.
    held_pages claim(std::uint32_t c, std::uint32_t random) {
        const std::uint32_t count = heap_.view.state->slabs[c].count.load<order::relaxed>();
        const std::uint32_t bounded = std::min(count, heap_.view.segments);
        const std::uint32_t entry = bounded == 0 ? 0 : heap_.view.table(c)[random % bounded].load<order::acquire>();
        if (!device::is_slab_entry(entry)) {
            return {};
        }
        const std::uint32_t word = mix(random) % class_words(c);
        const held_pages pages{c, entry - 1, word, rig::claim(heap_.view, c, entry - 1, word, 1 + random % 5)};
        mark(pages, true);
        claimed_.fetch_add<order::relaxed>(static_cast<std::uint32_t>(simt::popcount(pages.bits)));
        return pages;
    }
    void give_up(const held_pages& pages) {
        if (pages.bits != 0) {
            mark(pages, false);
            heap_.view.bitmap(pages.segment)[pages.word].fetch_and<order::release>(~pages.bits);
        }
    }
    /// All lanes: a segment of the segment cache becomes a slab.
    void publish(simt::lane_mask mask, std::uint32_t c) {
        segment_run run;
        if (!device::cache_take(heap_.view, mask, 1, &run)) {
            return;
        }
        if (!rig::publish(heap_.view, mask, c, to_underlying(run.first)) && device::is_leader(mask)) {
            device::cache_put(heap_.view, run);
        }
    }
    /// All lanes: makes a slab a segment of the segment cache, if it has no page in use.
    void retire(simt::lane_mask mask, std::uint32_t c, std::uint32_t random) {
        const std::uint32_t segment = random % heap_.view.segments;
        if (device::slab_retire(heap_.view, mask, c, segment) && device::is_leader(mask)) {
            retired_.fetch_add<order::relaxed>(1);
            device::cache_put(heap_.view, {segment_index{segment}, 1});
        }
    }
    void act(simt::lane_mask mask, std::uint32_t random, held_pages* held) {
        const std::uint32_t c = classes[random / 16 % std::size(classes)];
        switch (random % 16) {
            case 0:
            case 1: publish(mask, c); break;
            case 2:
            case 3:
            case 4:
            case 5: retire(mask, c, random >> 8); break;
            default:
                if (device::is_leader(mask)) {
                    held_pages& place = held[random / 64 % max_held];
                    give_up(place);
                    place = random % 2 == 0 ? claim(c, random >> 8) : held_pages{};
                }
        }
    }
    void retire_all() {
        for (const std::uint32_t c : classes) {
            for (std::uint32_t s = 0; s < heap_.view.segments; ++s) {
                if (device::slab_retire(heap_.view, 1, c, s)) {
                    device::cache_put(heap_.view, {segment_index{s}, 1});
                }
            }
        }
    }

    heap_memory heap_;
    std::vector<word32> owners_;
    word32 shared_{0};
    word32 claimed_{0};
    word32 retired_{0};
};

TEST_P(SlabRaces, NoPageHasTwoOwnersAndNothingIsLeft) {
    device::cache_put(heap_.view, {segment_index{0}, GetParam()});
    const auto result = simt::run_emulated(
        {6, 64},
        [&](simt::thread_position at) {
            held_pages held[max_held];
            const simt::lane_mask mask = simt::match(simt::converge(), at.thread % 2);
            std::uint32_t random = device::from_leader(mask, static_cast<std::uint32_t>(at.global_thread()));
            for (int round = 0; round < 300; ++round) {
                random = mix(random + 0x9e3779b9u);
                act(mask, random, held);
                if (round % 32 == 0) {
                    // From time to time all pages are freed, so that slabs become empty.
                    for (held_pages& pages : held) {
                        give_up(pages);
                        pages = {};
                    }
                    simt::pause(0);
                }
            }
            for (const held_pages& pages : held) {
                give_up(pages);
            }
        },
        3);
    ASSERT_TRUE(result.ok) << result.error;
    EXPECT_EQ(shared_.load<order::relaxed>(), 0u) << "a page had two owners";
    EXPECT_GT(claimed_.load<order::relaxed>(), 100u);
    if (GetParam() >= 40) {  // if each group finds slabs of its own
        EXPECT_GT(retired_.load<order::relaxed>(), 10u);
    }
    EXPECT_TRUE(heap_.bitmaps_are_clear());
    retire_all();
    EXPECT_EQ(device::cache_level(heap_.view), GetParam()) << "a segment was lost";
    EXPECT_EQ(heap_.cache_bits(), GetParam());
    EXPECT_EQ(heap_.sum(device::counter::slabs_published), heap_.sum(device::counter::slabs_retired));
    for (const std::uint32_t c : classes) {
        const auto& head = heap_.view.state->slabs[c];
        const std::uint32_t count = head.count.load<order::relaxed>();
        EXPECT_LE(count, GetParam());
        for (std::uint32_t i = 0; i < count; ++i) {
            EXPECT_EQ(heap_.view.table(c)[i].load<order::relaxed>(), 0u);
        }
    }
}

// An owner's writes to a page happen before the next owner's writes, even if the class changes; the thread sanitizer
// checks it.
TEST_P(SlabRaces, ReuseIsOrdered) {
    std::vector<std::uint64_t> content(owners_.size());  // not atomic: claiming and freeing order
    device::cache_put(heap_.view, {segment_index{0}, GetParam()});
    const auto write_to = [&](const held_pages& pages) {
        const auto per_page = static_cast<std::uint32_t>(class_bytes(pages.c) / unit_bytes);
        for (std::uint64_t left = pages.bits; left != 0; left &= left - 1) {
            const std::uint32_t page = pages.word * 64 + static_cast<std::uint32_t>(simt::lowest_bit(left));
            for (std::uint32_t u = page * per_page; u < (page + 1) * per_page; ++u) {
                ++content[std::size_t{pages.segment} * units + u];
            }
        }
    };
    const auto result = simt::run_emulated(
        {4, 64},
        [&](simt::thread_position at) {
            const simt::lane_mask mask = simt::converge();
            std::uint32_t random = device::from_leader(mask, static_cast<std::uint32_t>(at.global_thread()) + 77);
            for (int round = 0; round < 200; ++round) {
                random = mix(random + 0x9e3779b9u);
                const std::uint32_t c = classes[random / 16 % std::size(classes)];
                if (random % 16 < 2) {
                    publish(mask, c);
                } else if (random % 16 < 7) {
                    retire(mask, c, random >> 8);
                } else if (device::is_leader(mask)) {
                    const held_pages pages = claim(c, random >> 8);
                    write_to(pages);
                    give_up(pages);
                }
            }
        },
        3);
    ASSERT_TRUE(result.ok) << result.error;
    EXPECT_EQ(shared_.load<order::relaxed>(), 0u);
    EXPECT_TRUE(heap_.bitmaps_are_clear());
}

INSTANTIATE_TEST_SUITE_P(Segments, SlabRaces, ::testing::Values(2u, 7u, 40u));

}  // namespace
}  // namespace orchard
