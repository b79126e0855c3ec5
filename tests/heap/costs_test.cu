// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The cost of a request, counted on the emulated device.

#include "device/reclaim/acquire.cuh"
#include "tests/support/heap_fixture.hpp"
#include "tests/support/heap_peer.hpp"

namespace orchard::test {
namespace {

/// Lanes of a mask each take one page, or free it.
struct each_lane_once {
    heap_ref heap;
    std::uint64_t bytes;
    simt::lane_mask mask;
    std::uint64_t* pages;  ///< [32]; if an entry is zero, a page is allocated, otherwise the page is freed

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if ((mask >> at.thread & 1) == 0) {
            return;
        }
        if (pages[at.thread] == 0) {
            pages[at.thread] = as_number(heap.malloc(bytes));
        } else {
            heap.free(reinterpret_cast<void*>(pages[at.thread]));
            pages[at.thread] = 0;
        }
    }
};

class heap_costs : public heap_contract {
protected:
    using costs = simt::emulated::costs;

    /// The cost of `rounds` rounds, and the number of counted statistics that they changed.
    struct measured {
        costs cost;
        std::uint64_t statistics_changed;
    };
    measured measure(std::uint64_t bytes, std::uint32_t rounds, simt::lane_mask mask, bool frees = true) {
        const statistics before = settled_stats();
        const costs cost = launch({1, 32}, allocate_and_free{h().ref(), bytes, rounds, mask, frees ? 1u : 0u});
        const statistics after = settled_stats();
        std::uint64_t changed = 0;
        for (const statistic_field field : {&statistics::allocations, &statistics::frees, &statistics::allocated_bytes,
                                            &statistics::groups, &statistics::multi_lane_groups}) {
            changed += after.*field != before.*field ? 1 : 0;
        }
        return {cost, changed};
    }
};
INSTANTIATE_TEST_SUITE_P(all, heap_costs, ::testing::Values(heap_cases()[0]), case_name);

TEST_P(heap_costs, a_hit_is_one_atomic_for_the_warp_and_a_free_another) {
    for (const std::uint64_t bytes : {16u, 80u, 1024u, 20'000u}) {
        (void)measure(bytes, 1, ~0u);  // the class has its slab
        for (const simt::lane_mask mask : {~0u, 0x0f0f0f0fu, 1u, 0x80000000u}) {
            const measured few = measure(bytes, 1, mask);
            const measured many = measure(bytes, 11, mask);
            // Each round: one claim, one free, and one atomic at most for each statistic.
            const std::uint64_t atomics = many.cost.device_atomics - few.cost.device_atomics;
            EXPECT_GE(atomics, 10 * 2u);
            EXPECT_LE(atomics, 10 * (2 + many.statistics_changed)) << bytes << " bytes, lanes " << mask;
            EXPECT_EQ(many.cost.host_words_read, 0u);
            EXPECT_EQ(many.cost.host_words_written, 0u);
            EXPECT_EQ(many.cost.host_atomics, 0u);
            EXPECT_EQ(many.cost.pauses, 0u);
        }
    }
}

TEST_P(heap_costs, of_one_hit_and_of_one_free_exactly) {
    for (const std::uint64_t bytes : {16u, 48u, 112u, 1024u, 8192u, 40'000u, 65'536u}) {
        for (const simt::lane_mask mask : {~0u, 1u, 0x80000000u, 0x10204081u, 0x00ff0000u}) {
            const auto pages = array<std::uint64_t>(32);
            const each_lane_once once{h().ref(), bytes, mask, pages.data()};
            launch({1, 32}, once);  // the class has its slab
            launch({1, 32}, once);
            const std::uint64_t groups = settled_stats().groups;
            const costs hit = launch({1, 32}, once);
            EXPECT_EQ(settled_stats().groups, groups + 1);
            EXPECT_EQ(hit.device_atomics, 2u) << "the bitmap's and the statistic's; " << bytes << " B, lanes " << mask;
            EXPECT_EQ(hit.host_words_read + hit.host_words_written + hit.host_atomics, 0u);
            EXPECT_EQ(hit.device_stores, 0u);
            EXPECT_EQ(hit.pauses, 0u);
            const costs freed = launch({1, 32}, once);
            EXPECT_EQ(freed.device_atomics, 1u) << "all bits lie in one word; " << bytes << " B, lanes " << mask;
            EXPECT_EQ(freed.device_loads, static_cast<std::uint64_t>(simt::popcount(mask))) << "descriptors";
            EXPECT_EQ(freed.host_words_read + freed.host_words_written + freed.host_atomics, 0u);
            EXPECT_EQ(freed.device_stores, 0u);
        }
    }
    expect_empty();
}

TEST_P(heap_costs, a_free_is_one_atomic_for_each_bitmap_word) {
    // 32 pages that lie in as many words: each 64th of 64 x 32 that follow each other in a new slab.
    constexpr std::uint64_t bytes = 64;
    const std::vector<block> all = allocate(std::vector<std::uint64_t>(64 * 32, bytes), 256);
    std::vector<block> sorted = all;
    std::sort(sorted.begin(), sorted.end(), [](const block& a, const block& b) { return a.address < b.address; });
    for (const std::size_t apart : {std::size_t{64}, std::size_t{2}}) {
        std::vector<block> some;
        std::vector<std::uint64_t> words;
        for (std::size_t i = 0; some.size() < 32; i += apart) {
            some.push_back(sorted[i]);
            words.push_back(sorted[i].address / (64 * bytes));
        }
        std::erase_if(sorted, [&](const block& b) { return std::find(some.begin(), some.end(), b) != some.end(); });
        words.erase(std::unique(words.begin(), words.end()), words.end());
        const auto them = array_of(some);
        const costs freed = launch({1, 32}, free_each{h().ref(), them.data(), some.size()});
        EXPECT_EQ(freed.device_atomics, words.size()) << "pages " << apart << " apart";
        EXPECT_GE(words.size(), apart == 64 ? 16u : 1u);
    }
    free_all(sorted);
    expect_empty();
}

TEST_P(heap_costs, a_warp_costs_what_a_lane_costs) {
    (void)measure(64, 1, ~0u);
    const measured warp = measure(64, 20, ~0u);
    const measured lane = measure(64, 20, 2u);
    // Atomics differ only by the statistic of groups with several lanes. Loads differ because each lane reads its own
    // descriptor.
    EXPECT_LE(warp.cost.device_atomics, lane.cost.device_atomics + 20);
    EXPECT_EQ(warp.cost.device_stores, lane.cost.device_stores);
    EXPECT_LE(warp.cost.device_loads, lane.cost.device_loads + 20 * 31);
}

TEST_P(heap_costs, the_cache_keeps_the_host_out) {
    // The first requests fetch a batch; the next ones return the segments that the segment cache does not keep.
    for (int i = 0; i < 2; ++i) {
        launch({1, 32}, allocate_and_free{h().ref(), segments(1), 30, 1u, 1u});
        expect_valid("once the batch has come");
    }
    const std::uint64_t requests_before = settled_stats().host_requests;
    const costs cost = launch({1, 32}, allocate_and_free{h().ref(), segments(1), 20, 1u, 1u});
    EXPECT_EQ(settled_stats().host_requests, requests_before);
    EXPECT_EQ(cost.host_words_read, 0u);
    EXPECT_EQ(cost.host_words_written, 0u);
}

// A refusal of an exhausted heap is one reclaim and one request to the host. Neither the reclaim nor the scans look
// again and again at what is known to be empty: classes without slabs, lengths of portions, indices without a slab.
TEST_P(heap_costs, a_refusal_is_a_reclaim_and_a_request_in_few_steps) {
    const std::vector<block> all = allocate(std::vector<std::uint64_t>(heap_segments(), segments(1)), 1);
    const heap_peer peer(h());
    const auto reclaims = [&] { return device::reclaim_count::number(peer.read(&peer.view().state->reclaims.word)); };
    struct expectation {
        std::uint64_t bytes;
        simt::lane_mask mask;
        std::uint64_t atomics;
        std::uint64_t collectives;
    };
    // The first refusal finds out that nothing is left, and asks twice.
    EXPECT_EQ(allocate_one(segments(1)).address, 0u);
    for (const expectation& e : {expectation{16, 1u, 60, 320}, expectation{16, ~0u, 260, 220},
                                 expectation{64, ~0u, 260, 220}, expectation{segments(1), 1u, 40, 210}}) {
        bool few_steps = false;
        // A wait for the service only adds to the steps.
        for (int attempt = 0; attempt < 200 && !few_steps; ++attempt) {
            const std::uint64_t requests_before = settled_stats().host_requests;
            const std::uint64_t reclaims_before = reclaims();
            const costs cost = launch({1, 32}, allocate_and_free{h().ref(), e.bytes, 1, e.mask, 0});
            EXPECT_EQ(settled_stats().host_requests - requests_before, 1u);
            EXPECT_EQ(reclaims() - reclaims_before, 2u) << "the word counts two for each";
            few_steps = cost.device_atomics <= e.atomics && cost.collectives <= e.collectives;
        }
        EXPECT_TRUE(few_steps) << e.bytes << " B, lanes " << e.mask;
    }
    free_all(all);
    expect_empty();
}

TEST_P(heap_costs, freeing_chunks_asks_the_host_nothing) {
    for (const auto& which : {heap_cases()[0], heap_cases()[1]}) {
        remake(which.values());
        // More than twice the target of the segment cache, in runs of several lengths.
        for (const std::uint64_t k : {std::uint64_t{1}, std::uint64_t{3}, heap_segments() / 4}) {
            std::vector<block> blocks;
            for (std::uint64_t i = 0; i < heap_segments() * 3 / 4 / k; ++i) {
                blocks.push_back(allocate_one(segments(k)));
                ASSERT_NE(blocks.back().address, 0u);
            }
            const statistics before = settled_stats();
            const auto them = array_of(blocks);
            const costs cost =
                launch(simt::grid_for(blocks.size(), 64), free_each{h().ref(), them.data(), blocks.size()});
            const statistics after = settled_stats();
            EXPECT_EQ(after.live_chunks, 0u);
            EXPECT_EQ(after.host_requests, before.host_requests) << k << " segments each";
            EXPECT_EQ(after.segments_in_cache, before.segments_in_cache + blocks.size() * k);
            EXPECT_EQ(cost.host_words_read + cost.host_words_written, 0u);
            EXPECT_EQ(cost.pauses, 0u);
            // All of it can be allocated again, even in one piece.
            const block whole = allocate_one(largest_chunk());
            EXPECT_NE(whole.address, 0u);
            free_all({whole});
            expect_empty();
        }
    }
}

// An empty segment cache names no words. Otherwise a search would look at each of them.
TEST_P(heap_costs, a_trimmed_cache_names_no_words) {
    const heap_peer peer(h());
    const auto named = [&] {
        std::uint64_t words = 0;
        for (std::uint32_t leaves = 0; leaves < leaves_per_segment; ++leaves) {
            const device::cache_bitmap bitmap = device::cache_bitmap_of(peer.view(), leaves);
            for (std::uint32_t i = 0; i < (bitmap.count + 63) / 64; ++i) {
                words += static_cast<std::uint64_t>(simt::popcount(peer.read(&bitmap.summary[i])));
            }
        }
        return words;
    };
    std::vector<std::uint64_t> sizes;
    for (std::uint64_t leaves = 1; leaves < leaves_per_segment && 2 * leaves < heap_segments(); ++leaves) {
        sizes.push_back(segments(1) + leaves * big_page_bytes);
    }
    free_all(allocate(sizes, 1));
    // More than the chunk store takes.
    free_all(allocate(std::vector<std::uint64_t>(heap_segments() - 4, segments(1)), 1));
    EXPECT_GT(named(), 0u);
    ASSERT_TRUE(h().trim().ok());
    EXPECT_EQ(named(), 0u);
    expect_empty();
}

TEST_P(heap_costs, a_group_that_asks_returns_what_the_cache_has_too_much) {
    options small = GetParam().values();
    small.capacity = segments(31);  // too small for a chunk store: all that is freed goes into the segment cache
    remake(small);
    ASSERT_EQ(h().ref().view().stored_rows, 0u);
    const std::uint64_t most = h().ref().view().cache_max;
    const std::vector<block> blocks = allocate(std::vector<std::uint64_t>(heap_segments() - 4, segments(1)), 1);
    free_all(blocks);
    const statistics full = settled_stats();
    ASSERT_GT(full.segments_in_cache, most + 1);
    // A page of a class without a slab needs a segment.
    std::vector<block> pages{allocate_one(largest_page_bytes)};
    const statistics after = settled_stats();
    EXPECT_GT(after.returns, full.returns);
    EXPECT_LE(after.returns, full.returns + device::returns_at_once);
    EXPECT_LT(after.segments_in_cache, full.segments_in_cache - 1);
    // Some more requests, and it has no more than it should.
    for (std::uint64_t bytes = largest_page_bytes / 2; bytes >= largest_page_bytes / 16; bytes /= 2) {
        pages.push_back(allocate_one(bytes));
    }
    EXPECT_LE(settled_stats().segments_in_cache, most);
    free_all(pages);
}

TEST_P(heap_costs, what_the_host_is_asked_without_a_cache) {
    remake(heap_cases()[1].values());
    const statistics before = settled_stats();
    const costs cost = launch({1, 1}, allocate_and_free{h().ref(), segments(1), 10, 1u, 1u});
    const statistics after = settled_stats();
    // Each round requests a grant and returns the memory that the previous round freed. The last freed memory stays on
    // the device.
    EXPECT_EQ(after.host_requests - before.host_requests, 19u);
    EXPECT_EQ(after.grants - before.grants, 10u);
    EXPECT_EQ(after.returns - before.returns, 9u);
    EXPECT_EQ(after.segments_in_cache, 1u);
    EXPECT_EQ(cost.host_words_written, 19u);
    EXPECT_EQ(cost.host_atomics, 0u);
}

// The lanes of a warp whose slabs are missing get them by one request to the host: eight classes with a slab each, and
// eight slabs of one class, of which each has four pages.
TEST_P(heap_costs, one_request_brings_all_slabs_that_a_warp_lacks) {
    std::vector<std::uint64_t> classes;
    for (std::uint64_t i = 0; i < 32; ++i) {
        classes.push_back(64u << i / 4);
    }
    for (const auto& sizes : {classes, std::vector<std::uint64_t>(32, largest_page_bytes)}) {
        remake(heap_cases()[1].values());
        ASSERT_GE(heap_segments(), 8u);
        const std::vector<block> blocks = allocate(sizes, 32);
        const statistics after = settled_stats();
        EXPECT_EQ(after.slabs_published, 8u);
        EXPECT_EQ(after.host_requests, 1u);
        expect_disjoint(blocks);
        stamp(blocks);
        expect_stamped(blocks);
        free_all(blocks);
        expect_empty();
    }
}

// A reservation names as many pages as the warp lacks, whatever the number of pages of a slab: 25, 6 and 4.
TEST_P(heap_costs, one_reservation_serves_a_warp_whose_slabs_are_missing) {
    for (const std::uint64_t bytes : {80u << 10, 320u << 10, 512u << 10}) {
        remake(heap_cases()[1].values());
        const std::uint64_t slabs = (32 + segment_bytes / bytes - 1) / (segment_bytes / bytes);
        ASSERT_GE(heap_segments(), slabs);
        const std::vector<block> blocks = allocate(std::vector<std::uint64_t>(32, bytes), 32);
        const statistics after = settled_stats();
        EXPECT_EQ(after.reservations, 1u) << bytes << " B";
        EXPECT_EQ(after.slabs_published, slabs) << bytes << " B";
        free_all(blocks);
        expect_empty();
    }
}

// If only single segments are free, the lanes of a warp get their slabs one after the other.
TEST_P(heap_costs, slabs_come_one_by_one_if_no_run_is_free) {
    const std::vector<block> all = allocate(std::vector<std::uint64_t>(heap_segments(), segments(1)), 1);
    ASSERT_GE(all.size(), 16u);
    std::vector<block> odd;
    std::vector<block> even;
    for (const block& b : all) {
        (b.address / segment_bytes % 2 != 0 ? odd : even).push_back(b);
    }
    free_all(odd);
    const std::vector<block> pages = allocate(std::vector<std::uint64_t>(32, largest_page_bytes), 32);
    expect_disjoint(pages);
    EXPECT_EQ(settled_stats().slabs_published, 8u);
    free_all(pages);
    free_all(even);
    expect_empty();
}

}  // namespace
}  // namespace orchard::test
