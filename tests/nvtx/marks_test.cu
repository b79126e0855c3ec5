// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// What a heap tells tools by NVTX, as a tool sees it: the recorder, which NVTX loads into this process.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "device/simt/launch_watch.hpp"
#include "runtime/nvtx/launch_phases.hpp"
#include "runtime/nvtx/phase.hpp"
#include "tests/nvtx/record.hpp"
#include "tests/support/heap_fixture.hpp"
#include "tests/support/heap_service_peer.hpp"

namespace orchard::test {
namespace {

/// Before `main`, and thus before the first call of NVTX, which loads the tool.
[[maybe_unused]] const bool variables_are_set = [] {
    ::setenv("NVTX_INJECTION64_PATH", ORCHARD_NVTX_RECORDER, 1);
    ::setenv("NVTX_RECORD_FILE", record_path().c_str(), 1);
    return true;
}();

class remove_record final : public ::testing::Environment {
    void TearDown() override { ::unlink(record_path().c_str()); }
};
[[maybe_unused]] const auto* const environment = ::testing::AddGlobalTestEnvironment(new remove_record);

/// An emulated heap that begins without memory, and kernels on it.
class nvtx_marks : public ::testing::Test {
protected:
    static options values() {
        options o;
        o.device = device_option::emulated;
        o.capacity = segments(64);
        o.range = segments(128);
        o.extent = segments(2);
        o.commit_ahead = 0;
        o.cached_segments = 0;
        o.decay = absl::ZeroDuration();
        o.emulated_workers = 2;
        return o;
    }
    void make(const options& o = values()) {
        first_ = nvtx_record::lines();
        auto made = heap::create(o);
        ASSERT_TRUE(made.ok()) << made.status();
        heap_.emplace(*std::move(made));
    }
    std::vector<block> allocate(const std::vector<std::uint64_t>& sizes) {
        std::vector<block> blocks(sizes.size());
        const auto done = simt::launch(heap_->executor(), simt::grid_for(sizes.size(), 32),
                                       allocate_each{heap_->ref(), sizes.data(), blocks.data(), sizes.size()});
        EXPECT_TRUE(done.ok) << done.error;
        for (const block& b : blocks) {
            EXPECT_NE(b.address, 0u);
        }
        return blocks;
    }
    void free_all(const std::vector<block>& blocks) {
        const auto done = simt::launch(heap_->executor(), simt::grid_for(blocks.size(), 32),
                                       free_each{heap_->ref(), blocks.data(), blocks.size()});
        EXPECT_TRUE(done.ok) << done.error;
    }
    /// What was recorded since the heap was made, after all events were passed on.
    nvtx_record record() {
        EXPECT_TRUE(heap_service_peer::flush_events(*heap_));
        return nvtx_record(first_);
    }
    /// The heap of NVTX that is registered. One alone.
    static const nvtx_record::memory& only(const nvtx_record& r) {
        static const nvtx_record::memory none;
        EXPECT_EQ(r.heaps.size(), 1u);
        return r.heaps.empty() ? none : r.heaps.begin()->second;
    }

