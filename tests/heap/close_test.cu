// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// heap::close(): requests end with null and a reason, waiting threads continue, frees still work.

#include <chrono>
#include <thread>

#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

/// Allocates and frees until it gets null. Counts the threads that still get memory long after the heap was closed.
struct allocate_until_null {
    heap_ref heap;
    std::uint64_t bytes;
    simt::device_word<std::uint32_t>* ended;
    simt::device_word<std::uint32_t>* served;

    ORCHARD_FN bool closing() const {
        return heap.view().mailbox.device->rejection.flags.load<simt::order::relaxed>() != 0;
    }
    ORCHARD_FN void operator()(simt::thread_position) const {
        constexpr std::uint32_t patience = 1000;
        std::uint32_t rounds_since = 0;
        for (void* p = heap.malloc(bytes); p != nullptr; p = heap.malloc(bytes)) {
            heap.free(p);
            rounds_since += closing() ? 1 : 0;
            if (rounds_since > patience) {
                served->fetch_add<simt::order::relaxed>(1);
                break;
            }
        }
        ended->fetch_add<simt::order::relaxed>(1);
    }
};

class heap_close : public heap_contract {
protected:
    void expect_closing() {
        ASSERT_TRUE(h().last_failure().has_value());
        EXPECT_EQ(name_of(h().last_failure()->reason), name_of(failure_reason::closing));
    }
    /// Closes while a kernel allocates and frees without end.
    void close_under(simt::grid shape, std::uint64_t bytes) {
        const auto ended = array<simt::device_word<std::uint32_t>>(1);
        const auto served = array<simt::device_word<std::uint32_t>>(1);
        ASSERT_TRUE((h().preload<allocate_until_null, free_each>().ok()));
        std::thread kernel([&] { launch(shape, allocate_until_null{h().ref(), bytes, ended.data(), served.data()}); });
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        const absl::Status closed = h().close();
        kernel.join();
        EXPECT_TRUE(closed.ok()) << closed;
        EXPECT_EQ(to_host(ended).front().load<simt::order::relaxed>(), shape.blocks * shape.threads_per_block);
        EXPECT_EQ(to_host(served).front().load<simt::order::relaxed>(), 0u) << "threads that a closed heap serves";
        expect_closing();
    }
};
INSTANTIATE_TEST_SUITE_P(all, heap_close, ::testing::ValuesIn(heap_cases()), case_name);

TEST_P(heap_close, later_requests_are_null_and_frees_are_taken) {
    const std::vector<block> blocks = allocate({64, 64, 5000, segments(1), segments(2)}, 1);
    ASSERT_NO_FATAL_FAILURE(expect_disjoint(blocks));
    stamp(blocks);
    ASSERT_TRUE(h().close().ok());
    // Also of classes that have pages at hand, and of segments that lie in the segment cache.
    for (const block& b : allocate({64, 5000, 1000, segments(1), segments(2), 600'000}, 1)) {
        EXPECT_EQ(b.address, 0u) << b.bytes << " bytes";
    }
    expect_closing();
    expect_stamped(blocks);
    free_all(blocks);
    const statistics s = settled_stats();
    EXPECT_EQ(s.frees, 5u);
    EXPECT_EQ(s.failed_allocations, 6u);
    EXPECT_EQ(s.pages_in_use, 0u);
    EXPECT_EQ(s.live_chunks, 0u);
    EXPECT_EQ(s.invalid_frees, 0u);
    for (const block& b : allocate({64, 5000, segments(1)}, 1)) {
        EXPECT_EQ(b.address, 0u) << b.bytes << " bytes, after frees";
    }
    EXPECT_TRUE(h().close().ok());
}

TEST_P(heap_close, a_heap_that_was_never_used) {
    ASSERT_TRUE(h().close().ok());
    EXPECT_EQ(allocate_one(100).address, 0u);
    expect_closing();
    EXPECT_EQ(h().last_failure()->count, 1u);
}

TEST_P(heap_close, the_host_gets_nothing_more_and_may_free) {
    const auto small = h().allocate_on_host(100);  // its chunk has room for more
    const auto large = h().allocate_on_host(segments(1));
    ASSERT_TRUE(small.ok() && large.ok());
    ASSERT_TRUE(h().close().ok());
    for (const std::uint64_t bytes : {std::uint64_t{100}, segments(1)}) {
        const auto refused = h().allocate_on_host(bytes);
        EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition) << bytes;
        EXPECT_EQ(refused.status().message(), "the heap was closed and gives no more memory; create another heap");
    }
    EXPECT_TRUE(h().free_on_host(*small).ok());
    EXPECT_TRUE(h().free_on_host(*large).ok());
}

TEST_P(heap_close, under_a_kernel_that_uses_pages) { close_under({2, 64}, 64); }

TEST_P(heap_close, under_a_kernel_that_uses_chunks) {
    // The heap has enough memory even if each lane holds a segment and another segment of each lane is in flight.
    close_under({2, heap_segments() < 32 ? 2u : 8u}, largest_page_bytes + 1);
}

TEST_P(heap_close, under_single_lanes_that_ask_the_host_each_time) { close_under({3, 1}, segments(1)); }

TEST_P(heap_close, trim_after_closing_ends) {
    // The deadline is longer than the test's own time limit, so that waiting for it fails the test.
    options values = GetParam().values();
    values.request_timeout = absl::Minutes(10);
    remake(values);
    cycle({100, segments(1)});
    ASSERT_TRUE(h().close().ok());
    EXPECT_TRUE(h().trim().ok());
    EXPECT_EQ(settled_stats().slabs_in_use, 0u);
}

}  // namespace
}  // namespace orchard::test
