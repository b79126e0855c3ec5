// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The other requests: malloc(0), calloc, realloc, aligned_alloc, usable_size.

#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

using counter = simt::device_word<std::uint32_t>;

/// The results of a kernel: one word for each call.
struct call {
    enum class kind : std::uint32_t { malloc, calloc, realloc, aligned_alloc, usable_size, owns };
    kind what;
    std::uint64_t first;   ///< bytes; calloc: count; aligned_alloc: alignment; otherwise the address
    std::uint64_t second;  ///< calloc, realloc and aligned_alloc: bytes
};

/// One thread makes all calls, one after another.
struct make_calls {
    heap_ref heap;
    const call* calls;
    std::uint64_t* results;
    std::uint64_t count;

    ORCHARD_FN std::uint64_t make(const call& c) const {
        auto* p = reinterpret_cast<void*>(c.first);
        switch (c.what) {
            case call::kind::malloc: return as_number(heap.malloc(c.first));
            case call::kind::calloc: return as_number(heap.calloc(c.first, c.second));
            case call::kind::realloc: return as_number(heap.realloc(p, c.second));
            case call::kind::aligned_alloc: return as_number(heap.aligned_alloc(c.first, c.second));
            case call::kind::usable_size: return heap.usable_size(p);
            default: return heap.owns(p) ? 1 : 0;
        }
    }
    ORCHARD_FN void operator()(simt::thread_position) const {
        for (std::uint64_t i = 0; i < count; ++i) {
            results[i] = make(calls[i]);
        }
    }
};

/// Counts bytes of blocks that are not zero.
struct count_dirty {
    const block* blocks;
    std::uint64_t count;
    counter* dirty;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i >= count) {
            return;
        }
        const auto* p = static_cast<const unsigned char*>(blocks[i].pointer());
        std::uint32_t found = 0;
        for (std::uint64_t b = 0; b < blocks[i].bytes; ++b) {
            found += p[b] != 0 ? 1 : 0;
        }
        dirty->fetch_add<simt::order::relaxed>(found);
    }
};

struct make_dirty {
    const block* blocks;
    std::uint64_t count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        for (std::uint64_t b = 0; i < count && b < blocks[i].bytes; ++b) {
            static_cast<unsigned char*>(blocks[i].pointer())[b] = 0xa5;
        }
    }
};

/// All lanes at once: calloc with a size of its own for each lane.
struct calloc_each {
    heap_ref heap;
    const std::uint64_t* sizes;
    block* blocks;
    std::uint64_t count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < count) {
            blocks[i] = {as_number(heap.calloc(sizes[i], 1)), sizes[i]};
        }
    }
};

/// All lanes at once: a list that doubles `rounds` times and keeps its contents.
struct grow_lists {
    heap_ref heap;
    std::uint32_t rounds;
    counter* errors;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t owner = at.global_thread();
        std::uint64_t bytes = 8 + at.thread % 3;
        void* p = heap.realloc(nullptr, bytes);
        for (std::uint32_t i = 0; p != nullptr && i < rounds; ++i) {
            stamp_block(p, bytes, owner + i);
            void* q = heap.realloc(p, bytes * 2);
            if (q == nullptr || !has_stamp(q, bytes, owner + i)) {
                errors->fetch_add<simt::order::relaxed>(1);
            }
            p = q != nullptr ? q : p;
            bytes *= 2;
        }
        if (p == nullptr) {
            errors->fetch_add<simt::order::relaxed>(1);
        }
        heap.free(p);
    }
};

/// Every lane of a warp resizes its block of 1,000 B: those of odd numbers to less, which stays, the others to more,
/// which moves. `together[i]` is the number of lanes that lane i meets afterwards.
struct resize_some {
    heap_ref heap;
    block* blocks;
    std::uint64_t* together;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        const std::uint64_t bytes = i % 2 != 0 ? 900 : 2500;
        void* const p = heap.realloc(blocks[i].pointer(), bytes);
        together[i] = static_cast<std::uint64_t>(simt::popcount(simt::converge()));
        blocks[i] = {as_number(p), bytes};
    }
};

