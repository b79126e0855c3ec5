// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// What kernels report of their blocks, against what they did.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "device/heap_ref.cuh"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/heap.hpp"
#include "runtime/trace/followed_blocks.hpp"
#include "runtime/trace/trace_reader.hpp"
#include "tests/support/hardened_fixture.hpp"
#include "tests/trace/trace_file.hpp"

ORCHARD_NAME_SITES;

namespace orchard::test {
namespace {

using simt::order;
using testing::HasSubstr;

class block_events : public on_each_device {};
INSTANTIATE_TEST_SUITE_P(all, block_events, testing::Values(device_option::emulated, device_option::cuda),
                         name_of_device);

options traced(device_option device, const std::string& path) {
    options o;
    o.device = device;
    o.capacity = 512 << 20;
    o.range = 1 << 30;
    o.backing = backing_option::elastic;
    o.emulated_workers = 2;
    o.trace = path;
    return o;
}

heap make(const options& o) {
    auto h = heap::create(o);
    EXPECT_TRUE(h.ok()) << h.status();
    return *std::move(h);
}

/// The sums of a trace's events of blocks, in their order; a free or a tag without a block is a fault.
struct followed {
    followed_blocks blocks;
    std::uint64_t allocated = 0;
    std::uint64_t bytes = 0;
    std::uint64_t freed = 0;
    std::uint64_t wrong = 0;
    std::array<std::uint64_t, event_kinds> kinds{};
    std::optional<trace_waits> waits;

    void take(const std::vector<event>& events) {
        for (const event& e : events) {
            using effect = followed_blocks::effect;
            const auto c = blocks.take(e);
            ++kinds[static_cast<std::size_t>(e.kind)];
            allocated += c.what == effect::allocated ? 1 : 0;
            bytes += c.what == effect::allocated ? c.after.bytes : 0;
            freed += c.what == effect::freed ? 1 : 0;
            wrong += c.what == effect::unknown || c.what == effect::doubled ? 1 : 0;
        }
    }
};

followed follow(const trace_file& file) {
    const auto whole = load_trace(file.path());
    EXPECT_TRUE(whole.ok()) << whole.status();
    followed f;
    if (whole.ok()) {
        EXPECT_TRUE(can_replay(whole->summary.info, whole->summary.counts));
        f.take(whole->events);
        f.waits = whole->summary.counts.waits;
    }
    EXPECT_EQ(f.wrong, 0u);
    return f;
}

/// Each thread calls everything that allocates and frees, several times, and keeps one block of 24 B.
struct use_all_calls {
    heap_ref heap;
    int rounds;
    std::uint64_t large;  ///< bytes of the blocks that grow
    simt::device_word<std::uint64_t>* allocated;
    simt::device_word<std::uint64_t>* freed;

