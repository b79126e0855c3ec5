// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// An exhausted heap: requests fail soon, and memory that is freed can be allocated again.

#include <algorithm>
#include <atomic>
#include <thread>

#include "absl/time/clock.h"
#include "tests/support/heap_fixture.hpp"
#include "tests/support/heap_service_peer.hpp"

namespace orchard::test {
namespace {

class heap_shortage : public heap_contract {
protected:
    /// Blocks of a segment each that are all of the heap.
    std::vector<block> fill() {
        std::vector<block> all = allocate(std::vector<std::uint64_t>(heap_segments(), segments(1)), 1);
        expect_disjoint(all);
        return all;
    }
    std::uint64_t host_requests() {
        const auto stats = h().stats();
        EXPECT_TRUE(stats.ok()) << stats.status();
        return stats.ok() ? stats->host_requests : 0;
    }
    static std::size_t served(const std::vector<block>& blocks) {
        return static_cast<std::size_t>(
            std::count_if(blocks.begin(), blocks.end(), [](const block& b) { return b.address != 0; }));
    }
};
INSTANTIATE_TEST_SUITE_P(all, heap_shortage,
                         ::testing::Values(heap_cases()[0], heap_cases()[1], heap_cases()[4], heap_cases()[5]),
                         case_name);

// The lanes allocate together, then by halves, quarters and so on: 63 requests. The first request asks the host twice,
// and each later one asks it once, because no reclaim of this launch can find memory that the first reclaim has not
// found.
TEST_P(heap_shortage, is_found_out_once_by_a_warp) {
    const std::vector<block> all = fill();
    const std::uint64_t before = host_requests();
    const std::vector<block> refused = allocate(std::vector<std::uint64_t>(32, segments(1) / 2), 32);
    EXPECT_EQ(served(refused), 0u);
    EXPECT_LE(host_requests() - before, 66u);
    free_all(all);
    expect_empty();
}

// Pages of eight classes: each request asks the host for a slab, and one of them asks twice.
TEST_P(heap_shortage, is_found_out_once_by_all_classes_of_a_warp) {
    const std::vector<block> all = fill();
    const std::uint64_t before = host_requests();
    std::vector<std::uint64_t> sizes;
    for (std::uint64_t i = 0; i < 32; ++i) {
        sizes.push_back(std::uint64_t{16} << i % 8);
    }
    EXPECT_EQ(served(allocate(sizes, 32)), 0u);
    EXPECT_LE(host_requests() - before, 18u) << "a class may ask again while others find out";
    free_all(all);
    expect_empty();
}

TEST_P(heap_shortage, ends_with_the_next_free) {
    std::vector<block> all = fill();
    for (const std::uint64_t bytes : {std::uint64_t{64}, segments(1) / 2, segments(1)}) {
        EXPECT_EQ(served(allocate({bytes}, 1)), 0u) << bytes;
        free_all({all.back()});
        all.pop_back();
        const std::vector<block> got = allocate({bytes}, 1);
        ASSERT_EQ(served(got), 1u) << bytes;
        // It fills the room again, if only by a slab or a portion that keeps a segment.
        EXPECT_EQ(served(allocate({segments(1)}, 1)), 0u) << bytes;
        free_all(got);
        const std::vector<block> again = allocate({segments(1)}, 1);
        ASSERT_EQ(served(again), 1u) << bytes;
        all.push_back(again.front());
    }
    free_all(all);
    expect_empty();
}

// Freed segments and tails lie in the segment cache, and no run of segments is complete there. With few slots, a
// reclaim returns them to the host over several turns of the service, each of which comes late here.
TEST_P(heap_shortage, is_not_what_a_slow_service_looks_like) {
    free_all(allocate(std::vector<std::uint64_t>(heap_segments() / 2, segments(1) + 1), 1));
    std::atomic<bool> begun{false};
    std::atomic<bool> over{false};
    std::thread slow([&] {
        heap_service_peer::run(h(), [&] {
            begun.store(true);
            while (!over.load()) {
                absl::SleepFor(absl::Milliseconds(10));
                heap_service_peer::poll_once(h());
            }
        });
    });
    while (!begun.load()) {
        std::this_thread::yield();
    }
    const std::vector<block> got = allocate({segments(heap_segments())}, 1);
    over.store(true);
    slow.join();
    EXPECT_EQ(served(got), 1u);
    free_all(got);
    expect_empty();
}

}  // namespace
}  // namespace orchard::test
