// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "device/simt/launch.cuh"
#include "runtime/heap/heap.hpp"
#include "tests/live/pages.hpp"

namespace orchard {
namespace {

ORCHARD_NAME_SITES;

using live::command;
using live::live_reader;
using live_test::child_process;
using live_test::eventually;
using live_test::own_heaps;
using live_test::pages_of;
using live_test::small_heap;
using testing::HasSubstr;

/// Each thread takes a block, and keeps it.
struct take_one {
    heap_ref h;
    std::uint64_t bytes;
    void** blocks;
    ORCHARD_FN void operator()(simt::thread_position at) const { blocks[at.global_thread()] = h.malloc(bytes); }
};

/// Takes `threads` blocks of a heap.
std::vector<void*> take(heap& h, std::uint32_t threads, std::uint64_t bytes) {
    std::vector<void*> blocks(threads);
    EXPECT_TRUE(simt::launch(h.executor(), simt::grid{threads / 32, 32}, take_one{h.ref(), bytes, blocks.data()}).ok);
    return blocks;
}

/// A heap with a page in this process, and its page.
class live_heap : public testing::Test {
protected:
    void SetUp() override {
        auto made = heap::create(small_heap());
        ASSERT_TRUE(made.ok()) << made.status();
        ASSERT_THAT(made->warnings(), testing::IsEmpty());
        heap_.emplace(*std::move(made));
        const auto names = pages_of(::getpid());
        ASSERT_EQ(names.size(), 1u);
        auto opened = live_reader::open(names.front());
        ASSERT_TRUE(opened.ok()) << opened.status();
        reader_.emplace(*std::move(opened));
    }
    /// Reads until the device's counters are those of after this call.
    live::snapshot read_device() {
        const std::uint64_t began = monotonic_ns();
        live::snapshot last;
        EXPECT_TRUE(eventually([&] {
            reader_->watch();
            auto s = reader_->read();
            EXPECT_TRUE(s.ok()) << s.status();
            last = *std::move(s);
            return last.number("device_read_ns") - last.number("device_read_cost_ns") > began;
        }));
        return last;
    }
    absl::StatusOr<std::string> send(command c, std::uint64_t n = 0, const std::string& text = "") {
        return reader_->send(c, n, text, absl::Seconds(60));
    }