class contract_requests : public heap_contract {
protected:
    std::vector<std::uint64_t> make(const std::vector<call>& calls) {
        const auto them = array_of(calls);
        const auto results = array<std::uint64_t>(calls.size());
        launch({1, 1}, make_calls{h().ref(), them.data(), results.data(), calls.size()});
        return to_host(results);
    }
    std::uint64_t make(call::kind what, std::uint64_t first, std::uint64_t second = 0) {
        return make({call{what, first, second}}).front();
    }
    std::uint64_t realloc(std::uint64_t address, std::uint64_t bytes) {
        return make(call::kind::realloc, address, bytes);
    }
    /// Checks a prefix of a block for the bytes that `stamp` wrote there.
    void expect_stamped_prefix(std::uint64_t address, std::uint64_t bytes) {
        expect_stamped({{address, std::min<std::uint64_t>(bytes, 256)}});
    }
    void free(std::uint64_t address) { free_all({{address, 0}}); }
    std::uint32_t dirty_bytes(const std::vector<block>& blocks) {
        const auto them = array_of(blocks);
        const auto dirty = array<counter>(1);
        launch(simt::grid_for(blocks.size(), 64), count_dirty{them.data(), blocks.size(), dirty.data()});
        return to_host(dirty).front().load<simt::order::relaxed>();
    }
};
INSTANTIATE_TEST_SUITE_P(all, contract_requests, ::testing::ValuesIn(heap_cases()), case_name);

TEST_P(contract_requests, nothing_asked_is_null_and_no_failure) {
    using kind = call::kind;
    const std::vector<std::uint64_t> results = make({{kind::malloc, 0, 0},
                                                     {kind::calloc, 0, 8},
                                                     {kind::calloc, 8, 0},
                                                     {kind::realloc, 0, 0},
                                                     {kind::aligned_alloc, 64, 0},
                                                     {kind::usable_size, 0, 0},
                                                     {kind::owns, 0, 0}});
    EXPECT_EQ(results, std::vector<std::uint64_t>(results.size(), 0));
    EXPECT_EQ(h().last_failure(), std::nullopt);
    const statistics s = settled_stats();
    EXPECT_EQ(s.allocations, 0u);
    EXPECT_EQ(s.failed_allocations, 0u);
    EXPECT_EQ(s.slabs_published, 0u);
}

TEST_P(contract_requests, calloc_zeroes_memory_that_was_used) {
    std::vector<std::uint64_t> sizes;
    for (std::uint64_t i = 1; i <= 64; ++i) {
        sizes.push_back(i % 4 == 0 ? 16 + i % 48 : 1000 - i % 5);  // four classes
    }
    for (const std::vector<std::uint64_t>& wanted : {sizes, {20'000, 524'288}, {segments(1) + 100}}) {
        const std::vector<block> dirty = allocate(wanted);
        ASSERT_NO_FATAL_FAILURE(expect_disjoint(dirty));
        const auto them = array_of(dirty);
        launch(simt::grid_for(dirty.size(), 64), make_dirty{them.data(), dirty.size()});
        EXPECT_NE(dirty_bytes(dirty), 0u);
        free_all(dirty);
        const auto asked = array_of(wanted);
        const auto got = array<block>(wanted.size());
        launch(simt::grid_for(wanted.size(), 64), calloc_each{h().ref(), asked.data(), got.data(), wanted.size()});
        const std::vector<block> clean = to_host(got);
        ASSERT_NO_FATAL_FAILURE(expect_disjoint(clean));
        EXPECT_EQ(dirty_bytes(clean), 0u);
        free_all(clean);
    }
    expect_empty();
}

TEST_P(contract_requests, calloc_whose_product_overflows) {
    using kind = call::kind;
    const std::uint64_t half = std::uint64_t{1} << 32;
    EXPECT_EQ(make({{kind::calloc, half, half},
                    {kind::calloc, ~std::uint64_t{0}, 2},
                    {kind::calloc, 3, ~std::uint64_t{0} / 2}}),
              (std::vector<std::uint64_t>{0, 0, 0}));
    ASSERT_TRUE(h().last_failure().has_value());
    EXPECT_EQ(h().last_failure()->reason, failure_reason::too_large);
    EXPECT_EQ(h().last_failure()->count, 3u);
    EXPECT_EQ(settled_stats().allocations, 0u);
    EXPECT_EQ(settled_stats().failed_allocations, 3u);
}

