// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The memory that size classes hold over time, compared with the live memory: lists of blocks of many sizes that are
// built and freed repeatedly, and a heap whose blocks change their size permanently.

#include <array>

#include "tests/support/elastic_fixture.hpp"

namespace orchard::test {
namespace {

struct node {
    node* next;
};

/// Each thread builds a list of up to 12 nodes: small ones, of some KiB, and of 8 to 64 KiB.
struct build_lists {
    heap_ref heap;
    std::uint32_t round;
    node** heads;

    [[nodiscard]] ORCHARD_FN static std::uint64_t bytes_of(std::uint32_t random) {
        const std::uint32_t kind = random % 6;
        const std::uint32_t more = random >> 8;
        return kind < 3 ? 16 + more % 497 : kind < 5 ? 1024 + more % 7168 : 8192 + more % 57344;
    }
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto thread = static_cast<std::uint32_t>(at.global_thread());
        const std::uint32_t nodes = device::mix(thread * 0x10001u + round) % 12 + 1;
        node* head = nullptr;
        for (std::uint32_t i = 0; i < nodes; ++i) {
            auto* const made =
                static_cast<node*>(heap.malloc(bytes_of(device::mix(thread * 13 + i + round * 0x9e37u))));
            if (made != nullptr) {
                made->next = head;
                head = made;
            }
        }
        heads[thread] = head;
    }
};

struct free_lists {
    heap_ref heap;
    node** heads;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (node* n = heads[at.global_thread()]; n != nullptr;) {
            node* const next = n->next;
            heap.free(n);
            n = next;
        }
    }
};

struct take_blocks {
    heap_ref heap;
    std::uint64_t bytes;
    void** blocks;
    ORCHARD_FN void operator()(simt::thread_position at) const { blocks[at.global_thread()] = heap.malloc(bytes); }
};

struct give_blocks {
    heap_ref heap;
    void** blocks;
    ORCHARD_FN void operator()(simt::thread_position at) const { heap.free(blocks[at.global_thread()]); }
};

class heap_retention : public heap_contract {
protected:
    void start(std::uint32_t capacity) {  // segments
        options values = GetParam().values();
        values.capacity = segments(capacity);
        values.range = 4 * values.capacity;
        remake(values);
    }
};
INSTANTIATE_TEST_SUITE_P(all, heap_retention, ::testing::ValuesIn(elastic_cases()), case_name);

TEST_P(heap_retention, lists_of_many_sizes_do_not_make_classes_grow) {
    constexpr simt::grid shape{32, 64};
    constexpr std::uint32_t threads = 32 * 64;
    constexpr std::uint32_t rounds = 20;
    start(1024);
    const auto heads = array<node*>(threads);
    std::array<std::uint64_t, class_count> slabs_before{};
    for (std::uint32_t round = 1; round <= rounds; ++round) {
        launch(shape, build_lists{h().ref(), round, heads.data()});
        const statistics at_peak = settled_stats();
        std::uint64_t live = 0;
        std::uint64_t held = 0;
        std::uint64_t classes = 0;
        for (const class_statistics& c : at_peak.classes) {
            live += c.pages_in_use * c.page_bytes;
            held += c.slabs * segment_bytes;
            classes += c.slabs != 0 ? 1 : 0;
        }
        // In addition to the promised share, each class that has any page may hold one slab.
        EXPECT_LE(held, live * 6 / 5 + classes * segment_bytes) << "round " << round;
        for (std::uint32_t c = 0; c < class_count && round > rounds / 2; ++c) {
            EXPECT_LE(at_peak.classes[c].slabs, slabs_before[c] + slabs_before[c] / 4 + 2)
                << class_bytes(c) << " bytes, round " << round;
        }
        for (std::uint32_t c = 0; c < class_count && round == rounds / 2; ++c) {
            slabs_before[c] = at_peak.classes[c].slabs;
        }
        EXPECT_EQ(at_peak.failed_allocations, 0u);
        launch(shape, free_lists{h().ref(), heads.data()});
    }
    expect_empty();
}

// The heap has room for either, and not for both.
TEST_P(heap_retention, a_class_that_needs_no_memory_any_more_leaves_it_to_others) {
    constexpr simt::grid shape{32, 64};
    constexpr std::uint32_t threads = 32 * 64;
    constexpr std::uint64_t small = 32 << 10;
    constexpr std::uint64_t large = 64 << 10;
    start(threads * large / segment_bytes + threads * small / segment_bytes / 2);
    const auto blocks = array<void*>(threads);
    for (const std::uint64_t bytes : {small, large, small}) {
        launch(shape, take_blocks{h().ref(), bytes, blocks.data()});
        EXPECT_EQ(settled_stats().failed_allocations, 0u) << bytes;
        launch(shape, give_blocks{h().ref(), blocks.data()});
    }
    expect_empty();
}

}  // namespace
}  // namespace orchard::test