    std::optional<heap> heap_;
    std::optional<live_reader> reader_;
};

TEST_F(live_heap, shows_its_statistics) {
    (void)take(*heap_, 256, 64);
    (void)take(*heap_, 32, 3 * segment_bytes / 2);
    const live::snapshot s = read_device();
    const auto now = heap_->stats();
    ASSERT_TRUE(now.ok());
    EXPECT_EQ(s.text("device"), "emulated");
    EXPECT_EQ(s.text("backing"), "elastic");
    EXPECT_EQ(s.number("device_budget_bytes"), 64u << 20);
    for (const statistic_info& info : statistic_table()) {
        if (!info.name.starts_with("service_")) {
            EXPECT_EQ(s.number(info.name), *now.*info.field) << info.name;
        }
    }
    const live::field* used = s.find("class_pages_in_use");
    ASSERT_NE(used, nullptr);
    for (std::uint32_t c = 0; c < class_count; ++c) {
        EXPECT_EQ(used->values[c], now->classes[c].pages_in_use);
        EXPECT_EQ(s.labels_of(*used)[c], absl::StrCat(class_bytes(c)));
    }
    // Each poll that found a request, and each commit, is in its histogram.
    const auto sum = [&](const char* name) {
        const std::vector<std::uint64_t>& v = s.find(name)->values;
        return std::accumulate(v.begin(), v.end() - 1, std::uint64_t{0});
    };
    EXPECT_GT(sum("queue_depth"), 0u);
    EXPECT_EQ(s.find("queue_depth")->values.back(), now->host_requests);
    EXPECT_GT(sum("commit_ns"), 0u);
    EXPECT_GT(s.find("commit_ns")->values.back(), 0u);
    EXPECT_GT(sum("answer_ns"), 0u);
    EXPECT_LE(sum("answer_ns"), sum("queue_depth"));
}

TEST_F(live_heap, does_not_read_the_device_unless_somebody_watches) {
    (void)take(*heap_, 32, 64);
    EXPECT_TRUE(eventually([&] { return reader_->read()->number("segments_granted") != 0; })) << "the host's are shown";
    EXPECT_EQ(reader_->read()->number("device_read_ns"), 0u);
    EXPECT_EQ(reader_->read()->number("slabs_published"), 0u);
}

TEST_F(live_heap, shows_failures_by_reason) {
    (void)take(*heap_, 64, 16 << 20);
    const live::snapshot s = read_device();
    const live::field* failures = s.find("failures");
    const auto newest = heap_->last_failure();
    ASSERT_TRUE(newest);
    const auto reason = static_cast<std::size_t>(newest->reason);
    EXPECT_GT(failures->values[reason], 0u);
    EXPECT_EQ(s.labels_of(*failures)[reason], name_of(newest->reason));
    EXPECT_EQ(s.find("failure_bytes")->values[reason], 16u << 20);
}

TEST_F(live_heap, carries_out_commands) {
    const auto reserved = send(command::reserve, 32 << 20);
    ASSERT_TRUE(reserved.ok()) << reserved.status();
    EXPECT_EQ(*reserved, "32 MiB committed now");
    EXPECT_EQ(heap_->stats()->committed_bytes, 32u << 20);
    const auto trimmed = send(command::trim);
    ASSERT_TRUE(trimmed.ok()) << trimmed.status();
    EXPECT_EQ(*trimmed, "32 MiB given back, 0 B committed now");
    const auto valid = send(command::validate);
    ASSERT_TRUE(valid.ok()) << valid.status();
    EXPECT_THAT(*valid, HasSubstr("no fault found"));
}

TEST_F(live_heap, refuses_commands_with_a_reason) {
    EXPECT_EQ(send(command::reserve, std::uint64_t{1} << 40).status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(send(command::budget, 1 << 20).status().message()),
                HasSubstr("cannot be 1 MiB: give 2 MiB or more"));
    EXPECT_EQ(send(command::dump, 0, "a/relative/path").status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(send(command::dump, 0, "/nonexistent/file").status().message()),
                HasSubstr("/nonexistent/file: cannot make a file beside it"));
    EXPECT_EQ(send(static_cast<command>(99)).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(send(command::none).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(send(command::trim).ok());
}

TEST_F(live_heap, writes_a_dump_for_its_user_alone) {
    const std::string path = testing::TempDir() + "live_dump_" + std::to_string(::getpid());
    const auto said = send(command::dump, 0, path);
    ASSERT_TRUE(said.ok()) << said.status();
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_THAT(text, HasSubstr("{\"format\": \"orchard heap map\""));
    EXPECT_THAT(text, HasSubstr("\"live_page\": \"true\""));
    EXPECT_THAT(text, HasSubstr("\"committed_bytes\": 0"));
    EXPECT_EQ(std::filesystem::status(path).permissions(),
              std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    std::filesystem::remove(path);
}

TEST_F(live_heap, moves_with_its_page_and_removes_it_at_its_end) {
    heap moved = *std::move(heap_);
    EXPECT_TRUE(reader_->read().ok());
    { const heap ended = std::move(moved); }
    EXPECT_EQ(reader_->read().status().code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(pages_of(::getpid()), testing::IsEmpty());
}

TEST_F(live_heap, is_attached_to_and_left_a_hundred_times) {
    const auto name = reader_->name();
    const auto descriptors = [] {
        return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                             std::filesystem::directory_iterator());
    };
    const auto before = descriptors();
    for (int i = 0; i < 100; ++i) {
        auto again = live_reader::open(name);
        ASSERT_TRUE(again.ok()) << again.status();
        again->watch();
        ASSERT_TRUE(again->read().ok());
        if (i % 20 == 0) {
            ASSERT_TRUE(again->send(command::trim, 0, "", absl::Seconds(60)).ok());
        }
    }
    EXPECT_EQ(descriptors(), before);
    EXPECT_TRUE(heap_->validate().ok());
}

TEST(heap_without_a_page, has_none) {
    options o = small_heap();
    o.live_page = false;
    auto made = heap::create(o);
    ASSERT_TRUE(made.ok());
    EXPECT_THAT(pages_of(::getpid()), testing::IsEmpty());
}

/// Heaps of other processes, which are forked.
class live_heaps : public testing::Test {
protected:
    void SetUp() override {
#if defined(__SANITIZE_THREAD__)
        GTEST_SKIP() << "the thread sanitizer ends a forked process that starts a thread";
#endif
    }
};

TEST_F(live_heaps, of_one_process_have_a_page_each) {
    child_process owner([](const auto& ready) { return own_heaps(20, ready); });
    ASSERT_TRUE(owner.is_ready());
    const auto names = pages_of(owner.pid());
    ASSERT_EQ(names.size(), 20u);
    for (const auto& name : names) {
        auto reader = live_reader::open(name);
        ASSERT_TRUE(reader.ok()) << reader.status();
        const auto s = reader->read();
        ASSERT_TRUE(s.ok()) << s.status();
        EXPECT_EQ(s->name, name);
        EXPECT_EQ(s->number("capacity_bytes"), 64u << 20);
    }
    auto reader = live_reader::open(names[7]);
    ASSERT_TRUE(reader.ok());
    EXPECT_EQ(reader->send(command::reserve, 8 << 20, "", absl::Seconds(60)).value_or("error"), "8 MiB committed now");
    EXPECT_EQ(owner.kill(SIGTERM), 0);
    EXPECT_THAT(live::find_pages(), testing::Each(testing::Field(&live::page_name::pid, testing::Ne(owner.pid()))));
}

TEST_F(live_heaps, of_a_killed_process_are_seen_to_have_ended_and_removed) {
    child_process owner([](const auto& ready) { return own_heaps(2, ready); });
    ASSERT_TRUE(owner.is_ready());
    const auto names = pages_of(owner.pid());
    ASSERT_EQ(names.size(), 2u);
    auto reader = live_reader::open(names[0]);
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ(owner.kill(SIGKILL), 255);
    for (const absl::Status& s :
         {reader->read().status(), reader->send(command::trim, 0, "", absl::Seconds(60)).status()}) {
        EXPECT_EQ(s.code(), absl::StatusCode::kNotFound);
        EXPECT_THAT(std::string(s.message()), HasSubstr("the process has ended"));
    }
    EXPECT_THAT(pages_of(owner.pid()), testing::IsEmpty());
    EXPECT_THAT(live::find_pages(), testing::Each(testing::Field(&live::page_name::pid, testing::Ne(owner.pid()))));
}

TEST_F(live_heaps, of_a_process_that_is_killed_end_a_command_under_way) {
    auto owner = std::make_unique<child_process>([](const auto& ready) { return own_heaps(1, ready); });
    ASSERT_TRUE(owner->is_ready());
    auto reader = live_reader::open(pages_of(owner->pid()).front());
    ASSERT_TRUE(reader.ok());
    ::kill(owner->pid(), SIGSTOP);  // it does not answer
    child_process killer([pid = owner->pid()](const auto& ready) {
        ready();
        absl::SleepFor(absl::Milliseconds(50));
        return ::kill(pid, SIGKILL);
    });
    std::thread reaper([&] { owner.reset(); });
    const auto said = reader->send(command::trim, 0, "", absl::Seconds(60));
    reaper.join();
    EXPECT_EQ(said.status().code(), absl::StatusCode::kNotFound) << said.status();
}

/// Readers that are killed at any moment, also between the parts of a command, leave a heap that serves the next one.
TEST_F(live_heaps, outlive_killed_readers) {
    child_process owner([](const auto& ready) { return own_heaps(1, ready); });
    ASSERT_TRUE(owner.is_ready());
    const auto name = pages_of(owner.pid()).front();
    for (int i = 0; i < 20; ++i) {
        child_process reader([&](const auto& ready) {
            auto from = live_reader::open(name);
            for (bool first = true; from.ok(); first = false) {
                from->watch();
                if (!from->read().ok() || !from->send(command::reserve, 4 << 20, "", absl::Seconds(60)).ok()) {
                    return 1;
                }
                if (first) {
                    ready();
                }
            }
            return 2;
        });
        ASSERT_TRUE(reader.is_ready());
        absl::SleepFor(absl::Milliseconds(7 * i));
        EXPECT_EQ(reader.kill(SIGKILL), 255);
    }
    auto last = live_reader::open(name);
    ASSERT_TRUE(last.ok()) << last.status();
    const auto said = last->send(command::trim, 0, "", absl::Seconds(60));
    EXPECT_TRUE(said.ok()) << said.status();
    EXPECT_EQ(owner.kill(SIGTERM), 0);
}

/// Reads the page in a process of its own, which then ends by itself, or stays attached until it is killed.
int attach(const live::page_name& name, bool stays, const std::function<void()>& ready) {
    auto from = live_reader::open(name);
    if (!from.ok()) {
        return 1;
    }
    from->watch();
    if (const auto s = from->read(); !s.ok() || s->number("capacity_bytes") != small_heap().capacity) {
        return 2;
    }
    ready();
    while (stays) {
        ::pause();
    }
    return 0;
}

/// Ten processes are attached at once, ten times. Every other one of them is killed while it is attached.
TEST_F(live_heaps, are_attached_to_and_left_by_a_hundred_processes) {
    child_process owner([](const auto& ready) { return own_heaps(1, ready); });
    ASSERT_TRUE(owner.is_ready());
    const auto name = pages_of(owner.pid()).front();
    for (int batch = 0; batch < 10; ++batch) {
        std::vector<std::unique_ptr<child_process>> readers;
        for (int i = 0; i < 10; ++i) {
            const bool stays = i % 2 == 0;
            readers.push_back(std::make_unique<child_process>(
                [&name, stays](const auto& ready) { return attach(name, stays, ready); }));
            ASSERT_TRUE(readers.back()->is_ready());
        }
        for (int i = 0; i < 10; ++i) {
            EXPECT_EQ(i % 2 == 0 ? readers[i]->kill(SIGKILL) : readers[i]->wait(), i % 2 == 0 ? 255 : 0);
        }
    }
    auto last = live_reader::open(name);
    ASSERT_TRUE(last.ok()) << last.status();
    const auto said = last->send(command::validate, 0, "", absl::Seconds(60));
    ASSERT_TRUE(said.ok()) << said.status();
    EXPECT_THAT(*said, HasSubstr("no fault found"));
    EXPECT_EQ(pages_of(owner.pid()).size(), 1u);
    EXPECT_EQ(owner.kill(SIGTERM), 0);
}

/// The exit of a process destroys no heap that a static object has, and removes its page all the same.
TEST_F(live_heaps, of_a_process_that_exits_leave_nothing) {
    child_process owner([](const auto& ready) {
        auto made = heap::create(small_heap());
        if (!made.ok()) {
            return 1;
        }
        static heap* const kept = new heap(*std::move(made));
        (void)kept;
        const bool there = pages_of(::getpid()).size() == 1;
        ready();
        ::fclose(stdout);  // what the test has printed so far
        ::exit(there ? 0 : 1);
    });
    ASSERT_TRUE(owner.is_ready());
    EXPECT_EQ(owner.wait(), 0);
    EXPECT_THAT(live::find_pages(), testing::Each(testing::Field(&live::page_name::pid, testing::Ne(owner.pid()))));
}

TEST_F(live_heaps, that_are_forked_keep_the_page_of_the_parent) {
    child_process owner([](const auto& ready) {
        auto made = heap::create(small_heap());
        if (!made.ok()) {
            return 1;
        }
        const pid_t child = ::fork();
        if (child == 0) {
            { const heap ended = *std::move(made); }
            ::_exit(0);
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        const int code = pages_of(::getpid()).size() == 1 && status == 0 ? 0 : 2;
        ready();
        return code;
    });
    EXPECT_EQ(owner.wait(), 0);
}

TEST_F(live_heaps, that_can_make_no_page_say_so_in_their_warnings) {
    const auto folder = [](pid_t pid, std::uint32_t n) { return "/dev/shm/" + live::page_name{pid, n}.text(); };
    constexpr std::uint32_t many = 500;
    child_process owner([&](const auto& ready) {
        ready();
        // Folders have the names that the page could have.
        for (std::uint32_t n = 0; n < many; ++n) {
            std::filesystem::create_directory(folder(::getpid(), n));
        }
        auto made = heap::create(small_heap());
        if (!made.ok()) {
            return 1;
        }
        const auto lines = made->warnings();
        return lines.size() == 1 && lines[0].find("live_page: /dev/shm/orchard.") == 0 && made->validate().ok() ? 0 : 2;
    });
    EXPECT_EQ(owner.wait(), 0);
    for (std::uint32_t n = 0; n < many; ++n) {
        std::filesystem::remove(folder(owner.pid(), n));
    }
}

TEST(show_stats, prints_them_when_the_heap_is_destroyed) {
    options o = small_heap();
    o.live_page = false;
    o.show_stats = true;
    testing::internal::CaptureStderr();
    {
        auto made = heap::create(o);
        ASSERT_TRUE(made.ok());
        (void)take(*made, 32, 64);
    }
    const std::string text = testing::internal::GetCapturedStderr();
    EXPECT_THAT(text, testing::ContainsRegex("orchard: statistics of heap [0-9]+:\nversion 2\n"));
    EXPECT_THAT(text, testing::ContainsRegex("pages_in_use +32 "));
}

constexpr std::uint32_t tag_of_trees = 4'000'000;

/// Each thread takes a block with the tag of a line, and one with a tag of a name, which every second thread frees.
struct take_tagged {
    heap_ref h;
    static constexpr int site_line = __LINE__ + 1;
    [[nodiscard]] ORCHARD_FN void* at_site() const { return h.malloc(3072, ORCHARD_SITE); }
    ORCHARD_FN void operator()(simt::thread_position at) const {
        (void)at_site();
        void* const tree = h.malloc(192, tag_of_trees);
        if (at.thread % 2 == 0) {
            h.free(tree);
        }
    }
};

TEST(show_stats, prints_the_blocks_that_were_not_freed_by_tag_if_the_heap_counts_them) {
    options o = small_heap();
    o.live_page = false;
    o.show_stats = true;
    o.sites = true;
    name_tag(tag_of_trees, "trees");
    testing::internal::CaptureStderr();
    {
        auto made = heap::create(o);
        ASSERT_TRUE(made.ok());
        (void)take(*made, 32, 64);
        EXPECT_TRUE(simt::launch(made->executor(), simt::grid{1, 32}, take_tagged{made->ref()}).ok);
    }
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                testing::EndsWith(absl::StrCat("blocks that were not freed: 80, 101 KiB in all\n"
                                               "      96 KiB in        32 blocks, of 32 allocated: heap_test.cpp:",
                                               take_tagged::site_line,
                                               "\n"
                                               "       3 KiB in        16 blocks, of 32 allocated: trees\n"
                                               "       2 KiB in        32 blocks, of 32 allocated: no tag\n")));
}

TEST(verbose, prints_growth_and_shortages) {
    options o = small_heap();
    o.live_page = false;
    o.verbose = true;
    testing::internal::CaptureStderr();
    {
        auto made = heap::create(o);
        ASSERT_TRUE(made.ok());
        (void)take(*made, 64, 16 << 20);
    }
    const std::string text = testing::internal::GetCapturedStderr();
    EXPECT_THAT(text, testing::ContainsRegex(
                          "orchard: heap [0-9]+: growth: [0-9]+ MiB more, [0-9]+ MiB committed now, of 64 MiB"));
    EXPECT_THAT(text, testing::ContainsRegex("orchard: heap [0-9]+: shortage: a request of 16777216 bytes"));
}

TEST(verbose, is_silent_where_nothing_happens) {
    options o = small_heap();
    o.live_page = false;
    o.verbose = true;
    testing::internal::CaptureStderr();
    EXPECT_TRUE(heap::create(o).ok());
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace orchard