TEST_P(contract_requests, realloc_keeps_contents_and_place_where_it_can) {
    const std::uint64_t first = realloc(0, 100);  // as malloc; a page of 112
    ASSERT_NE(first, 0u);
    stamp({{first, 100}});
    EXPECT_EQ(realloc(first, 112), first);
    EXPECT_EQ(realloc(first, 90), first);
    EXPECT_EQ(realloc(first, 57), first);
    const std::uint64_t grown = realloc(first, 5000);
    ASSERT_NE(grown, 0u);
    EXPECT_NE(grown, first);
    expect_stamped({{grown, 57}});
    const std::uint64_t shrunk = realloc(grown, 20);
    ASSERT_NE(shrunk, 0u);
    EXPECT_NE(shrunk, grown);
    expect_stamped({{shrunk, 20}});
    const statistics s = settled_stats();
    EXPECT_EQ(s.reallocs, 5u);  // realloc(nullptr) is malloc
    EXPECT_EQ(s.reallocs_moved, 2u);
    EXPECT_EQ(s.pages_in_use, 1u);
    EXPECT_EQ(realloc(shrunk, 0), 0u);
    EXPECT_EQ(settled_stats().pages_in_use, 0u);
    EXPECT_EQ(h().last_failure(), std::nullopt);
    expect_empty();
}

