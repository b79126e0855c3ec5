// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A hardened heap finds a program's faults, names block and threads, and finds none where there is none. The level
/// `guard`, which ends the kernel, on the emulated device only: on CUDA a trap ends the process's use of the GPU.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "device/heap_ref.cuh"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/heap.hpp"
#include "tests/support/hardened_fixture.hpp"

namespace orchard::test {
namespace {

using testing::Contains;
using testing::Field;
using testing::HasSubstr;

/// What the first thread does wrong with a block of its own.
enum class wrong : std::uint32_t {
    nothing,
    byte_behind,    ///< writes the first byte behind the end
    guard_written,  ///< writes far behind the end
    freed_twice,
    written_after_free,
    interior,  ///< frees an address in the middle
    foreign,   ///< frees an address that is none of the heap's
};

/// Thread `sinner` of block 0 makes a mistake with a block of `bytes` bytes; all others use theirs as they may.
struct misuse {
    heap_ref heap;
    wrong what;
    std::uint64_t bytes;
    void** foreign;

    static constexpr std::uint32_t sinner = 5;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        auto* const p = static_cast<char*>(heap.malloc(bytes));
        if (p == nullptr) {
            return;
        }
        for (std::uint64_t i = 0; i < bytes; i += bytes - 1) {
            p[i] = static_cast<char>(0xff);
        }
        const bool errs = at.block == 0 && at.thread == sinner;
        if (errs && what == wrong::byte_behind) {
            p[bytes] = 1;
        }
        if (errs && what == wrong::guard_written) {
            for (std::uint64_t i = 0; i < 64; ++i) {
                p[bytes + i] = 1;
            }
        }
        if (errs && what == wrong::interior) {
            heap.free(p + 16);
        }
        if (errs && what == wrong::foreign) {
            heap.free(static_cast<void*>(foreign));
        }
        heap.free(p);
        if (errs && what == wrong::freed_twice) {
            heap.free(p);
        }
        if (errs && what == wrong::written_after_free) {
            p[0] = 1;
        }
    }
};

/// Runs `misuse`, and empties the quarantine. Threads are few where a fault would be another one if the block had left
/// the quarantine already, or where a neighbour's block is written.
std::vector<block_fault> faults_of(heap& h, wrong what, std::uint64_t bytes) {
    auto foreign = device_array<void*>::create(h.executor(), 1);
    EXPECT_TRUE(foreign.ok()) << foreign.status();
    const bool few = what == wrong::freed_twice || what == wrong::written_after_free || what == wrong::guard_written;
    const simt::grid threads = few ? simt::grid{1, 8} : simt::grid{2, 64};
    const auto result = simt::launch(h.executor(), threads, misuse{h.ref(), what, bytes, foreign->data()});
    EXPECT_TRUE(result.ok) << result.error;
    EXPECT_TRUE(h.trim().ok());
    return h.block_faults();
}

class heap_hardened : public on_each_device {};

TEST_P(heap_hardened, finds_no_fault_in_a_right_program) {
    heap h = make_heap(GetParam(), hardening::detect);
    for (const std::uint64_t bytes : {2, 15, 16, 17, 64, 100, 4096, 5000, 100000, 524288, 600000}) {
        EXPECT_TRUE(faults_of(h, wrong::nothing, bytes).empty()) << bytes;
    }
    EXPECT_TRUE(h.validate().ok()) << h.validate();
}

TEST_P(heap_hardened, finds_a_byte_behind_the_end) {
    for (const std::uint64_t bytes : {2, 15, 16, 17, 64, 100, 4096, 5000, 600000}) {
        heap h = make_heap(GetParam(), hardening::detect);
        const auto faults = faults_of(h, wrong::byte_behind, bytes);
        ASSERT_EQ(faults.size(), 1u) << bytes;
        EXPECT_EQ(faults[0].kind, block_fault_kind::overflow);
        const block_fault::thread_name sinner{0, misuse::sinner};
        EXPECT_EQ(faults[0].found_by, sinner);
        // Without spare bytes, the first byte behind the end is the guard's, which then names no thread.
        if (faults[0].bytes != 0) {
            EXPECT_EQ(faults[0].bytes, bytes);
            EXPECT_EQ(faults[0].allocated_by, sinner);
        }
    }
}

TEST_P(heap_hardened, finds_a_guard_that_was_written_over_and_keeps_the_block) {
    heap h = make_heap(GetParam(), hardening::detect);
    const auto faults = faults_of(h, wrong::guard_written, 40);
    // The neighbour, which was written over as well, may have been free already.
    EXPECT_THAT(faults, Contains(Field(&block_fault::kind, block_fault_kind::overflow)));
    EXPECT_EQ(h.validate().code(), absl::StatusCode::kDataLoss);
    auto s = h.stats();
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_EQ(s->pages_in_use, 1u);
}

TEST_P(heap_hardened, finds_a_second_free) {
    heap h = make_heap(GetParam(), hardening::detect);
    const auto faults = faults_of(h, wrong::freed_twice, 100);
    ASSERT_EQ(faults.size(), 1u);
    EXPECT_EQ(faults[0].kind, block_fault_kind::double_free);
    EXPECT_EQ(faults[0].bytes, 100u);
    auto s = h.stats();
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_EQ(s->block_faults, 1u);
}

TEST_P(heap_hardened, finds_a_write_after_the_free) {
    heap h = make_heap(GetParam(), hardening::detect);
    const auto faults = faults_of(h, wrong::written_after_free, 100);
    ASSERT_EQ(faults.size(), 1u);
    EXPECT_EQ(faults[0].kind, block_fault_kind::use_after_free);
    EXPECT_EQ(faults[0].bytes, 100u);
    const block_fault::thread_name sinner{0, misuse::sinner};
    EXPECT_EQ(faults[0].allocated_by, sinner);
}

TEST_P(heap_hardened, finds_frees_of_what_is_no_block) {
    for (const wrong what : {wrong::interior, wrong::foreign}) {
        heap h = make_heap(GetParam(), hardening::detect);
        const auto faults = faults_of(h, what, 100);
        ASSERT_EQ(faults.size(), 1u);
        EXPECT_EQ(faults[0].kind, block_fault_kind::invalid_free);
        EXPECT_EQ(faults[0].address, h.first_invalid_free());
        auto s = h.stats();
        ASSERT_TRUE(s.ok()) << s.status();
        EXPECT_EQ(s->invalid_frees, 1u);
    }
}

/// All threads free the same block.
struct free_together {
    heap_ref heap;
    void* const* shared;
    ORCHARD_FN void operator()(simt::thread_position) const { heap.free(*shared); }
};
/// Each thread allocates a block and stores its address in a place of its own.
struct make_blocks {
    heap_ref heap;
    void** blocks;
    std::uint64_t bytes = 200;
    ORCHARD_FN void operator()(simt::thread_position at) const { blocks[at.global_thread()] = heap.malloc(bytes); }
};

TEST_P(heap_hardened, lets_one_of_many_frees_of_a_block_succeed) {
    heap h = make_heap(GetParam(), hardening::detect);
    auto shared = device_array<void*>::create(h.executor(), 1);
    ASSERT_TRUE(shared.ok()) << shared.status();
    constexpr std::uint32_t blocks = 3;
    constexpr std::uint32_t threads = 64;
    ASSERT_TRUE(simt::launch(h.executor(), simt::grid{1, 1}, make_blocks{h.ref(), shared->data()}).ok);
    ASSERT_TRUE(simt::launch(h.executor(), simt::grid{blocks, threads}, free_together{h.ref(), shared->data()}).ok);
    auto s = h.stats();
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_EQ(s->block_faults, blocks * threads - 1);
    for (const block_fault& f : h.block_faults()) {
        EXPECT_EQ(f.kind, block_fault_kind::double_free) << to_text(f);
    }
}

/// Each thread resizes a block again and again, within its bounds, and looks at its contents and at cleared memory.
struct resize {
    heap_ref heap;
    simt::device_word<std::uint32_t>* bad;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto id = static_cast<std::uint32_t>(at.global_thread());
        std::uint64_t have = 1 + id % 50;
        auto* p = static_cast<unsigned char*>(heap.calloc(have, 1));
        for (std::uint32_t round = 0; p != nullptr && round < 12; ++round) {
            for (std::uint64_t i = 0; i < have; ++i) {
                bad->fetch_add<simt::order::relaxed>(p[i] != (round == 0 ? 0 : id % 251) ? 1 : 0);
                p[i] = static_cast<unsigned char>(id % 251);
            }
            bad->fetch_add<simt::order::relaxed>(heap.usable_size(p) < have ? 1 : 0);
            const std::uint64_t want = 1 + (id * 7919u + round * 104729u) % 3000;
            auto* const moved = static_cast<unsigned char*>(heap.realloc(p, want));
            if (moved == nullptr) {
                break;
            }
            p = moved;
            for (std::uint64_t i = have; i < want; ++i) {
                p[i] = static_cast<unsigned char>(id % 251);
            }
            have = want;
        }
        heap.free(p);
    }
};

