// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Traces of applications on real memory: accesses by 64 KiB, of some warps, in the format of the model.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "profiling/apps/app.hpp"
#include "runtime/heap/heap.hpp"
#include "tests/uvm_trace/traces.hpp"
#include "uvm/geometry/geometry.hpp"
#include "uvm/model/trace_file.hpp"

namespace orchard::test {
namespace {

using apps::job;
using uvm_model::access_kind;

heap heap_of_64_mib() {
    auto made = heap::create({.device = device_option::emulated, .capacity = 64 << 20, .emulated_workers = 1});
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
}

apps::outcome run(heap& h, const char* name, const job& j) {
    auto found = run_app(h, apps::apps_named(name)->front(), j);
    EXPECT_TRUE(found.ok()) << found.status();
    EXPECT_TRUE(!found.ok() || found->error.ok()) << found->error;
    return found.ok() ? *std::move(found) : apps::outcome{};
}

/// Returns the accesses of all warps of a trace.
std::vector<uvm_model::access> accesses_of(const uvm_model::trace& t) {
    std::vector<uvm_model::access> all;
    for (const auto& steps : all_of(*t.source())) {
        for (const auto& step : steps) {
            all.insert(all.end(), step.begin(), step.end());
        }
    }
    return all;
}

/// A row of 64 KiB for each of 256 threads: eight warps, each of which has a VA block of each grid.
job of_stencil() {
    job j;
    j.threads = 256;
    j.bytes = 32 << 20;
    j.passes = 2;
    j.limit_s = 1000;
    return j;
}

TEST(AppTrace, HasTheBlocksThatWarpsAccess) {
    heap h = heap_of_64_mib();
    job j = of_stencil();
    j.trace_every = 2;
    const auto found = run(h, "stencil", j);
    EXPECT_EQ(found.recorded.lost, 0u);
    auto t = uvm_model::trace::parse(found.recorded.trace);
    ASSERT_TRUE(t.ok()) << t.status();
    EXPECT_EQ(t->header().warps, 4u);
    EXPECT_EQ(t->header().accesses, found.recorded.accesses);
    EXPECT_LE(t->header().space_bytes, 64u << 20);
    std::set<std::uint64_t> blocks;
    for (const auto& steps : all_of(*t->source())) {
        // A lane's own rows of both grids; two lanes of a warp also read a row of a neighbouring warp.
        std::set<std::uint64_t> of_warp;
        std::vector<std::uint64_t> of_lane(32);
        for (const auto& step : steps) {
            for (const auto& a : step) {
                EXPECT_EQ(a.kind, access_kind::read);
                EXPECT_LT(a.address, t->header().space_bytes);
                of_warp.insert(a.address / segment_bytes);
                ++of_lane[a.lane];
            }
        }
        for (const std::uint64_t accesses : of_lane) {
            EXPECT_GE(accesses, 2u);  // both grids
            EXPECT_LE(accesses, 6u);  // each page once
        }
        blocks.insert(of_warp.begin(), of_warp.end());
    }
    // Both grids of four warps, and what their neighbours have: at least half of the sixteen blocks.
    EXPECT_GE(blocks.size(), 8u);
    EXPECT_LE(blocks.size(), 32u);
}

/// A row of 256 KiB for each of 64 threads, one behind the other: the model must see all of it, not one access of each
/// VA block.
TEST(AppTrace, HasEachPageOfALongRow) {
    heap h = heap_of_64_mib();
    job j = of_stencil();
    j.threads = 64;
    j.trace_every = 1;
    const auto found = run(h, "stencil", j);
    EXPECT_EQ(found.recorded.lost, 0u);
    auto t = uvm_model::trace::parse(found.recorded.trace);
    ASSERT_TRUE(t.ok()) << t.status();
    std::set<std::uint64_t> pages;
    for (const uvm_model::access& a : accesses_of(*t)) {
        pages.insert(a.address / big_page_bytes);
    }
    // Both grids; a row more or less at the edges, which have no neighbour.
    EXPECT_GE(pages.size() * big_page_bytes, j.bytes * 9 / 10);
    EXPECT_LE(pages.size() * big_page_bytes, j.bytes * 11 / 10);
}

TEST(AppTrace, HasNothingOfFillingAndOfLaterPasses) {
    heap h = heap_of_64_mib();
    job j = of_stencil();
    j.trace_every = 1;
    j.passes = 1;
    const auto once = run(h, "stencil", j);
    j.passes = 3;
    const auto thrice = run(h, "stencil", j);
    EXPECT_GT(once.recorded.accesses, 0u);
    EXPECT_EQ(once.recorded.accesses, thrice.recorded.accesses);
}

TEST(AppTrace, CountsSharedWordsAsAtomic) {
    heap h = heap_of_64_mib();
    job j = of_stencil();
    j.bytes = 1 << 20;
    j.trace_every = 1;
    const auto found = run(h, "k-means", j);
    auto t = uvm_model::trace::parse(found.recorded.trace);
    ASSERT_TRUE(t.ok()) << t.status();
    std::set<access_kind> kinds;
    for (const uvm_model::access& a : accesses_of(*t)) {
        kinds.insert(a.kind);
    }
    EXPECT_EQ(kinds, (std::set<access_kind>{access_kind::read, access_kind::atomic}));
}

TEST(AppTrace, IsBoundedAndSaysWhatIsLost) {
    const std::uint64_t capacity = apps::trace_log::most_bytes / 8;
    auto log = apps::trace_log::create({}, 0, 4 * capacity, 2);
    ASSERT_TRUE(log.ok()) << log.status();
    EXPECT_EQ(log->device()->capacity, 1u);  // at least one, however many warps there are
    log = apps::trace_log::create({}, 0, 8, 2);
    ASSERT_TRUE(log.ok()) << log.status();
    EXPECT_EQ(log->device()->capacity, capacity / 4);
    // A host thread is lane 0 of warp 0. It goes to more blocks than it keeps, again and again.
    const auto come_to = [&](std::uint64_t block) {
        log->device()->note(reinterpret_cast<const void*>(block * segment_bytes + 4), block == 3);
    };
    come_to(1);
    EXPECT_EQ(log->read()->accesses, 0u);  // not active
    ASSERT_TRUE(log->set_active(true).ok());
    for (std::uint64_t i = 0; i < capacity / 4 + 10; ++i) {
        come_to(1 + i % 8);
        come_to(1 + i % 8);
    }
    const auto found = log->read();
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->accesses, capacity / 4);
    EXPECT_EQ(found->lost, 10u);
    auto t = uvm_model::trace::parse(found->trace);
    ASSERT_TRUE(t.ok()) << t.status();
    EXPECT_EQ(t->header().space_bytes, 8 * segment_bytes);  // from block 1 on
    const auto all = all_of(*t->source());
    EXPECT_EQ(all[0][2][0], (uvm_model::access{2 * segment_bytes + 4, 0, access_kind::atomic}));
    EXPECT_EQ(all[0][3][0], (uvm_model::access{3 * segment_bytes + 4, 0, access_kind::read}));
    EXPECT_TRUE(absl::IsInvalidArgument(apps::trace_log::create({}, 0, 8, 0).status()));
}

}  // namespace
}  // namespace orchard::test
