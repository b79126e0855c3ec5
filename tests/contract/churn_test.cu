// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Many blocks of threads that allocate, reallocate and free at random, for long, compared with a model of the owners.

#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

using counter = simt::device_word<std::uint32_t>;

/// The state of one thread: blocks that it stamped with its own number.
constexpr std::uint32_t max_held = 6;
struct holdings {
    block held[max_held];
};

/// The results of a launch's requests.
struct tally {
    counter wrong;  ///< contents that changed
    counter nulls;
    counter allocations;  ///< blocks more
    counter frees;        ///< blocks less
};

/// Each thread makes `steps` random requests; whatever it holds it hands to the next launch, there to another thread.
struct churn {
    heap_ref heap;
    holdings* all;  ///< [threads]
    std::uint32_t steps;
    std::uint32_t seed;
    std::uint32_t largest;  ///< bytes, most of the time
    tally* counts;

    ORCHARD_FN std::uint64_t random_size(std::uint32_t r) const {
        const std::uint32_t many = r >> 20;
        if (many % 256 == 0) {
            return 524'289 + r % 1'000'000;  // now and then a chunk
        }
        return 1 + r % (many % 4 == 0 || largest < 200 ? largest : 200);
    }
    ORCHARD_FN void check(const block& b, std::uint64_t owner) const {
        if (!has_stamp(b.pointer(), b.bytes, owner)) {
            counts->wrong.fetch_add<simt::order::relaxed>(1);
        }
    }
    ORCHARD_FN void step(block& b, std::uint64_t owner, std::uint32_t r) const {
        const std::uint64_t bytes = random_size(device::mix(r ^ 0x5bd1e995u));
        if (b.address == 0) {
            b.address = as_number(heap.malloc(bytes));
            (b.address != 0 ? counts->allocations : counts->nulls).fetch_add<simt::order::relaxed>(1);
        } else if (r % 3 == 0) {
            check(b, owner);
            const std::uint64_t kept = b.bytes < bytes ? b.bytes : bytes;
            void* moved = heap.realloc(b.pointer(), bytes);
            if (moved == nullptr) {
                counts->nulls.fetch_add<simt::order::relaxed>(1);
                check(b, owner);
                return;
            }
            b.address = as_number(moved);
            check_prefix(b, kept, owner);
        } else {
            check(b, owner);
            heap.free(b.pointer());
            b = {};
            counts->frees.fetch_add<simt::order::relaxed>(1);
            return;
        }
        b.bytes = b.address != 0 ? bytes : 0;
        stamp_block(b.pointer(), b.bytes, owner);
    }
    /// The first bytes of every stamp are alike, whatever its length.
    ORCHARD_FN void check_prefix(const block& b, std::uint64_t bytes, std::uint64_t owner) const {
        check({b.address, bytes < 256 ? bytes : 256}, owner);
    }
    ORCHARD_FN void operator()(simt::thread_position at) const {
        // A thread works on the blocks of another owner in each launch.
        const std::uint64_t mine = (at.global_thread() + std::uint64_t{seed} * 37) % at.threads();
        std::uint32_t r = device::mix(static_cast<std::uint32_t>(mine) * 747'796'405u + seed);
        for (std::uint32_t i = 0; i < steps; ++i) {
            r = device::mix(r + 0x9e3779b9u);
            step(all[mine].held[r % max_held], mine, r);
        }
    }
};

struct free_holdings {
    heap_ref heap;
    holdings* all;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (block& b : all[at.global_thread()].held) {
            heap.free(b.pointer());
        }
    }
};

class contract_churn : public heap_contract {
protected:
    void run(simt::grid shape, std::uint32_t launches, std::uint32_t steps, std::uint32_t largest) {
        const std::uint64_t threads = std::uint64_t{shape.blocks} * shape.threads_per_block;
        const auto all = array<holdings>(threads);
        const auto counts = array<tally>(1);
        for (std::uint32_t i = 0; i < launches; ++i) {
            launch(shape, churn{h().ref(), all.data(), steps, i + 1, largest, counts.data()});
            ASSERT_NO_FATAL_FAILURE(compare(to_host(all), to_host(counts).front()));
        }
        launch(shape, free_holdings{h().ref(), all.data()});
        expect_empty();
    }

    /// The heap's books against what the threads hold.
    void compare(const std::vector<holdings>& all, const tally& counts) {
        constexpr auto relaxed = simt::order::relaxed;
        std::vector<block> held;
        for (const holdings& one : all) {
            for (const block& b : one.held) {
                if (b.address != 0) {
                    held.push_back(b);
                }
            }
        }
        ASSERT_NO_FATAL_FAILURE(expect_disjoint(held));
        EXPECT_EQ(counts.wrong.load<relaxed>(), 0u);
        const statistics s = settled_stats();
        EXPECT_EQ(s.allocations - s.frees, held.size());
        EXPECT_EQ(counts.allocations.load<relaxed>() - counts.frees.load<relaxed>(), held.size());
        EXPECT_EQ(s.allocations, counts.allocations.load<relaxed>() + s.reallocs_moved);
        EXPECT_EQ(s.invalid_frees, 0u);
        EXPECT_LE(s.pages_in_use, held.size());
        EXPECT_LE(s.live_chunks, held.size() - s.pages_in_use);
        EXPECT_LE(s.segments_granted, heap_segments());
        last_nulls_ = counts.nulls.load<relaxed>();
        last_moved_ = s.reallocs_moved;
    }

    std::uint64_t last_nulls_ = 0;
    std::uint64_t last_moved_ = 0;
};
INSTANTIATE_TEST_SUITE_P(all, contract_churn, ::testing::ValuesIn(heap_cases()), case_name);

TEST_P(contract_churn, random_requests) {
    // Classes up to 3 KB are more than 8 slabs, and a request that fails costs a search of the whole heap.
    const bool small = heap_segments() <= 8;
    run({4, 64}, static_cast<std::uint32_t>(scaled(10, 3)), static_cast<std::uint32_t>(scaled(60, 15)),
        small ? 64 : 3000);
    EXPECT_GT(last_moved_, 0u);
}

TEST_P(contract_churn, random_requests_in_a_heap_that_is_nearly_full) {
    if (heap_segments() > 32) {
        run({8, 96}, 3, static_cast<std::uint32_t>(scaled(40, 10)), 400'000);
        return;
    }
    run(heap_segments() > 8 ? simt::grid{3, 70} : simt::grid{2, 50}, static_cast<std::uint32_t>(scaled(4, 2)),
        static_cast<std::uint32_t>(scaled(25, 10)), 300'000);
    EXPECT_GT(last_nulls_, 0u);
}

}  // namespace
}  // namespace orchard::test
