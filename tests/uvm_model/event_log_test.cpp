// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The events of runs, against the counts of the same runs and the state of the memory.

#include "uvm/model/event_log.hpp"

#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "tests/uvm_model/sources.hpp"

namespace orchard::uvm_model {
namespace {

using testing::computed_source;
using testing::listed_source;
using testing::mib;
using testing::model_of;
using testing::one_lane;
using testing::run;

/// Returns the pages of each kind of movement in a log.
std::map<movement, std::uint64_t> pages_of(const event_log& log) {
    std::map<movement, std::uint64_t> pages;
    for (const move_event& e : log.moves) {
        pages[e.what] += e.pages;
    }
    return pages;
}

TEST(event_log, says_what_two_faults_did) {
    paging_model model = model_of(segment_bytes);
    ASSERT_TRUE(model.populate({0, segment_bytes}, processor::cpu).ok());
    event_log log;
    model.record(&log);
    listed_source source = one_lane(segment_bytes, {5 * 4096, 4096, 70 * 4096});
    run(model, source);
    ASSERT_EQ(log.faults.size(), 2u);
    EXPECT_EQ(log.faults[0].page, 5u);
    EXPECT_EQ(log.faults[1].page, 70u);
    EXPECT_EQ(log.faults[1].batch, 1u);
    EXPECT_FALSE(log.faults[0].write);
    ASSERT_EQ(log.batches.size(), 2u);
    EXPECT_EQ(log.batches[0].faults, 1u);
    EXPECT_EQ(log.batches[0].blocks, 1u);
    EXPECT_LT(log.faults[0].arrival_ns, log.batches[0].begin_ns);
    EXPECT_LT(log.batches[0].begin_ns, log.batches[0].end_ns);
    // The page that faulted, then what the tree brought around it.
    ASSERT_EQ(log.moves.size(), 6u);
    EXPECT_EQ(log.moves[0].page, 5u);
    EXPECT_EQ(log.moves[0].what, movement::demand);
    EXPECT_EQ(log.moves[1].page, 0u);
    EXPECT_EQ(log.moves[1].pages, 5u);
    EXPECT_EQ(log.moves[2].page, 6u);
    EXPECT_EQ(log.moves[2].pages, 10u);
    EXPECT_EQ(log.moves[2].what, movement::prefetched);
    EXPECT_EQ(log.moves[0].time_ns, log.batches[0].end_ns);
    EXPECT_EQ(log.moves[5].time_ns, log.batches[1].end_ns);
}

// Random accesses, calls between the runs, memory that is short and borders inside VA blocks.
TEST(event_log, agrees_with_counts_and_memory) {
    constexpr std::uint64_t bytes = 16 * segment_bytes;
    paging_model model = model_of(bytes, 5);
    event_log log;
    model.record(&log);
    std::set<std::uint64_t> resident;
    for (int round = 0; round < 4; ++round) {
        log = {};
        ASSERT_TRUE(model.populate({0, bytes / 2}, processor::cpu).ok());
        ASSERT_TRUE(model.populate({bytes / 2, segment_bytes}, processor::gpu).ok());
        ASSERT_TRUE(model.advise({3 * mib, 2 * mib}, advice::read_mostly).ok());
        ASSERT_TRUE(model.prefetch({5 * mib, mib}, processor::gpu).ok());
        ASSERT_TRUE(model.prefetch({3 * mib, 4 * mib}, processor::cpu).ok());
        ASSERT_TRUE(model.discard({20 * mib, mib}).ok());
        std::mt19937_64 random(static_cast<std::uint64_t>(round) + 1);
        std::vector<std::uint64_t> addresses(4 * 60 * 8);
        for (std::uint64_t& address : addresses) {
            address = random() % bytes;
        }
        computed_source source(
            bytes, 4, 60,
            [&](std::uint32_t warp, std::uint64_t step, std::uint32_t lane) -> std::optional<std::uint64_t> {
                return lane < 2 ? std::optional(addresses[(warp * 60 + step) * 8 + lane]) : std::nullopt;
            },
            round % 2 == 0 ? access_kind::read : access_kind::write);
        const result r = run(model, source);
        ASSERT_NE(r.evictions, 0u);

        EXPECT_EQ(log.faults.size(), r.raw_faults);
        EXPECT_EQ(log.batches.size(), r.batches);
        EXPECT_EQ(log.evictions.size(), r.evictions);
        auto pages = pages_of(log);
        EXPECT_EQ(pages[movement::demand], r.demand_pages);
        EXPECT_EQ(pages[movement::prefetched], r.prefetched_pages);
        EXPECT_EQ(pages[movement::requested], r.explicit_pages);
        EXPECT_EQ(pages[movement::populated], r.populated_pages);
        EXPECT_EQ(pages[movement::written_back] + pages[movement::copied_out], r.written_back_pages);
        EXPECT_EQ(pages[movement::copied_out], r.copied_out_pages);
        EXPECT_EQ(pages[movement::dropped], r.dropped_pages);
        nanoseconds last = 0;
        for (const move_event& e : log.moves) {
            EXPECT_GE(e.time_ns, last);
            last = e.time_ns;
            for (std::uint64_t page = e.page; page < e.page + e.pages; ++page) {
                if (e.what == movement::written_back || e.what == movement::dropped) {
                    EXPECT_EQ(resident.erase(page), 1u) << page;
                } else if (e.what == movement::copied_out) {
                    EXPECT_TRUE(resident.contains(page)) << page;
                } else {
                    EXPECT_TRUE(resident.insert(page).second) << page;
                }
            }
        }
        std::uint64_t left = 0;
        for (const eviction_event& e : log.evictions) {
            left += e.pages;
        }
        EXPECT_LE(left, pages[movement::written_back] + pages[movement::dropped]);
        EXPECT_EQ(resident.size(), r.resident_pages);
    }
}

TEST(event_log, changes_nothing) {
    paging_model quiet = model_of(4 * segment_bytes, 2);
    paging_model told = model_of(4 * segment_bytes, 2);
    event_log log;
    told.record(&log);
    listed_source source = one_lane(4 * segment_bytes, {0, 2 * mib, 4 * mib, 6 * mib, 0});
    EXPECT_EQ(run(quiet, source), run(told, source));
    const std::size_t faults = log.faults.size();
    EXPECT_EQ(faults, 5u);
    told.record(nullptr);
    run(told, source);
    EXPECT_EQ(log.faults.size(), faults);
}

}  // namespace
}  // namespace orchard::uvm_model
