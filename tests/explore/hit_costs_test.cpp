// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The cost of a hit, word by word: one read-modify-write of one bitmap word for a group whose hint has enough free
/// bits, and no access to host-visible memory, not even a load. A free costs one read-modify-write for each bitmap
/// word. Measured in a run without surprises, in which lanes that are in a call together form one group.

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <vector>

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

struct hit {
    std::uint64_t bytes;
    int lanes;
};

class hit_costs : public testing::TestWithParam<hit> {
protected:
    /// Counts what changes a bitmap from here on.
    void watch_bitmaps() {
        for (std::uint64_t i = 0; i < heap_.setup.segments * device::bitmap_words; ++i) {
            s_.watch(&heap_.view.bitmaps[i], [this](const simt::explore::simulation::watched_access& a) {
                changes_ += a.is_load ? 0 : 1;
                loads_ += a.is_load ? 1 : 0;
            });
        }
    }
    /// Runs a kernel of one warp. How often it changed bitmaps.
    std::uint64_t run(int lanes, const std::function<void(simt::thread_position)>& body) {
        const std::uint64_t before = changes_;
        s_.add_kernel({{lanes}}, body);
        EXPECT_TRUE(s_.run()) << s_.result().violation;
        return changes_ - before;
    }
    [[nodiscard]] std::uint64_t host_accesses() const {
        const auto& c = s_.result().lane_costs;
        return c.host_words_read + c.host_words_written + c.host_atomics;
    }
    void allocate() {
        const hit& what = GetParam();
        pages_.assign(static_cast<std::size_t>(what.lanes), nullptr);
        const std::uint64_t host = host_accesses();
        const std::uint64_t atomics = s_.result().lane_costs.device_atomics;
        changes_of_malloc_ =
            run(what.lanes, [&](simt::thread_position at) { pages_[at.thread] = heap_.ref.malloc(what.bytes); });
        host_of_malloc_ = host_accesses() - host;
        atomics_of_malloc_ = s_.result().lane_costs.device_atomics - atomics;
    }
    void free() {
        const std::uint64_t host = host_accesses();
        const std::uint64_t atomics = s_.result().lane_costs.device_atomics;
        changes_of_free_ = run(GetParam().lanes, [&](simt::thread_position at) { heap_.ref.free(pages_[at.thread]); });
        host_of_free_ = host_accesses() - host;
        atomics_of_free_ = s_.result().lane_costs.device_atomics - atomics;
    }
    /// Words of bitmaps that the pages' bits are in.
    [[nodiscard]] std::uint64_t words_of_pages() const {
        const std::uint64_t page = class_bytes(class_of(static_cast<std::uint32_t>(GetParam().bytes)));
        std::set<std::uint64_t> words;
        for (void* const p : pages_) {
            const auto offset = static_cast<std::uint64_t>(static_cast<char*>(p) - heap_.view.base);
            words.insert((offset >> segment_shift) << 32 | (offset % segment_bytes) / page / 64);
        }
        return words.size();
    }

    std::unique_ptr<simt::explore::choices> plain_ = simt::explore::recorded_choices({});
    simt::explore::simulation s_{*plain_};
    scale size_{{{1}}, 1};
    world world_{s_, size_};
    heap_world heap_{world_, {.segments = 12, .committed_at_start = 12}};
    std::vector<void*> pages_;
    std::uint64_t changes_ = 0;
    std::uint64_t loads_ = 0;
    std::uint64_t changes_of_malloc_ = 0;
    std::uint64_t host_of_malloc_ = 0;
    std::uint64_t atomics_of_malloc_ = 0;
    std::uint64_t changes_of_free_ = 0;
    std::uint64_t host_of_free_ = 0;
    std::uint64_t atomics_of_free_ = 0;
};

TEST_P(hit_costs, one_change_of_the_bitmap_and_nothing_of_the_host) {
    allocate();  // makes the slabs
    free();
    const std::uint64_t searches = heap_.sum(device::counter::searches);
    watch_bitmaps();
    for (int round = 0; round < 3; ++round) {
        allocate();
        for (void* const p : pages_) {
            ASSERT_NE(p, nullptr);
        }
        EXPECT_EQ(words_of_pages(), 1u) << "no hit";
        EXPECT_EQ(changes_of_malloc_, 1u);
        EXPECT_EQ(loads_, 0u) << "of bitmap words";
        EXPECT_EQ(host_of_malloc_, 0u);
        EXPECT_LE(atomics_of_malloc_, 2u) << "the bitmap's and a statistic's";
        free();
        EXPECT_EQ(changes_of_free_, 1u);
        EXPECT_EQ(host_of_free_, 0u);
        EXPECT_EQ(atomics_of_free_, 1u);
    }
    EXPECT_EQ(heap_.sum(device::counter::searches), searches) << "no hit";
}

// Full warps while their unit has 32 pages; one lane; seven, which is a part of a unit.
INSTANTIATE_TEST_SUITE_P(classes, hit_costs,
                         testing::Values(hit{16, 32}, hit{48, 32}, hit{80, 32}, hit{1024, 32}, hit{7000, 32},
                                         hit{65'536, 32}, hit{16, 1}, hit{80, 1}, hit{20'000, 1}, hit{524'288, 1},
                                         hit{16, 7}, hit{112, 7}, hit{1024, 7}, hit{262'144, 7}, hit{524'288, 4}),
                         [](const auto& at) {
                             return std::to_string(at.param.bytes) + "_B_" + std::to_string(at.param.lanes) + "_lanes";
                         });

}  // namespace
}  // namespace orchard::explore
