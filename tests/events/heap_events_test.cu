// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The events of a whole heap against its statistics: those of the host on the emulated device, those of kernels on
/// each device.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/heap/device_memory.hpp"
#include "runtime/trace/trace_reader.hpp"
#include "tests/support/hardened_fixture.hpp"
#include "tests/support/heap_fixture.hpp"
#include "tests/support/heap_service_peer.hpp"
#include "tests/trace/trace_file.hpp"

namespace orchard::test {
namespace {

struct counting_sink final : event_sink {
    std::uint64_t events[event_kinds]{};
    std::uint64_t of_host[event_kinds]{};  ///< those with `host_slot`
    std::uint64_t bytes[event_kinds]{};
    std::uint64_t lost_events = 0;
    std::uint64_t latest_ns[event_kinds]{};
    bool is_in_order = true;  ///< the events of each kind; those of other threads may follow behind: see event_log

    void take(std::span<const event> more) override {
        for (const event& e : more) {
            const auto k = static_cast<std::size_t>(e.kind);
            ++events[k];
            of_host[k] += e.detail == host_slot ? 1 : 0;
            bytes[k] += e.bytes;
            is_in_order = is_in_order && e.time_ns >= latest_ns[k];
            latest_ns[k] = e.time_ns;
        }
    }
    void lost(std::uint64_t count) override { lost_events += count; }
    [[nodiscard]] std::uint64_t of(event_kind k) const { return events[static_cast<std::size_t>(k)]; }
    [[nodiscard]] std::uint64_t bytes_of(event_kind k) const { return bytes[static_cast<std::size_t>(k)]; }
};

class heap_events_of : public ::testing::Test {
protected:
    void make(const options& o, event_mode mode) {
        event_listeners listeners;
        listeners.sinks = {&sink_};
        listeners.log.mode = mode;
        auto made = heap_service_peer::make_heard(o, listeners);
        ASSERT_TRUE(made.ok()) << made.status();
        heap_.emplace(*std::move(made));
    }
    static options values() {
        options o;
        o.device = device_option::emulated;
        o.capacity = segments(64);
        o.range = segments(128);
        o.extent = segments(2);
        o.commit_ahead = segments(4);
        o.decay = absl::ZeroDuration();
        o.emulated_workers = 2;
        return o;
    }
    std::vector<block> allocate(const std::vector<std::uint64_t>& sizes) {
        std::vector<block> blocks(sizes.size());
        const auto done = simt::launch(heap_->executor(), simt::grid_for(sizes.size(), 64),
                                       allocate_each{heap_->ref(), sizes.data(), blocks.data(), sizes.size()});
        EXPECT_TRUE(done.ok) << done.error;
        return blocks;
    }
    void free_all(const std::vector<block>& blocks) {
        const auto done = simt::launch(heap_->executor(), simt::grid_for(blocks.size(), 64),
                                       free_each{heap_->ref(), blocks.data(), blocks.size()});
        EXPECT_TRUE(done.ok) << done.error;
    }