TEST_P(heap_hardened, serves_calloc_and_realloc_to_the_byte) {
    heap h = make_heap(GetParam(), hardening::detect);
    auto bad = device_array<simt::device_word<std::uint32_t>>::create(h.executor(), 1);
    ASSERT_TRUE(bad.ok()) << bad.status();
    ASSERT_TRUE(simt::launch(h.executor(), simt::grid{4, 64}, resize{h.ref(), bad->data()}).ok);
    simt::device_word<std::uint32_t> count;
    ASSERT_TRUE(copy_to_host(h.executor(), &count, bad->data(), sizeof(count)).ok());
    EXPECT_EQ(count.load<simt::order::relaxed>(), 0u);
    EXPECT_TRUE(h.trim().ok());
    for (const block_fault& f : h.block_faults()) {
        ADD_FAILURE() << to_text(f);
    }
    auto s = h.stats();
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_EQ(s->pages_in_use, 0u);
    EXPECT_EQ(s->invalid_frees, 0u);
}

/// Blocks are aligned as in any heap; arrays of lanes are not guarded, but served.
struct align {
    heap_ref heap;
    simt::device_word<std::uint32_t>* bad;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t a = 16; a <= segment_bytes; a *= 4) {
            void* const p = heap.aligned_alloc(a, 24 + at.thread);
            bad->fetch_add<simt::order::relaxed>(p == nullptr || reinterpret_cast<std::uintptr_t>(p) % a != 0 ? 1 : 0);
            heap.free(p);
        }
        for (std::uint64_t n = 16; n <= largest_page_bytes; n *= 8) {
            void* const p = heap.malloc(n);
            bad->fetch_add<simt::order::relaxed>(p == nullptr || reinterpret_cast<std::uintptr_t>(p) % n != 0 ? 1 : 0);
            heap.free(p);
        }
        auto a = heap.allocate_array<std::uint32_t>(4000 + at.thread);
        bad->fetch_add<simt::order::relaxed>(a.size() == 0 ? 1 : 0);
        heap.free_array(a);
    }
};