TEST_P(contract_requests, realloc_between_pages_and_chunks) {
    const std::uint64_t page = make(call::kind::malloc, 300'000);
    ASSERT_NE(page, 0u);
    stamp({{page, 300'000}});
    const std::uint64_t chunk = realloc(page, segments(1) + 1);
    ASSERT_NE(chunk, 0u);
    expect_stamped_prefix(chunk, 300'000);
    const std::uint64_t larger = realloc(chunk, segments(2) + 1);
    ASSERT_NE(larger, 0u);
    expect_stamped_prefix(larger, 300'000);
    EXPECT_EQ(settled_stats().live_chunks, 1u);
    const std::uint64_t small = realloc(larger, 200);
    ASSERT_NE(small, 0u);
    expect_stamped_prefix(small, 200);
    EXPECT_EQ(settled_stats().live_chunks, 0u);
    free(small);
    expect_empty();
}

// The last block of a chunk grows in place, into the rest of the chunk and into free segments behind it; not if they
// are in use, or if a tail follows the chunk's segments.
TEST_P(contract_requests, realloc_of_the_last_block_before_free_segments_stays) {
    const bool has_all_memory = h().configuration().backing == backing_option::fixed;
    const block own = allocate_one(segments(1));
    ASSERT_NE(own.address, 0u);
    stamp({{own.address, 256}});
    settled_stats();  // a refill has arrived
    const std::uint64_t grown = realloc(own.address, segments(3) - 1000);
    ASSERT_NE(grown, 0u);
    if (has_all_memory) {
        EXPECT_EQ(grown, own.address);
        EXPECT_EQ(settled_stats().reallocs_moved, 0u);
        EXPECT_EQ(realloc(grown, segments(3)), own.address) << "the rest of the last segment";
    }
    expect_stamped({{grown, 256}});
    EXPECT_GE(make(call::kind::usable_size, grown), segments(3) - 1000);
    const block next = allocate_one(segments(1));
    ASSERT_NO_FATAL_FAILURE(expect_disjoint({{grown, segments(3) - 1000}, next}));
    stamp({{grown, segments(3) - 1000}});
    expect_stamped({{grown, segments(3) - 1000}});
    // As many segments as the heap has: some behind the block are in use or missing.
    EXPECT_EQ(realloc(grown, segments(heap_segments())), 0u);
    expect_stamped({{grown, segments(3) - 1000}});
    free(grown);
    free_all({next});
    const statistics s = settled_stats();
    EXPECT_EQ(s.invalid_frees, 0u);
    EXPECT_EQ(s.live_chunks, 0u);
    expect_empty();
}

// A lane whose block stays waits for the lanes of its warp that copy: if it came back earlier, it would copy its next
// block alone.
TEST_P(contract_requests, realloc_returns_to_the_lanes_of_a_warp_together) {
    const std::vector<block> blocks = allocate(std::vector<std::uint64_t>(simt::warp_size, 1000));
    const auto them = array_of(blocks);
    const auto together = array<std::uint64_t>(blocks.size());
    launch({1, simt::warp_size}, resize_some{h().ref(), them.data(), together.data()});
    EXPECT_EQ(to_host(together), std::vector<std::uint64_t>(blocks.size(), simt::warp_size));
    EXPECT_EQ(settled_stats().reallocs_moved, blocks.size() / 2);
    free_all(to_host(them));
    expect_empty();
}

TEST_P(contract_requests, realloc_that_fails_keeps_the_block) {
    const std::uint64_t p = make(call::kind::malloc, 1000);
    ASSERT_NE(p, 0u);
    stamp({{p, 1000}});
    EXPECT_EQ(realloc(p, segments(heap_segments()) + 1), 0u);
    EXPECT_EQ(h().last_failure()->reason, failure_reason::too_large);
    expect_stamped({{p, 1000}});
    EXPECT_EQ(settled_stats().pages_in_use, 1u);
    EXPECT_EQ(settled_stats().reallocs_moved, 0u);
    free(p);
    EXPECT_EQ(settled_stats().invalid_frees, 0u);
    expect_empty();
}

TEST_P(contract_requests, realloc_of_what_was_not_allocated_is_refused) {
    const std::vector<block> blocks = allocate({200, 200, segments(1)});
    EXPECT_EQ(realloc(as_number(this), 100), 0u);
    EXPECT_EQ(realloc(blocks[2].address + 64, 100), 0u);
    EXPECT_EQ(realloc(blocks[0].address + 16, 5000), 0u);
    EXPECT_EQ(settled_stats().invalid_frees, 3u);
    free_all(blocks);
    EXPECT_EQ(realloc(blocks[0].address, 5000), 0u);
    EXPECT_EQ(realloc(blocks[2].address, 100), 0u);
    EXPECT_EQ(settled_stats().invalid_frees, 5u);
    expect_empty();
}

TEST_P(contract_requests, lists_of_all_lanes_grow) {
    const auto errors = array<counter>(1);
    const bool small = heap_segments() < 32;
    launch(small ? simt::grid{1, 20} : simt::grid{2, 100}, grow_lists{h().ref(), small ? 6u : 12u, errors.data()});
    EXPECT_EQ(to_host(errors).front().load<simt::order::relaxed>(), 0u);
    expect_empty();
}

TEST_P(contract_requests, every_alignment) {
    for (std::uint64_t alignment = 1; alignment <= segment_bytes; alignment *= 2) {
        std::vector<call> calls;
        for (const std::uint64_t bytes : {1u, 17u, 100u, 5000u, 70'000u, 524'288u, 600'000u}) {
            calls.push_back({call::kind::aligned_alloc, alignment, bytes});
        }
        const std::vector<std::uint64_t> found = make(calls);
        std::vector<block> blocks;
        for (std::size_t i = 0; i < calls.size(); ++i) {
            EXPECT_EQ(found[i] % alignment, 0u) << alignment;
            blocks.push_back({found[i], calls[i].second});
        }
        ASSERT_NO_FATAL_FAILURE(expect_disjoint(blocks)) << alignment;
        stamp(blocks);
        expect_stamped(blocks);
        free_all(blocks);
    }
    EXPECT_EQ(h().last_failure(), std::nullopt);
    EXPECT_EQ(settled_stats().invalid_frees, 0u);
    expect_empty();
}

TEST_P(contract_requests, bad_alignments) {
    using kind = call::kind;
    EXPECT_EQ(make({{kind::aligned_alloc, 0, 100},
                    {kind::aligned_alloc, 3, 100},
                    {kind::aligned_alloc, segments(2), 100},
                    {kind::aligned_alloc, 48, 100},
                    {kind::aligned_alloc, ~std::uint64_t{0}, 100}}),
              std::vector<std::uint64_t>(5, 0));
    const std::optional<failure> f = h().last_failure();
    ASSERT_TRUE(f.has_value());
    EXPECT_EQ(f->reason, failure_reason::invalid_alignment);
    EXPECT_EQ(f->bytes, 100u);
    EXPECT_EQ(f->count, 5u);
    EXPECT_EQ(settled_stats().allocations, 0u);
}

TEST_P(contract_requests, usable_size_of_what_was_not_returned_is_0) {
    using kind = call::kind;
    const std::vector<block> blocks = allocate({100, segments(1), segments(1) + 1}, 3);
    const std::uint64_t page = blocks[0].address;
    const std::uint64_t chunk = blocks[1].address;
    const std::uint64_t base = as_number(device::heap_view(h().ref().view()).base);
    EXPECT_EQ(make({{kind::usable_size, page, 0},
                    {kind::usable_size, chunk, 0},
                    {kind::usable_size, page + 16, 0},
                    {kind::usable_size, chunk + 16, 0},
                    {kind::usable_size, base - 1, 0},
                    {kind::usable_size, base + segments(heap_segments()), 0},
                    {kind::usable_size, ~std::uint64_t{0}, 0}}),
              (std::vector<std::uint64_t>{112, segments(1), 0, 0, 0, 0, 0}));
    free_all({blocks[0], blocks[1]});
    EXPECT_EQ(make(kind::usable_size, page), 0u);
    EXPECT_EQ(make(kind::usable_size, chunk), 0u);  // the other lane's block keeps the chunk alive
    free_all({blocks[2]});
    expect_empty();
}

}  // namespace
}  // namespace orchard::test