    counting_sink sink_;  // before the heap, which it outlives
    std::optional<heap> heap_;
};

TEST_F(heap_events_of, a_complete_log_agrees_with_the_statistics) {
    make(values(), event_mode::complete);
    std::vector<std::uint64_t> sizes;
    for (std::uint64_t i = 0; i < 256; ++i) {
        sizes.push_back(i % 16 == 0 ? segments(1) / 2 + i * 1000 : 16 << i % 12);
    }
    for (int round = 0; round < 4; ++round) {
        const auto blocks = allocate(sizes);
        const auto on_host = heap_->allocate_on_host(100'000);
        ASSERT_TRUE(on_host.ok()) << on_host.status();
        ASSERT_TRUE(heap_->free_on_host(*on_host).ok());
        free_all(blocks);
        ASSERT_TRUE(heap_->trim().ok());
    }
    ASSERT_TRUE(heap_service_peer::flush_events(*heap_));
    const auto stats = heap_->stats();
    ASSERT_TRUE(stats.ok());
    EXPECT_EQ(sink_.lost_events, 0u);
    EXPECT_TRUE(sink_.is_in_order);
    EXPECT_EQ(sink_.of(event_kind::grant) - sink_.of_host[static_cast<std::size_t>(event_kind::grant)], stats->grants);
    EXPECT_GT(sink_.of_host[static_cast<std::size_t>(event_kind::grant)], 0u);
    EXPECT_EQ(sink_.of(event_kind::park), stats->requests_parked);
    EXPECT_EQ(sink_.of(event_kind::trim), 4u);
    EXPECT_EQ(sink_.bytes_of(event_kind::decommit), stats->released_bytes);
    EXPECT_EQ(sink_.bytes_of(event_kind::commit) - sink_.bytes_of(event_kind::decommit), stats->committed_bytes);
    EXPECT_EQ(sink_.bytes_of(event_kind::grant) - sink_.bytes_of(event_kind::give_back),
              (stats->segments_granted << segment_shift));
}

TEST_F(heap_events_of, a_move_is_an_event_of_each_piece) {
    options o = values();
    o.backing = backing_option::elastic;
    o.capacity = segments(8);
    o.host_budget = segments(8);
    o.move_unit = segments(2);
    o.commit_ahead = 0;
    make(o, event_mode::complete);
    const auto blocks = allocate({segments(4)});
    ASSERT_TRUE(heap_->demote(blocks[0].pointer(), blocks[0].bytes).ok());
    ASSERT_TRUE(heap_->prefetch(blocks[0].pointer(), segments(1), memory_tier::device).ok());
    ASSERT_TRUE(heap_service_peer::flush_events(*heap_));
    const auto stats = heap_->stats();
    ASSERT_TRUE(stats.ok());
    EXPECT_EQ(sink_.bytes_of(event_kind::move), stats->moved_to_host_bytes + stats->moved_to_device_bytes);
    EXPECT_EQ(sink_.bytes_of(event_kind::move), sink_.of(event_kind::move) * segments(2));
    EXPECT_GT(sink_.of(event_kind::move), 2u);
    free_all(blocks);
}

TEST_F(heap_events_of, requests_that_fail_are_refusals) {
    options o = values();
    o.capacity = segments(4);
    o.range = segments(16);
    o.commit_ahead = 0;
    make(o, event_mode::sampled);
    const auto blocks = allocate({segments(3)});
    EXPECT_NE(blocks[0].address, 0u);
    EXPECT_EQ(allocate({segments(3)})[0].address, 0u);
    ASSERT_TRUE(heap_service_peer::flush_events(*heap_));
    EXPECT_GT(sink_.of(event_kind::refuse), 0u);
    free_all(blocks);
}

TEST_F(heap_events_of, a_heap_without_listeners_has_no_log) {
    options o = values();
    o.nvtx = false;
    auto made = heap::create(o);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_FALSE(heap_service_peer::is_heard(*made));
}

// --- the events of the kernels' slow paths, which a trace has in both modes ---

class slow_path_events : public on_each_device {
protected:
    static options traced(const std::string& path, event_mode mode) {
        options o;
        o.device = GetParam();
        o.capacity = segments(32);
        o.emulated_workers = 2;
        o.trace = path;
        o.trace_mode = mode;
        return o;
    }
    /// Thread i allocates `sizes[i]`; then, in another kernel, each thread frees its block. Returns how many blocks
    /// were null.
    static std::uint64_t allocate_and_free_all(heap& h, const std::vector<std::uint64_t>& sizes) {
        auto wanted = device_array<std::uint64_t>::create(h.executor(), sizes.size());
        auto got = device_array<block>::create(h.executor(), sizes.size());
        EXPECT_TRUE(wanted.ok() && got.ok() && wanted->upload(sizes).ok());
        const simt::grid shape = simt::grid_for(sizes.size(), 64);
        EXPECT_TRUE(
            simt::launch(h.executor(), shape, allocate_each{h.ref(), wanted->data(), got->data(), sizes.size()}).ok);
        EXPECT_TRUE(simt::launch(h.executor(), shape, free_each{h.ref(), got->data(), sizes.size()}).ok);
        std::vector<block> blocks(sizes.size());
        EXPECT_TRUE(got->download(blocks).ok());
        return static_cast<std::uint64_t>(std::ranges::count(blocks, 0u, &block::address));
    }
    /// Returns the fields `at` and `detail` of all events of a kind, sorted.
    static std::vector<std::pair<std::uint64_t, std::uint32_t>> events_of(const std::vector<event>& all, event_kind k) {
        std::vector<std::pair<std::uint64_t, std::uint32_t>> found;
        for (const event& e : all) {
            if (e.kind == k) {
                found.emplace_back(e.at, e.detail);
            }
        }
        std::ranges::sort(found);
        return found;
    }
};
INSTANTIATE_TEST_SUITE_P(all, slow_path_events, testing::Values(device_option::emulated, device_option::cuda),
                         name_of_device);

TEST_P(slow_path_events, agree_with_the_statistics) {
    std::vector<std::uint64_t> sizes;
    for (std::uint64_t i = 0; i < 2048; ++i) {
        sizes.push_back(16 << i % 8);
    }
    const std::vector<std::uint64_t> too_large(5, segments(64));
    for (const event_mode mode : {event_mode::complete, event_mode::sampled}) {
        const trace_file file;
        statistics stats;
        {
            auto made = heap::create(traced(file.path(), mode));
            ASSERT_TRUE(made.ok()) << made.status();
            for (int round = 0; round < 3; ++round) {
                EXPECT_EQ(allocate_and_free_all(*made, sizes), 0u);
                ASSERT_TRUE(made->trim().ok());
            }
            EXPECT_EQ(allocate_and_free_all(*made, too_large), too_large.size());
            const auto all = made->stats();
            ASSERT_TRUE(all.ok()) << all.status();
            stats = *all;
        }
        const auto trace = load_trace(file.path());
        ASSERT_TRUE(trace.ok()) << trace.status();
        const auto opened = events_of(trace->events, event_kind::slab_opened);
        EXPECT_GE(stats.slabs_published, 3u * 8) << "each round needs a slab of each size";
        EXPECT_EQ(opened.size(), stats.slabs_published);
        // A trim retires each slab, since all blocks are free.
        EXPECT_EQ(stats.slabs_retired, stats.slabs_published);
        EXPECT_EQ(events_of(trace->events, event_kind::slab_retired), opened);
        EXPECT_EQ(stats.failed_allocations, too_large.size());
        EXPECT_THAT(
            events_of(trace->events, event_kind::shortage),
            testing::AllOf(testing::SizeIs(stats.failed_allocations),
                           testing::Each(testing::Pair(0u, static_cast<std::uint32_t>(failure_reason::too_large)))));
    }
}

}  // namespace
}  // namespace orchard::test
