// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Blocks that the host allocates or frees while kernels run, together with device threads that free or allocate them.

#include <set>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "tests/support/heap_fixture.hpp"
#include "uvm/memory/memory_driver.hpp"

namespace orchard::test {
namespace {

class heap_host_blocks : public heap_contract {
protected:
    void* take(std::uint64_t bytes) {
        const auto p = h().allocate_on_host(bytes);
        EXPECT_TRUE(p.ok()) << p.status();
        return p.ok() ? *p : nullptr;
    }
    std::vector<block> take_each(const std::vector<std::uint64_t>& sizes) {
        std::vector<block> blocks;
        for (const std::uint64_t bytes : sizes) {
            blocks.push_back({as_number(take(bytes)), bytes});
        }
        return blocks;
    }
    void give_each(const std::vector<block>& blocks) {
        for (const block& b : blocks) {
            const absl::Status s = h().free_on_host(b.pointer());
            EXPECT_TRUE(s.ok()) << s;
        }
    }
    std::uint64_t invalid_frees() { return settled_stats().invalid_frees; }
};
INSTANTIATE_TEST_SUITE_P(all, heap_host_blocks, ::testing::ValuesIn(heap_cases()), case_name);

/// Returns sizes of every kind: pages on the device, shared chunks on the host, leaves, segments, segments with tails.
std::vector<std::uint64_t> sizes_of_every_kind(bool is_small) {
    std::vector<std::uint64_t> sizes;
    if (is_small) {
        return {1, 5000, 5000, 200'000, 1'000'000, 2'100'000};
    }
    for (const std::uint64_t bytes : {1ul, 16ul, 2048ul, 2049ul, 5000ul, 40'000ul, 65'536ul, 200'000ul, 262'144ul,
                                      262'145ul, 1'000'000ul, 1'999'999ul, 2'097'152ul, 2'100'000ul}) {
        sizes.insert(sizes.end(), bytes < 10'000 ? 40 : 1, bytes);
    }
    return sizes;
}

TEST_P(heap_host_blocks, are_the_callers_own_and_kernels_free_them) {
    for (int round = 0; round < 2; ++round) {
        const std::vector<block> blocks = take_each(sizes_of_every_kind(heap_segments() < 32));
        for (const block& b : blocks) {
            EXPECT_EQ(b.address % 256, 0u);
        }
        stamp(blocks);
        expect_stamped(blocks);
        EXPECT_EQ(settled_stats().allocations - settled_stats().frees, blocks.size());
        free_all(blocks);
    }
    expect_empty();
    EXPECT_EQ(invalid_frees(), 0u);
}

TEST_P(heap_host_blocks, are_freed_by_the_host_too_as_are_those_of_kernels) {
    const std::vector<block> own = take_each(sizes_of_every_kind(heap_segments() < 32));
    const std::vector<block> theirs = allocate(sizes_of_every_kind(heap_segments() < 32));
    stamp(own);
    stamp(theirs);
    give_each(theirs);
    expect_stamped(own);
    give_each(own);
    expect_empty();
    EXPECT_EQ(invalid_frees(), 0u);
}

TEST_P(heap_host_blocks, are_freed_once) {
    const block b = take_each({3000}).front();
    const block other = take_each({3000}).front();
    stamp({other});
    give_each({b, b});
    EXPECT_EQ(invalid_frees(), 1u);
    EXPECT_EQ(h().first_invalid_free(), b.address);
    expect_stamped({other});
    give_each({other});
    EXPECT_TRUE(h().free_on_host(nullptr).ok());
    expect_empty();
}

TEST_P(heap_host_blocks, freed_are_at_hand_for_kernels_that_run_short) {
    // The host takes the whole heap, block by block, and frees it; the next kernel can allocate exactly this memory.
    for (int round = 0; round < 3; ++round) {
        std::vector<block> all = allocate(std::vector<std::uint64_t>(heap_segments(), segments(1)), 1);
        std::erase_if(all, [](const block& b) { return b.address == 0; });
        ASSERT_GE(all.size(), heap_segments() / 2);
        give_each(all);
    }
    expect_empty();
}

TEST_P(heap_host_blocks, more_are_freed_than_the_ring_holds) {
    const std::uint64_t n = device::host_free_ring::capacity + 500;
    const std::vector<block> blocks = allocate(std::vector<std::uint64_t>(n, 16));
    give_each(blocks);
    expect_empty();
    EXPECT_EQ(settled_stats().frees, n);
}

TEST_P(heap_host_blocks, that_cannot_be_are_refused_with_the_numbers) {
    EXPECT_EQ(take(0), nullptr);
    const auto large = h().allocate_on_host(largest_chunk() + 1);
    EXPECT_TRUE(absl::IsInvalidArgument(large.status())) << large.status();
    std::vector<block> all;
    absl::Status last;
    while (last.ok()) {
        const auto p = h().allocate_on_host(segments(1));
        last = p.status();
        if (p.ok()) {
            all.push_back({as_number(*p), segments(1)});
        }
    }
    EXPECT_EQ(all.size(), heap_segments());
    EXPECT_TRUE(absl::IsResourceExhausted(last)) << last;
    EXPECT_NE(last.message().find(std::to_string(segments(heap_segments()))), absl::string_view::npos) << last;
    give_each(all);
    for (const std::uint64_t address : {all.front().address - segments(1000), ~std::uint64_t{0}}) {
        EXPECT_TRUE(absl::IsInvalidArgument(h().free_on_host(reinterpret_cast<void*>(address))));
    }
    expect_empty();
}

/// The messages between a waiting kernel and the host, in device memory that the host copies.
struct meeting {
    simt::device_word<std::uint64_t> arrived;
    simt::device_word<std::uint64_t> go;
    simt::device_word<std::uint64_t> late;   ///< threads that waited in vain
    simt::device_word<std::uint64_t> wrong;  ///< blocks whose contents changed
};

/// Each thread allocates a block, waits, then frees the block that the host gave it, while the host frees the thread's
/// block. A thread without a block from the host frees its own.
struct wait_for_host {
    heap_ref heap;
    meeting* m;
    std::uint64_t* own;    ///< [threads]
    std::uint64_t* given;  ///< [threads]
    std::uint64_t bytes;

    static constexpr std::uint64_t deadline_ns = 60'000'000'000;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        own[i] = as_number(heap.malloc(bytes));
        m->arrived.fetch_add<simt::order::acq_rel>(1);
        const std::uint64_t began = simt::clock_ns();
        while (m->go.load<simt::order::acquire>() == 0) {
            if (simt::clock_ns() - began > deadline_ns) {
                m->late.fetch_add<simt::order::relaxed>(1);
                return;
            }
            simt::pause(1000);
        }
        void* p = reinterpret_cast<void*>(given[i] != 0 ? given[i] : own[i]);
        stamp_block(p, bytes, i);
        simt::pause(1000);
        if (!has_stamp(p, bytes, i)) {
            m->wrong.fetch_add<simt::order::relaxed>(1);
        }
        heap.free(p);
    }
};

TEST_P(heap_host_blocks, come_and_go_while_the_device_is_full_of_threads_that_wait) {
    if (heap_segments() < 32) {
        GTEST_SKIP() << "too small a heap for this many threads";
    }
    const bool cuda = h().executor().kind == simt::device_kind::cuda;
    // More than a GPU holds at once, or all the emulated workers: no other kernel could start.
    const simt::grid shape = cuda ? simt::grid{2112, 128} : simt::grid{2, 64};
    const std::uint64_t threads = std::uint64_t{shape.blocks} * shape.threads_per_block;
    const std::uint64_t given_count = cuda ? 4096 : threads;
    constexpr std::uint64_t bytes = 64;
    auto driver = cuda ? make_cuda_driver() : make_emulated_driver();
    ASSERT_TRUE(driver.ok()) << driver.status();
    const auto shared = (*driver)->allocate(sizeof(meeting));
    const auto own = (*driver)->allocate(threads * sizeof(std::uint64_t));
    const auto given = (*driver)->allocate(threads * sizeof(std::uint64_t));
    ASSERT_TRUE(shared.ok() && own.ok() && given.ok());
    auto* const m = static_cast<meeting*>(*shared);
    ASSERT_TRUE(h().preload<wait_for_host>().ok());

    simt::launch_result result;
    std::jthread kernel([&] {
        result = simt::launch(
            h().executor(), shape,
            wait_for_host{h().ref(), m, static_cast<std::uint64_t*>(*own), static_cast<std::uint64_t*>(*given), bytes});
    });
    const auto read = [&](const simt::device_word<std::uint64_t>& from) {
        simt::device_word<std::uint64_t> word{0};
        EXPECT_TRUE((*driver)->read(static_cast<void*>(&word), static_cast<const void*>(&from), sizeof(word)).ok());
        return word.load<simt::order::relaxed>();
    };
    // Continues until the heap is full. Threads that waited for a place on the GPU start when the first ones have
    // ended.
    for (std::uint64_t before = 0, now = 0; now < given_count || now != before;) {
        absl::SleepFor(absl::Milliseconds(20));
        before = std::exchange(now, read(m->arrived));
    }
    std::vector<std::uint64_t> addresses(threads);
    ASSERT_TRUE((*driver)->read(addresses.data(), *own, threads * sizeof(std::uint64_t)).ok());
    std::set<std::uint64_t> distinct;
    for (std::uint64_t& address : addresses) {
        EXPECT_TRUE(address == 0 || distinct.insert(address).second);
    }
    std::uint64_t exchanged = 0;
    for (std::uint64_t& address : addresses) {
        if (address == 0 || exchanged == given_count) {
            address = 0;  // the thread frees this block itself
            continue;
        }
        const std::uint64_t fresh = as_number(take(bytes));
        EXPECT_EQ(distinct.count(fresh), 0u);
        EXPECT_TRUE(h().free_on_host(reinterpret_cast<void*>(address)).ok());
        address = fresh;
        ++exchanged;
    }
    EXPECT_EQ(exchanged, given_count);
    for (std::uint64_t i = 0; i < threads; i += 512) {
        const std::uint64_t n = std::min<std::uint64_t>(512, threads - i);
        ASSERT_TRUE(
            (*driver)
                ->write(static_cast<std::uint64_t*>(*given) + i, addresses.data() + i, n * sizeof(std::uint64_t))
                .ok());
    }
    const std::uint64_t go = 1;
    ASSERT_TRUE((*driver)->write(static_cast<void*>(&m->go), &go, sizeof(go)).ok());
    kernel.join();
    EXPECT_TRUE(result.ok) << result.error;
    EXPECT_EQ(read(m->late), 0u);
    EXPECT_EQ(read(m->wrong), 0u);
    expect_empty();
    EXPECT_EQ(invalid_frees(), 0u);
}

}  // namespace
}  // namespace orchard::test