TEST_P(heap_hardened, keeps_alignments_and_serves_arrays) {
    options o = hardened_options(GetParam(), hardening::detect);
    o.capacity = segments(256);
    auto h = heap::create(o);
    ASSERT_TRUE(h.ok()) << h.status();
    auto bad = device_array<simt::device_word<std::uint32_t>>::create(h->executor(), 1);
    ASSERT_TRUE(bad.ok()) << bad.status();
    const auto result = simt::launch(h->executor(), simt::grid{1, 32}, align{h->ref(), bad->data()});
    ASSERT_TRUE(result.ok) << result.error;
    simt::device_word<std::uint32_t> count;
    ASSERT_TRUE(copy_to_host(h->executor(), &count, bad->data(), sizeof(count)).ok());
    EXPECT_EQ(count.load<simt::order::relaxed>(), 0u);
    EXPECT_TRUE(h->validate().ok()) << h->validate();
}

TEST_P(heap_hardened, takes_blocks_that_the_host_frees) {
    heap h = make_heap(GetParam(), hardening::detect);
    auto shared = device_array<void*>::create(h.executor(), 1);
    ASSERT_TRUE(shared.ok()) << shared.status();
    ASSERT_TRUE(simt::launch(h.executor(), simt::grid{1, 1}, make_blocks{h.ref(), shared->data()}).ok);
    void* p = nullptr;
    ASSERT_TRUE(copy_to_host(h.executor(), &p, shared->data(), sizeof(p)).ok());
    ASSERT_TRUE(h.free_on_host(p).ok());
    EXPECT_TRUE(h.validate().ok()) << h.validate();
    auto s = h.stats();
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_EQ(s->pages_in_use, 0u);
}

