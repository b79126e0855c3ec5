// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Properties of every stream of accesses, advice and calls: many random streams, by seed.

#include <random>
#include <set>

#include <gtest/gtest.h>

#include "tests/uvm_model/sources.hpp"

namespace orchard::uvm_model {
namespace {

using testing::listed_source;
using testing::model_of;

/// A space of 12 segments and 20 pages, and random accesses to it: near each other, at random, and of all kinds.
constexpr std::uint64_t space_bytes = 12 * segment_bytes + 20 * os_page_bytes;

listed_source random_source(std::mt19937_64& random) {
    std::vector<listed_source::steps> warps(1 + random() % 40);
    for (listed_source::steps& steps : warps) {
        steps.resize(random() % 30);
        const std::uint64_t near = random() % space_bytes;
        const std::uint64_t stride = 1ull << random() % 18;
        for (std::size_t i = 0; i < steps.size(); ++i) {
            const bool wild = random() % 4 == 0;
            for (std::uint8_t lane = 0; lane < max_lanes; ++lane) {
                if (random() % 8 != 0 || lane == 0) {
                    const std::uint64_t at = wild ? random() : near + (i * max_lanes + lane) * stride;
                    steps[i].push_back({at % space_bytes, lane, static_cast<access_kind>(random() % 3)});
                }
            }
        }
    }
    return {space_bytes, std::move(warps)};
}

byte_range random_range(std::mt19937_64& random) {
    const std::uint64_t all = space_bytes / os_page_bytes;
    const std::uint64_t unit = random() % 2 == 0 ? pages_per_segment : 1;
    const std::uint64_t first = random() % all / unit * unit;
    return {first * os_page_bytes, random() % (all - first + 1) * os_page_bytes};
}

void random_call(paging_model& model, std::mt19937_64& random, bool moves_only) {
    const byte_range range = random_range(random);
    const processor where = random() % 2 == 0 ? processor::gpu : processor::cpu;
    switch (random() % (moves_only ? 3 : 6)) {
        case 0: EXPECT_TRUE(model.populate(range, where).ok()); break;
        case 1: EXPECT_TRUE(model.prefetch(range, where).ok()); break;
        case 2: EXPECT_TRUE(model.discard(range).ok()); break;
        default: EXPECT_TRUE(model.advise(range, static_cast<advice>(random() % 7)).ok()); break;
    }
    ASSERT_TRUE(model.validate().ok()) << model.validate();
}

/// Pages that came, less those that left, since the last run ended.
std::int64_t change_of(const result& r) {
    return static_cast<std::int64_t>(r.demand_pages + r.prefetched_pages + r.explicit_pages + r.populated_pages) -
           static_cast<std::int64_t>(r.written_back_pages - r.copied_out_pages + r.dropped_pages);
}

class properties : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(properties, hold_after_every_run) {
    for (std::uint64_t seed = GetParam() * 1000; seed < GetParam() * 1000 + 40; ++seed) {
        std::mt19937_64 random(seed);
        const std::uint64_t chunks = 1 + random() % 14;
        paging_model model = model_of(space_bytes, chunks);
        std::int64_t resident = 0;
        for (int round = 0; round < 4; ++round) {
            for (int i = 0; i < 3; ++i) {
                ASSERT_NO_FATAL_FAILURE(random_call(model, random, seed % 3 == 0)) << seed;
            }
            listed_source source = random_source(random);
            const result r = testing::run(model, source);
            ASSERT_TRUE(model.validate().ok()) << seed << ": " << model.validate();
            // Residency never exceeds the capacity.
            ASSERT_LE(r.chunks_used, chunks) << seed;
            ASSERT_LE(r.resident_pages, chunks * pages_per_segment) << seed;
            // Pages that came less pages that left are the resident pages.
            resident += change_of(r);
            ASSERT_EQ(static_cast<std::int64_t>(r.resident_pages), resident) << seed << ", round " << round;
            // Every access ended, on the GPU or remotely.
            ASSERT_LE(r.remote_accesses, r.accesses) << seed;
            ASSERT_LE(r.hits, r.accesses) << seed;
            ASSERT_LE(r.distinct_faults, r.raw_faults) << seed;
            ASSERT_LE(r.stale_faults, r.distinct_faults) << seed;
            ASSERT_LE(r.brought_used_pages, r.brought_pages) << seed;
            ASSERT_LE(r.brought_used_big_pages, r.brought_big_pages) << seed;
            ASSERT_LE(r.tree_used_pages, r.tree_pages) << seed;
            ASSERT_LE(r.tree_pages, r.brought_pages) << seed;
            ASSERT_LE(r.raw_faults, r.batches * 256) << seed;
        }
    }
}

TEST_P(properties, every_access_is_made_once) {
    for (std::uint64_t seed = GetParam() * 1000; seed < GetParam() * 1000 + 30; ++seed) {
        std::mt19937_64 random(seed);
        listed_source source = random_source(random);
        std::uint64_t accesses = 0;
        std::uint64_t steps = 0;
        std::set<std::uint64_t> pages;
        std::set<std::uint64_t> blocks;
        std::array<access, max_lanes> lanes;
        for (std::uint32_t warp = 0; warp < source.warps(); ++warp) {
            for (std::uint64_t i = 0;; ++i) {
                const std::size_t n = source.step(warp, i, lanes);
                if (n == 0) {
                    break;
                }
                ++steps;
                accesses += n;
                for (std::size_t l = 0; l < n; ++l) {
                    pages.insert(lanes[l].address / os_page_bytes);
                    blocks.insert(lanes[l].address / segment_bytes);
                }
            }
        }
        for (const bool unlimited : {true, false}) {
            paging_model model = model_of(space_bytes, unlimited ? std::nullopt : std::optional<std::uint64_t>(2));
            ASSERT_TRUE(model.populate({0, space_bytes}, processor::cpu).ok());
            const result r = testing::run(model, source);
            ASSERT_EQ(r.accesses, accesses) << seed;
            ASSERT_EQ(r.steps, steps) << seed;
            ASSERT_EQ(r.remote_accesses, 0u) << seed;
            ASSERT_EQ(r.touched_pages, pages.size()) << seed;
            ASSERT_EQ(r.touched_blocks, blocks.size()) << seed;
            if (unlimited) {
                // If all memory fits, the active blocks are the touched ones, and each touched page is resident.
                ASSERT_EQ(r.active_blocks, blocks.size()) << seed;
                ASSERT_EQ(r.peak_active_blocks, blocks.size()) << seed;
                ASSERT_EQ(r.evictions, 0u) << seed;
                for (const std::uint64_t page : pages) {
                    ASSERT_TRUE(testing::on_gpu(model.space(), static_cast<std::uint32_t>(page / pages_per_segment))
                                    .test(page % pages_per_segment))
                        << seed;
                }
                ASSERT_GE(r.bytes_in(), pages.size() * os_page_bytes) << seed;
            }
        }
    }
}

TEST_P(properties, the_same_again_gives_the_same) {
    for (std::uint64_t seed = GetParam() * 1000; seed < GetParam() * 1000 + 8; ++seed) {
        std::vector<result> results[2];
        for (std::vector<result>& of : results) {
            std::mt19937_64 random(seed);
            paging_model model = model_of(space_bytes, 3, "h200");
            for (int round = 0; round < 3; ++round) {
                ASSERT_NO_FATAL_FAILURE(random_call(model, random, false));
                listed_source source = random_source(random);
                of.push_back(testing::run(model, source));
            }
        }
        ASSERT_EQ(results[0], results[1]) << seed;
    }
}

// The stand-ins keep what holds for the driver: pages that came less pages that left are resident, every access is made
// once, bytes are those of pages and of remote accesses, and the same again gives the same.
TEST_P(properties, hold_for_every_policy) {
    for (const paging_policy_entry& policy : paging_policies()) {
        for (std::uint64_t seed = GetParam() * 1000; seed < GetParam() * 1000 + 12; ++seed) {
            std::vector<result> results[2];
            for (std::vector<result>& of : results) {
                std::mt19937_64 random(seed);
                const std::uint64_t chunks = 1 + random() % 14;
                // Short epochs, so that the policies change their minds often.
                paging_model model =
                    model_of(space_bytes, chunks, "titan_v throttle_batches=2 throttle_percent=0 adapt_services=1",
                             policy.which);
                std::int64_t resident = 0;
                for (int round = 0; round < 3; ++round) {
                    ASSERT_NO_FATAL_FAILURE(random_call(model, random, seed % 3 == 0)) << policy.name << seed;
                    listed_source source = random_source(random);
                    const result r = testing::run(model, source);
                    ASSERT_TRUE(model.validate().ok()) << policy.name << seed << ": " << model.validate();
                    ASSERT_LE(r.chunks_used, chunks) << policy.name << seed;
                    resident += change_of(r);
                    ASSERT_EQ(static_cast<std::int64_t>(r.resident_pages), resident) << policy.name << seed;
                    ASSERT_EQ(r.steps, source.total_steps()) << policy.name << seed;
                    ASSERT_EQ(r.accesses, source.total_accesses()) << policy.name << seed;
                    ASSERT_LE(r.remote_accesses, r.accesses) << policy.name << seed;
                    ASSERT_EQ(r.remote_bytes, r.remote_accesses * model.machine().remote_access_bytes);
                    ASSERT_LE(r.stale_faults, r.distinct_faults) << policy.name << seed;
                    ASSERT_LE(r.brought_used_pages, r.brought_pages) << policy.name << seed;
                    of.push_back(r);
                }
            }
            ASSERT_EQ(results[0], results[1]) << policy.name << seed;
        }
    }
}

TEST_P(properties, more_memory_never_evicts_more) {
    // Not a law of list-ordered eviction with a prefetcher, but true for room for all compared with less room.
    for (std::uint64_t seed = GetParam() * 1000; seed < GetParam() * 1000 + 20; ++seed) {
        std::mt19937_64 random(seed);
        listed_source source = random_source(random);
        paging_model all = model_of(space_bytes);
        paging_model few = model_of(space_bytes, 2);
        const result with_all = testing::run(all, source);
        const result with_few = testing::run(few, source);
        ASSERT_EQ(with_all.evictions, 0u);
        ASSERT_GE(with_few.distinct_faults - with_few.stale_faults, with_all.touched_blocks) << seed;
        ASSERT_GE(with_few.seconds, with_all.seconds * 0.5) << seed;
    }
}

INSTANTIATE_TEST_SUITE_P(seeds, properties, ::testing::Range<std::uint64_t>(1, 5), ::testing::PrintToStringParamName());

}  // namespace
}  // namespace orchard::uvm_model