    ORCHARD_FN void got(const void* p) const { allocated->fetch_add<order::relaxed>(p != nullptr ? 1 : 0); }
    ORCHARD_FN void give(void* p) const {
        freed->fetch_add<order::relaxed>(p != nullptr ? 1 : 0);
        heap.free(p);
    }
    ORCHARD_FN void operator()(simt::thread_position at) const {
        got(heap.malloc(24));
        for (int i = 0; i < rounds; ++i) {
            void* const a = heap.malloc(16 + 8 * at.thread);
            void* const b = heap.calloc(3, 100);
            void* const c = heap.aligned_alloc(4096, 100);
            void* d = heap.malloc(large + at.thread, 77);
            got(a);
            got(b);
            got(c);
            got(d);
            give(a);
            void* const e = heap.realloc(d, 2 * large);
            if (e != d) {
                got(e);
                freed->fetch_add<order::relaxed>(1);
            }
            give(b);
            const auto array = heap.allocate_array<int>(500 + at.thread, layout::interleaved(tile::b128));
            got(array.empty() ? nullptr : array.chunk());
            give(e);
            give(c);
            freed->fetch_add<order::relaxed>(array.empty() ? 0 : 1);
            heap.free_array(array);
        }
    }
};

TEST_P(block_events, tell_of_every_block) {
    for (const hardening level : {hardening::off, hardening::detect}) {
        const trace_file file;
        std::uint64_t counts[2];
        {
            options o = traced(GetParam(), file.path());
            o.hardened = level;
            heap h = make(o);
            auto found = device_array<std::uint64_t>::create(h.executor(), 2);
            ASSERT_TRUE(found.ok());
            auto* const words = reinterpret_cast<simt::device_word<std::uint64_t>*>(found->data());
            const auto ran =
                simt::launch(h.executor(), simt::grid{4, 40}, use_all_calls{h.ref(), 6, 600'000, words, words + 1});
            ASSERT_TRUE(ran.ok) << ran.error;
            ASSERT_TRUE(found->download(counts).ok());
            EXPECT_EQ(h.validate(), absl::OkStatus());
        }
        const followed f = follow(file);
        EXPECT_EQ(f.allocated, counts[0]);
        EXPECT_EQ(f.freed, counts[1]);
        EXPECT_EQ(f.blocks.blocks().size(), 160u);
        for (const auto& [at, b] : f.blocks.blocks()) {
            EXPECT_EQ(b.bytes, 24u);
        }
        EXPECT_GT(f.kinds[static_cast<std::size_t>(event_kind::slab_opened)], 0u);
        EXPECT_EQ(f.waits, trace_waits{}) << "fewer events than a ring or a queue holds";
    }
}

/// Many more events than the ring has slots: kernels wait for the host, and nothing is lost.
TEST_P(block_events, wait_for_the_host_and_lose_nothing) {
    const trace_file file;
    std::uint64_t counts[2];
    {
        heap h = make(traced(GetParam(), file.path()));
        auto found = device_array<std::uint64_t>::create(h.executor(), 2);
        ASSERT_TRUE(found.ok());
        auto* const words = reinterpret_cast<simt::device_word<std::uint64_t>*>(found->data());
        const auto ran =
            simt::launch(h.executor(), simt::grid{32, 128}, use_all_calls{h.ref(), 4, 3'000, words, words + 1});
        ASSERT_TRUE(ran.ok) << ran.error;
        ASSERT_TRUE(found->download(counts).ok());
    }
    const followed f = follow(file);
    EXPECT_EQ(f.allocated, counts[0]);
    EXPECT_EQ(f.freed, counts[1]);
    EXPECT_GT(f.allocated + f.freed, 1u << 16);
}

/// Copies a pipe to a file. It begins to read when a group of the heap's kernels waits for the log, and the log for the
/// pipe.
void copy_late(const std::string& pipe, const std::string& to, const std::atomic<const device::event_ring*>& ring) {
    std::ifstream from(pipe, std::ios::binary);  // returns when the heap has opened it
    while (ring.load() == nullptr) {
        absl::SleepFor(absl::Milliseconds(1));
    }
    const device::event_ring& r = *ring.load();
    for (bool waits = false; !waits;) {
        const std::uint64_t progress = r.progress->load<order::relaxed>();
        absl::SleepFor(absl::Milliseconds(50));
        waits = r.ticket.load<order::relaxed>() > progress + r.slots && r.progress->load<order::relaxed>() == progress;
    }
    std::ofstream(to, std::ios::binary) << from.rdbuf();
}

/// The file of the trace is a pipe that is full, so that the log stops, and kernels wait.
TEST(block_waits, are_counted) {
    const trace_file file;
    const std::string pipe = file.path() + ".pipe";
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    std::atomic<const device::event_ring*> ring{nullptr};
    std::thread reader(copy_late, pipe, file.path(), std::cref(ring));
    std::uint64_t counts[2];
    {
        options o = traced(device_option::emulated, pipe);
        o.request_timeout = absl::Minutes(1);
        heap h = make(o);
        auto found = device_array<std::uint64_t>::create(h.executor(), 2);
        ring = h.view().events;
        auto* const words = reinterpret_cast<simt::device_word<std::uint64_t>*>(found->data());
        const auto ran =
            simt::launch(h.executor(), simt::grid{32, 128}, use_all_calls{h.ref(), 6, 3'000, words, words + 1});
        EXPECT_TRUE(ran.ok) << ran.error;
        EXPECT_TRUE(found->download(counts).ok());
    }
    reader.join();
    std::filesystem::remove(pipe);
    const followed f = follow(file);
    EXPECT_EQ(f.allocated, counts[0]);
    EXPECT_EQ(f.freed, counts[1]);
    ASSERT_TRUE(f.waits.has_value());
    EXPECT_GT(f.waits->kernels.count, 0u);
    EXPECT_GT(f.waits->kernels.ns, 0u);
}

TEST_P(block_events, of_the_host_are_among_those_of_kernels) {
    const trace_file file;
    {
        heap h = make(traced(GetParam(), file.path()));
        auto found = device_array<std::uint64_t>::create(h.executor(), 2);
        auto* const words = reinterpret_cast<simt::device_word<std::uint64_t>*>(found->data());
        for (int i = 0; i < 5; ++i) {
            auto block = h.allocate_on_host(100'000);
            ASSERT_TRUE(block.ok()) << block.status();
            const auto ran =
                simt::launch(h.executor(), simt::grid{1, 32}, use_all_calls{h.ref(), 1, 600'000, words, words + 1});
            ASSERT_TRUE(ran.ok) << ran.error;
            ASSERT_TRUE(i == 4 || h.free_on_host(*block).ok());
        }
    }
    const followed f = follow(file);
    std::uint64_t of_host = 0;
    for (const auto& [at, b] : f.blocks.blocks()) {
        of_host += b.thread == host_thread ? 1 : 0;
    }
    EXPECT_EQ(of_host, 1u);
    EXPECT_EQ(f.blocks.blocks().size(), 1u + 5 * 32);
}

TEST_P(block_events, are_left_out_of_a_sampled_trace) {
    const trace_file file;
    {
        options o = traced(GetParam(), file.path());
        o.trace_mode = event_mode::sampled;
        heap h = make(o);
        EXPECT_EQ(h.view().instrumented, 0u);
        auto found = device_array<std::uint64_t>::create(h.executor(), 2);
        auto* const words = reinterpret_cast<simt::device_word<std::uint64_t>*>(found->data());
        const auto ran =
            simt::launch(h.executor(), simt::grid{4, 40}, use_all_calls{h.ref(), 6, 600'000, words, words + 1});
        ASSERT_TRUE(ran.ok) << ran.error;
    }
    const auto whole = load_trace(file.path());
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_FALSE(can_replay(whole->summary.info, whole->summary.counts));
    followed f;
    f.take(whole->events);
    EXPECT_EQ(f.allocated + f.freed, 0u);
    EXPECT_GT(f.kinds[static_cast<std::size_t>(event_kind::slab_opened)], 0u);
}

// --- allocation sites ---

/// The first half of the threads frees its block again.
struct allocate_at_sites {
    heap_ref heap;
    std::uint32_t* tags;  ///< one for each thread

    ORCHARD_FN void operator()(simt::thread_position at) const {
        // The next two lines are the sites.
        void* const kept = ORCHARD_MALLOC(heap, 1000);
        void* const half = heap.malloc(200, ORCHARD_SITE);
        tags[at.global_thread()] = ORCHARD_SITE;
        void* const moved = heap.realloc(half, 3000);
        if (at.thread % 2 == 0) {
            heap.free(moved);
        }
        (void)kept;
    }
};

TEST_P(block_events, are_counted_by_site) {
    options o = traced(GetParam(), "");
    o.sites = true;
    heap h = make(o);
    auto tags = device_array<std::uint32_t>::create(h.executor(), 2 * 64);
    ASSERT_TRUE(tags.ok());
    const auto ran = simt::launch(h.executor(), simt::grid{2, 64}, allocate_at_sites{h.ref(), tags->data()});
    ASSERT_TRUE(ran.ok) << ran.error;
    std::vector<std::uint32_t> own_tag(2 * 64);
    ASSERT_TRUE(tags->download(own_tag).ok());
    const std::string name = name_of_tag(own_tag[0]);
    ASSERT_THAT(name, HasSubstr("block_events_test.cu:"));
    const int line = std::stoi(name.substr(name.find(':') + 1));
    const auto sites = h.sites();
    ASSERT_TRUE(sites.ok()) << sites.status();
    ASSERT_EQ(sites->size(), 2u) << leak_report(*sites);
    const site_usage& half = (*sites)[0];
    const site_usage& kept = (*sites)[1];
    EXPECT_EQ(half.name, "block_events_test.cu:" + std::to_string(line - 1));
    EXPECT_EQ(half.live_blocks, 64u);
    EXPECT_EQ(half.live_bytes, 64u * 3000);
    EXPECT_EQ(half.allocations, 256u);
    EXPECT_EQ(kept.name, "block_events_test.cu:" + std::to_string(line - 2));
    EXPECT_EQ(kept.live_blocks, 128u);
    EXPECT_EQ(kept.peak_bytes, 128'000u);
    EXPECT_EQ(kept.allocated_bytes, 128'000u);
    EXPECT_THAT(leak_report(*sites), HasSubstr("blocks that were not freed: 192, "));
}

TEST(block_sites, are_counted_with_the_option_alone) {
    options o = traced(device_option::emulated, "");
    heap h = make(o);
    EXPECT_TRUE(absl::IsFailedPrecondition(h.sites().status())) << h.sites().status();
}

TEST(block_sites, have_names_that_the_program_gives) {
    EXPECT_EQ(name_of_tag(0), "no tag");
    EXPECT_EQ(name_of_tag(4'194'303), "tag 4194303");
    name_tag(4'194'303, "trees");
    EXPECT_EQ(name_of_tag(4'194'303), "trees");
    static_assert(site_tag("/a/b.cu", 7) == site_tag("b.cu", 7) && site_tag("b.cu", 7) != site_tag("b.cu", 8));
}

}  // namespace
}  // namespace orchard::test