/// A block that waits in the quarantine is freed by the host as well, and gets a new owner. The owner keeps it when the
/// block leaves the quarantine.
TEST_P(heap_hardened, does_not_free_the_block_of_a_new_owner) {
    heap h = make_heap(GetParam(), hardening::detect);
    auto shared = device_array<void*>::create(h.executor(), 1);
    ASSERT_TRUE(shared.ok()) << shared.status();
    const auto allocate_one = [&] {  // the page comes back once all others of its slab, some 80, are in use
        EXPECT_TRUE(simt::launch(h.executor(), simt::grid{1, 1}, make_blocks{h.ref(), shared->data(), 20'000}).ok);
        void* p = nullptr;
        EXPECT_TRUE(copy_to_host(h.executor(), &p, shared->data(), sizeof(p)).ok());
        return p;
    };
    void* const first = allocate_one();
    ASSERT_NE(first, nullptr);
    ASSERT_TRUE(simt::launch(h.executor(), simt::grid{1, 1}, free_together{h.ref(), shared->data()}).ok);
    ASSERT_TRUE(h.free_on_host(first).ok());
    std::uint64_t owned = 0;
    for (void* p = nullptr; p != first; ++owned) {
        ASSERT_LT(owned, 10'000u) << "the page of the block is not found again";
        p = allocate_one();
        ASSERT_NE(p, nullptr);
    }
    ASSERT_TRUE(h.trim().ok());
    auto s = h.stats();
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_EQ(s->pages_in_use, owned);
    const auto faults = h.block_faults();
    ASSERT_EQ(faults.size(), 1u);
    EXPECT_EQ(faults[0].kind, block_fault_kind::double_free) << to_text(faults[0]);
    EXPECT_EQ(faults[0].address, reinterpret_cast<std::uintptr_t>(first));
}

/// One thread allocates a block of exactly 1 MiB with its guard, which begins the heap, and frees it.
struct make_and_free_mebibyte {
    heap_ref heap;
    void** block;
    ORCHARD_FN void operator()(simt::thread_position) const {
        *block = heap.malloc((1 << 20) - device::guard_bytes);
        heap.free(*block);
    }
};

TEST_P(heap_hardened, frees_a_large_block_at_the_beginning_of_the_heap) {
    heap h = make_heap(GetParam(), hardening::detect);
    auto block = device_array<void*>::create(h.executor(), 1);
    ASSERT_TRUE(block.ok()) << block.status();
    ASSERT_TRUE(simt::launch(h.executor(), simt::grid{1, 1}, make_and_free_mebibyte{h.ref(), block->data()}).ok);
    void* p = nullptr;
    ASSERT_TRUE(copy_to_host(h.executor(), &p, block->data(), sizeof(p)).ok());
    EXPECT_EQ(p, h.ref().view().base) << "the test is about the heap's first block";
    ASSERT_TRUE(h.trim().ok());
    auto s = h.stats();
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_EQ(s->allocations, 1u);
    EXPECT_EQ(s->frees, 1u);
}

/// Requests are counted once, as groups of pages that have room for the guard.
TEST_P(heap_hardened, counts_each_request_once) {
    heap h = make_heap(GetParam(), hardening::detect);
    auto blocks = device_array<void*>::create(h.executor(), 64);
    ASSERT_TRUE(blocks.ok()) << blocks.status();
    ASSERT_TRUE(simt::launch(h.executor(), simt::grid{2, 32}, make_blocks{h.ref(), blocks->data()}).ok);
    auto s = h.stats();
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_EQ(s->allocations, 64u);
    EXPECT_EQ(s->groups, 2u);
    EXPECT_EQ(s->failed_allocations, 0u);
}

TEST_P(heap_hardened, refuses_requests_once_it_is_closed) {
    heap h = make_heap(GetParam(), hardening::detect);
    auto blocks = device_array<void*>::create(h.executor(), 32);
    ASSERT_TRUE(blocks.ok()) << blocks.status();
    ASSERT_TRUE(simt::launch(h.executor(), simt::grid{1, 1}, make_blocks{h.ref(), blocks->data()}).ok);
    ASSERT_TRUE(h.close().ok());
    ASSERT_TRUE(simt::launch(h.executor(), simt::grid{1, 32}, make_blocks{h.ref(), blocks->data()}).ok);
    ASSERT_TRUE(h.last_failure().has_value());
    EXPECT_EQ(h.last_failure()->reason, failure_reason::closing);
    auto s = h.stats();
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_EQ(s->allocations, 1u);
    EXPECT_EQ(s->failed_allocations, 32u);
}

/// One thread writes all the memory that it can get, frees it, and reads new blocks of several sizes, before and after
/// growing them, without writing.
struct read_new_blocks {
    heap_ref heap;
    std::uint64_t* other_than;  ///< bytes read that were not 0, and that were not junk

    static constexpr std::uint64_t half_mebibyte = 512 << 10;

    ORCHARD_FN void look_at(const void* p, std::uint64_t from, std::uint64_t to) const {
        const auto* const bytes = static_cast<const unsigned char*>(p);
        for (std::uint64_t i = from; p != nullptr && i < to; ++i) {
            other_than[0] += bytes[i] != 0 ? 1 : 0;
            other_than[1] += bytes[i] != device::junk_byte ? 1 : 0;
        }
    }
    ORCHARD_FN void operator()(simt::thread_position) const {
        void* last = nullptr;
        while (void* const p = heap.malloc(half_mebibyte)) {
            for (std::uint64_t i = 0; i < half_mebibyte; i += 8) {
                *reinterpret_cast<std::uint64_t*>(static_cast<char*>(p) + i) = 0x7777777777777777u;
            }
            *static_cast<void**>(p) = last;
            last = p;
        }
        while (last != nullptr) {
            void* const next = *static_cast<void**>(last);
            heap.free(last);
            last = next;
        }
        for (const std::uint64_t bytes : {1u, 9u, 40u, 64u, 5000u, 300'000u}) {
            void* const p = heap.malloc(bytes);
            look_at(p, 0, bytes);
            void* const grown = heap.realloc(p, 3 * bytes);
            look_at(grown, bytes, 3 * bytes);
            heap.free(grown);
        }
    }
};

TEST_P(heap_hardened, fills_new_blocks_as_asked) {
    for (const block_fill fill : {block_fill::unchanged, block_fill::zero, block_fill::junk}) {
        options o = hardened_options(GetParam(), hardening::detect);
        o.capacity = segments(4);
        o.backing = backing_option::fixed;
        o.fill = fill;
        auto h = heap::create(o);
        ASSERT_TRUE(h.ok()) << h.status();
        auto other = device_array<std::uint64_t>::create(h->executor(), 2);
        ASSERT_TRUE(other.ok()) << other.status();
        ASSERT_TRUE(simt::launch(h->executor(), simt::grid{1, 1}, read_new_blocks{h->ref(), other->data()}).ok);
        std::uint64_t count[2];
        ASSERT_TRUE(copy_to_host(h->executor(), count, other->data(), sizeof(count)).ok());
        EXPECT_EQ(count[0] == 0, fill == block_fill::zero) << count[0];
        EXPECT_EQ(count[1] == 0, fill == block_fill::junk) << count[1];
        EXPECT_TRUE(h->trim().ok());
        EXPECT_TRUE(h->block_faults().empty());
    }
}

/// Returns the places of the blocks of one warp in their slab of a heap with this seed, and the heap's seed.
std::pair<std::vector<std::uint64_t>, int> places_of_a_warp(device_option device, int seed) {
    options o = hardened_options(device, hardening::detect);
    o.placement_seed = seed;
    auto h = heap::create(o);
    EXPECT_TRUE(h.ok()) << h.status();
    auto blocks = device_array<void*>::create(h->executor(), 32);
    EXPECT_TRUE(blocks.ok()) << blocks.status();
    EXPECT_TRUE(simt::launch(h->executor(), simt::grid{1, 32}, make_blocks{h->ref(), blocks->data()}).ok);
    std::vector<void*> at(32);
    EXPECT_TRUE(copy_to_host(h->executor(), at.data(), blocks->data(), 32 * sizeof(void*)).ok());
    std::vector<std::uint64_t> places;
    for (const void* p : at) {
        places.push_back(reinterpret_cast<std::uintptr_t>(p) % segment_bytes);
    }
    std::ranges::sort(places);
    return {places, h->configuration().placement_seed};
}

/// Each thread frees the block that `make_blocks` gave it.
struct free_blocks {
    heap_ref heap;
    void** blocks;
    ORCHARD_FN void operator()(simt::thread_position at) const { heap.free(blocks[at.global_thread()]); }
};

/// A seed exchanges and rotates the words of each slab. A heap that is filled by one class and then by another
/// still uses each page, and fails for lack of memory.
TEST_P(heap_hardened, uses_each_page_under_any_seed) {
    constexpr std::uint32_t least = 64;  // threads that get no block
    for (const int seed : {1, 2, 3}) {
        options o = hardened_options(GetParam(), hardening::detect);
        o.placement_seed = seed;
        auto h = heap::create(o);
        ASSERT_TRUE(h.ok()) << h.status();
        for (const std::uint32_t bytes : {7000u, 5000u, 7000u}) {
            const std::uint32_t pages = 32 * class_pages(class_of(bytes + 16));
            const simt::grid threads = simt::grid_for(pages + least, 64);
            auto at = device_array<void*>::create(h->executor(), threads.blocks * threads.threads_per_block);
            ASSERT_TRUE(at.ok()) << at.status();
            ASSERT_TRUE(simt::launch(h->executor(), threads, make_blocks{h->ref(), at->data(), bytes}).ok);
            std::vector<void*> blocks(threads.blocks * threads.threads_per_block);
            ASSERT_TRUE(copy_to_host(h->executor(), blocks.data(), at->data(), blocks.size() * sizeof(void*)).ok());
            EXPECT_EQ(blocks.size() - static_cast<std::size_t>(std::ranges::count(blocks, nullptr)), pages)
                << bytes << " B, seed " << seed;
            ASSERT_TRUE(h->last_failure().has_value());
            EXPECT_EQ(h->last_failure()->reason, failure_reason::out_of_memory_device_budget)
                << name_of(h->last_failure()->reason) << ", " << bytes << " B, seed " << seed;
            ASSERT_TRUE(simt::launch(h->executor(), threads, free_blocks{h->ref(), at->data()}).ok);
            EXPECT_TRUE(h->trim().ok());
        }
    }
}

TEST_P(heap_hardened, chooses_places_by_a_seed) {
    const auto first = places_of_a_warp(GetParam(), 1);
    EXPECT_EQ(first.second, 1);
    EXPECT_EQ(places_of_a_warp(GetParam(), 1), first);
    EXPECT_NE(places_of_a_warp(GetParam(), 2).first, first.first);
    EXPECT_NE(places_of_a_warp(GetParam(), 0).second, 0) << "the heap draws one";
}

INSTANTIATE_TEST_SUITE_P(all, heap_hardened, testing::Values(device_option::emulated, device_option::cuda),
                         name_of_device);

TEST(heap_guarded, ends_the_kernel_at_the_first_fault) {
    for (const wrong what : {wrong::byte_behind, wrong::freed_twice, wrong::foreign}) {
        heap h = make_heap(device_option::emulated, hardening::guard);
        const auto result = simt::launch(h.executor(), simt::grid{1, 64}, misuse{h.ref(), what, 100, nullptr});
        if (what == wrong::foreign) {
            EXPECT_TRUE(result.ok) << result.error;  // null is no fault
            continue;
        }
        EXPECT_FALSE(result.ok);
        EXPECT_THAT(result.error, HasSubstr("a hardened heap found a fault"));
        EXPECT_EQ(h.block_faults().size(), 1u);
    }
}

/// Of two blocks of 4 MiB, a write behind the first one ends the process at the level `guard`.
TEST(heap_guarded, has_segments_without_memory_between_extents) {
    for (const hardening level : {hardening::detect, hardening::guard}) {
        options o = hardened_options(device_option::emulated, level);
        o.backing = backing_option::elastic;
        o.range = segments(128);
        o.extent = o.max_extent = segments(1);
        o.commit_ahead = 0;
        o.cached_segments = 0;
        auto h = heap::create(o);
        ASSERT_TRUE(h.ok()) << h.status();
        auto blocks = device_array<void*>::create(h->executor(), 2);
        ASSERT_TRUE(blocks.ok()) << blocks.status();
        for (int i = 0; i < 2; ++i) {
            const make_blocks make{h->ref(), blocks->data() + i, segments(2) - device::guard_bytes};
            ASSERT_TRUE(simt::launch(h->executor(), simt::grid{1, 1}, make).ok);
        }
        char* at[2];
        ASSERT_TRUE(copy_to_host(h->executor(), at, blocks->data(), sizeof(at)).ok());
        char* const behind = at[0] + segments(2);
        if (level == hardening::detect) {
            EXPECT_EQ(behind, at[1]);
            continue;
        }
        EXPECT_EQ(behind + segments(1), at[1]);
        EXPECT_DEATH(*static_cast<volatile char*>(behind) = 1, "");
    }
}

TEST(heap_not_hardened, fills_no_blocks) {
    options o = hardened_options(device_option::emulated, hardening::off);
    o.fill = block_fill::zero;
    const absl::Status s = heap::create(o).status();
    EXPECT_TRUE(absl::IsInvalidArgument(s)) << s;
    EXPECT_THAT(std::string(s.message()), HasSubstr("set hardened to detect or guard"));
}

TEST(heap_not_hardened, counts_invalid_frees_with_their_address) {
    heap h = make_heap(device_option::emulated, hardening::off);
    EXPECT_EQ(h.first_invalid_free(), 0u);
    void* here = nullptr;
    const auto result = simt::launch(h.executor(), simt::grid{1, 64}, misuse{h.ref(), wrong::foreign, 100, &here});
    EXPECT_TRUE(result.ok) << result.error;
    EXPECT_EQ(h.first_invalid_free(), reinterpret_cast<std::uintptr_t>(&here));
    auto s = h.stats();
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_EQ(s->invalid_frees, 1u);
    EXPECT_EQ(s->block_faults, 0u);
    EXPECT_TRUE(h.block_faults().empty());
    EXPECT_TRUE(h.validate().ok());
}

}  // namespace
}  // namespace orchard::test