    std::size_t first_ = 0;
    std::optional<heap> heap_;
};

TEST_F(nvtx_marks, the_domain_and_the_threads_have_names) {
    options o = values();
    o.live_page = true;
    make(o);
    ASSERT_TRUE(heap_->on_failure([](const failure&) {}).ok());
    (void)allocate({segments(1)});
    const std::vector<std::string> names{"service", "growth", "events", "failure watch", "live page", "live commands"};
    // Some threads name themselves when they first run.
    const auto is_named = [&](const std::string& name) {
        return nvtx_record(first_).threads.contains("orchard " + name);
    };
    while (!std::ranges::all_of(names, is_named)) {
        absl::SleepFor(absl::Milliseconds(1));
    }
    const nvtx_record r = record();
    EXPECT_EQ(nvtx_record().count("domain orchard"), 1u);
    std::set<std::uint64_t> ids;
    for (const std::string& name : names) {
        const auto found = r.threads.find("orchard " + name);
        ASSERT_NE(found, r.threads.end()) << name;
        EXPECT_EQ(found->second.size(), 1u) << name;
        ids.insert(found->second.begin(), found->second.end());
    }
    EXPECT_EQ(ids.size(), names.size()) << "each is another thread";
    EXPECT_EQ(ids.count(static_cast<std::uint64_t>(::gettid())), 0u);
}

TEST_F(nvtx_marks, ranges_with_their_amounts_are_on_the_threads_that_work) {
    make();
    const auto blocks = allocate({segments(3)});
    free_all(blocks);
    ASSERT_TRUE(heap_->trim().ok());
    const nvtx_record r = record();
    EXPECT_TRUE(r.errors.empty()) << r.errors.front();
    ASSERT_EQ(r.ranges.count("request waits for memory"), 1u);
    EXPECT_EQ(r.ranges.at("request waits for memory").front().payload, segments(3));
    // What was committed in all went back in all, by growth.
    std::uint64_t committed = 0;
    std::uint64_t decommitted = 0;
    ASSERT_EQ(r.ranges.count("commit"), 1u);
    ASSERT_EQ(r.ranges.count("decommit"), 1u);
    const std::uint64_t growth = *r.threads.at("orchard growth").begin();
    for (const auto& one : r.ranges.at("commit")) {
        committed += one.payload;
        EXPECT_EQ(one.thread, growth);
    }
    for (const auto& one : r.ranges.at("decommit")) {
        decommitted += one.payload;
        EXPECT_EQ(one.thread, growth);
    }
    EXPECT_EQ(committed, decommitted);
    const auto stats = heap_->stats();
    ASSERT_TRUE(stats.ok());
    EXPECT_EQ(decommitted, stats->released_bytes);
    // Every request of the device was served in a turn that is a range.
    std::uint64_t served = 0;
    for (const auto& one : r.ranges.at("serve requests")) {
        EXPECT_GT(one.payload, 0u);
        EXPECT_EQ(one.thread, *r.threads.at("orchard service").begin());
        served += one.payload;
    }
    EXPECT_EQ(served, stats->host_requests);
    ASSERT_EQ(r.ranges.at("trim").size(), 1u);
    EXPECT_EQ(r.ranges.at("trim").front().thread, static_cast<std::uint64_t>(::gettid()));
}

TEST_F(nvtx_marks, moves_are_ranges) {
    options o = values();
    o.backing = backing_option::elastic;
    o.capacity = segments(8);
    o.host_budget = segments(8);
    o.move_unit = segments(2);
    o.range = segments(64);
    make(o);
    const auto blocks = allocate({segments(2)});
    ASSERT_TRUE(heap_->demote(blocks[0].pointer(), blocks[0].bytes).ok());
    ASSERT_TRUE(heap_->prefetch(blocks[0].pointer(), blocks[0].bytes, memory_tier::device).ok());
    const nvtx_record r = record();
    const auto stats = heap_->stats();
    ASSERT_TRUE(stats.ok());
    std::uint64_t moved = 0;
    ASSERT_EQ(r.ranges.count("move"), 1u);
    for (const auto& one : r.ranges.at("move")) {
        moved += one.payload;
    }
    EXPECT_GT(moved, 0u);
    EXPECT_EQ(moved, stats->moved_to_host_bytes + stats->moved_to_device_bytes);
    free_all(blocks);
}

TEST_F(nvtx_marks, counters_have_the_values_of_the_statistics) {
    make();
    const auto blocks = allocate({segments(3), segments(2) + 100'000, 64});
    const nvtx_record r = record();
    const auto stats = heap_->stats();
    ASSERT_TRUE(stats.ok());
    const auto last = [&](const char* name) {
        const auto found = r.samples.find(name);
        return found == r.samples.end() ? std::int64_t{-1} : found->second.back();
    };
    EXPECT_EQ(last("in use"), static_cast<std::int64_t>(stats->segments_granted << segment_shift));
    EXPECT_EQ(last("committed"), static_cast<std::int64_t>(stats->committed_bytes));
    EXPECT_EQ(last("host tier"), static_cast<std::int64_t>(stats->host_bytes));
    EXPECT_EQ(last("events lost"), 0);
    EXPECT_GE(*std::max_element(r.samples.at("queue depth").begin(), r.samples.at("queue depth").end()), 1);
    free_all(blocks);
}

TEST_F(nvtx_marks, the_regions_are_the_granted_segments_and_tails) {
    make();
    const auto blocks = allocate({segments(3) + 200'000, 64, 4096, segments(1), 700'000, 1'500'000});
    const auto stats = heap_->stats();
    ASSERT_TRUE(stats.ok());
    {
        const nvtx_record r = record();
        EXPECT_TRUE(r.errors.empty()) << r.errors.front();
        const auto& m = only(r);
        EXPECT_EQ(m.use, "layout");
        EXPECT_EQ(m.bytes, stats->range_bytes);
        std::uint64_t whole = 0;
        for (const auto& [at, bytes] : m.regions) {
            whole += bytes == segment_bytes ? 1 : 0;
        }
        EXPECT_EQ(whole, stats->segments_granted - stats->portion_blocks);
        EXPECT_EQ(m.regions.size() - whole, stats->portions_granted);
        // Each block lies in regions.
        for (const block& b : blocks) {
            for (std::uint64_t at = b.address; at < b.address + b.bytes;) {
                auto found = m.regions.upper_bound(at);
                ASSERT_NE(found, m.regions.begin()) << b.bytes;
                --found;
                ASSERT_LT(at, found->first + found->second) << b.bytes;
                at = found->first + found->second;
            }
        }
    }
    free_all(blocks);
    ASSERT_TRUE(heap_->trim().ok());
    const nvtx_record r = record();
    EXPECT_TRUE(r.errors.empty()) << r.errors.front();
    EXPECT_TRUE(only(r).regions.empty());
    heap_.reset();
    EXPECT_TRUE(nvtx_record(first_).heaps.empty());
}

TEST_F(nvtx_marks, the_live_blocks_are_the_regions_once_they_are_marked) {
    make();
    auto blocks = allocate({16, 24, 100, 5000, 300'000, segments(2) + 5, 70'000});
    const auto marked = heap_->mark_live_blocks();
    ASSERT_TRUE(marked.ok()) << marked.status();
    EXPECT_EQ(*marked, blocks.size());
    const auto expect_marked = [&] {
        const nvtx_record r = record();
        EXPECT_TRUE(r.errors.empty()) << r.errors.front();
        const auto& m = only(r);
        EXPECT_EQ(m.use, "sub_allocator");
        EXPECT_EQ(m.regions.size(), blocks.size());
        for (const block& b : blocks) {
            const auto found = m.regions.find(b.address);
            ASSERT_NE(found, m.regions.end()) << b.bytes;
            EXPECT_GE(found->second, b.bytes);
            // Rounded up to a page class or to 256 B, so that an access far behind the block is an error.
            EXPECT_LE(found->second, b.bytes + b.bytes / 4 + 256);
        }
    };
    expect_marked();
    // A use after free: the freed block is no region any more.
    free_all({blocks[2], blocks[4]});
    blocks.erase(blocks.begin() + 4);
    blocks.erase(blocks.begin() + 2);
    ASSERT_TRUE(heap_->mark_live_blocks().ok());
    expect_marked();
    // Memory that is granted meanwhile is a region afterwards.
    const auto more = allocate({segments(1)});
    EXPECT_EQ(only(record()).regions.count(more[0].address), 0u);  // the grant has been noted
    heap_->unmark_live_blocks();
    const nvtx_record r = record();
    EXPECT_EQ(only(r).use, "layout");
    EXPECT_EQ(only(r).regions.count(more[0].address), 1u);
    heap_->unmark_live_blocks();  // changes nothing
    EXPECT_EQ(record().heaps.size(), 1u);
    free_all(more);
    free_all(blocks);
}

/// compute-sanitizer refuses heaps whose regions are notes, and takes those of live blocks.
TEST_F(nvtx_marks, a_tool_that_refuses_layouts_gets_the_live_blocks) {
    ASSERT_EQ(::setenv("NVTX_RECORDER_REFUSES", "layout", 1), 0);
    make();
    const auto blocks = allocate({16, 5000, segments(2)});
    EXPECT_TRUE(record().heaps.empty());
    const auto marked = heap_->mark_live_blocks();
    ASSERT_TRUE(marked.ok()) << marked.status();
    EXPECT_EQ(*marked, 3u);
    EXPECT_EQ(only(record()).use, "sub_allocator");
    EXPECT_EQ(only(record()).regions.size(), 3u);
    // Marked again, without a second heap over the first one's memory.
    free_all({blocks[1]});
    const std::size_t asked = nvtx_record::lines();
    const auto left = heap_->mark_live_blocks();
    ASSERT_TRUE(left.ok()) << left.status();
    EXPECT_EQ(*left, 2u);
    EXPECT_EQ(nvtx_record(asked).heaps.size(), 0u);
    EXPECT_EQ(only(record()).regions.size(), 2u);
    // Unmarked, it is one block: to unregister it would take its memory from the program.
    heap_->unmark_live_blocks();
    ASSERT_EQ(only(record()).regions.size(), 1u);
    EXPECT_EQ(only(record()).regions.begin()->second, only(record()).bytes);
    heap_->unmark_live_blocks();  // changes nothing
    EXPECT_EQ(only(record()).regions.size(), 1u);
    ASSERT_TRUE(heap_->mark_live_blocks().ok());
    EXPECT_EQ(only(record()).regions.size(), 2u);
    EXPECT_TRUE(record().errors.empty()) << record().errors.front();
    free_all({blocks[0], blocks[2]});
}

/// Nor does it take memory that it does not know.
TEST_F(nvtx_marks, a_tool_that_refuses_blocks_is_an_error_that_names_the_remedy) {
    ASSERT_EQ(::setenv("NVTX_RECORDER_REFUSES", "layout sub_allocator", 1), 0);
    make();
    const auto blocks = allocate({16, 5000});
    const auto refused = heap_->mark_live_blocks();
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(absl::StrContains(refused.status().message(), "backing fixed")) << refused.status();
    ASSERT_EQ(::unsetenv("NVTX_RECORDER_REFUSES"), 0);
    EXPECT_TRUE(heap_->mark_live_blocks().ok());
    heap_->unmark_live_blocks();
    free_all(blocks);
}

TEST_F(nvtx_marks, the_quarantine_of_a_hardened_heap_is_not_live) {
    options o = values();
    o.hardened = hardening::detect;
    make(o);
    const auto blocks = allocate({100, 200, 3000});
    free_all({blocks[1]});
    const auto marked = heap_->mark_live_blocks();
    ASSERT_TRUE(marked.ok()) << marked.status();
    EXPECT_EQ(*marked, 2u) << "a block in the quarantine is freed";
    const nvtx_record r = record();
    for (const int kept : {0, 2}) {
        const auto& regions = only(r).regions;
        auto found = regions.upper_bound(blocks[static_cast<std::size_t>(kept)].address);
        ASSERT_NE(found, regions.begin());
        --found;
        EXPECT_LE(blocks[static_cast<std::size_t>(kept)].address + blocks[static_cast<std::size_t>(kept)].bytes,
                  found->first + found->second);
    }
    free_all({blocks[0], blocks[2]});
}

TEST_F(nvtx_marks, a_heap_with_the_option_off_says_nothing) {
    options o = values();
    o.nvtx = false;
    make(o);
    EXPECT_FALSE(heap_service_peer::is_heard(*heap_));
    free_all(allocate({segments(3), 64}));
    EXPECT_EQ(nvtx_record::lines(), first_);
    const auto marked = heap_->mark_live_blocks();
    ASSERT_TRUE(marked.ok());
    EXPECT_EQ(*marked, 0u);
}

TEST(nvtx_streams, have_the_names_that_they_are_given) {
    if (!nvtx::names_streams()) {
        GTEST_SKIP() << "this build has no header of CUDA";
    }
    int word = 0;
    const std::size_t first = nvtx_record::lines();
    nvtx::name_stream(&word, "a stream");
    nvtx::name_stream(nullptr, "none");
    const nvtx_record r(first);
    ASSERT_EQ(r.streams.size(), 1u);
    EXPECT_EQ(r.streams.begin()->first, reinterpret_cast<std::uint64_t>(&word));
    EXPECT_EQ(r.streams.begin()->second, "a stream");
}

TEST_F(nvtx_marks, the_stream_of_a_heap_on_cuda_has_a_name) {
    if (const auto choice = choose_device(device_option::cuda); !choice.ok()) {
        GTEST_SKIP() << "needs a GPU: " << choice.status().message();
    }
    options o = values();
    o.device = device_option::cuda;
    make(o);
    // The stream of the heap's memory, not that of its kernels, which is the default one.
    const nvtx_record r = record();
    ASSERT_EQ(r.streams.size(), 1u);
    EXPECT_NE(r.streams.begin()->first, 0u);
    EXPECT_EQ(r.streams.begin()->second, "orchard heap");
}

TEST(nvtx_phases, follow_from_the_names_of_kernels) {
    using nvtx::phase_of_kernel;
    EXPECT_EQ(phase_of_kernel("f(int) [with Kernel = orchard::test::allocate_each]"), nvtx::phase::allocate);
    EXPECT_EQ(phase_of_kernel("f(int) [with Kernel = orchard::free_blocks<orchard::allocate_way>]"), nvtx::phase::free);
    EXPECT_EQ(phase_of_kernel("f(int) [with Kernel = a::{anonymous}::fill_parts<T, b::c>; T = int]"),
              nvtx::phase::build);
    EXPECT_EQ(phase_of_kernel("f(int) [with Kernel = gemm]"), nvtx::phase::compute);
    EXPECT_EQ(phase_of_kernel("f(int) [with Kernel = orchard::build_octree<int>]"), nvtx::phase::build);
    EXPECT_EQ(phase_of_kernel("f(int) [with Kernel = orchard::ask_and_fail]"), nvtx::phase::allocate);
    EXPECT_EQ(phase_of_kernel("f(int) [with Kernel = orchard::graph_init_kernel<a>]"), nvtx::phase::build);
    EXPECT_EQ(phase_of_kernel("f(int) [with Kernel = orchard::graph_free_kernel<a>]"), nvtx::phase::free);
    EXPECT_EQ(phase_of_kernel("f(int) [with Kernel = orchard::graph_merge]"), nvtx::phase::compute);
    EXPECT_EQ(phase_of_kernel("f(int) [with Kernel = orchard::detail::{anonymous}::settle_kernel]"), nvtx::phase::free);
    EXPECT_EQ(phase_of_kernel("f(int) [with Kernel = freely_used]"), nvtx::phase::compute) << "the word is freely";
    EXPECT_EQ(phase_of_kernel(""), nvtx::phase::compute);
}

TEST_F(nvtx_marks, launches_are_ranges_once_they_are_marked) {
    make();
    free_all(allocate({64}));
    EXPECT_EQ(record().ranges.count("allocate"), 0u);
    nvtx::mark_launches();
    free_all(allocate({64}));
    simt::watched_launches.store(nullptr, std::memory_order_release);
    const nvtx_record r = record();
    ASSERT_EQ(r.ranges.count("allocate"), 1u);
    EXPECT_EQ(r.ranges.at("allocate").size(), 1u);
    ASSERT_EQ(r.ranges.count("free"), 1u);
    EXPECT_EQ(r.ranges.at("free").size(), 1u);
}

TEST_F(nvtx_marks, phases_are_ranges_and_nest) {
    first_ = nvtx_record::lines();
    {
        const nvtx::phase outer(nvtx::phase::build, 3);
        const nvtx::phase inner(nvtx::phase::compute, 7);
    }
    const nvtx_record r(first_);
    EXPECT_TRUE(r.errors.empty());
    ASSERT_EQ(r.ranges.count("build"), 1u);
    ASSERT_EQ(r.ranges.count("compute"), 1u);
    EXPECT_EQ(r.ranges.at("build").front().payload, 3u);
    EXPECT_EQ(r.ranges.at("compute").front().payload, 7u);
}

}  // namespace
}  // namespace orchard::test
