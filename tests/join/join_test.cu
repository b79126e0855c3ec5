// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The join with every kind of memory, against a nested loop on the host.

#include <gmock/gmock.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "examples/join/join_run.hpp"
#include "examples/join/page_queue.cuh"
#include "runtime/heap/device_memory.hpp"
#include "tests/support/hardened_fixture.hpp"
#include "tests/support/run_command.hpp"

namespace orchard::examples {
namespace {

using simt::order;
using testing::HasSubstr;

join_options small(device_option device) {
    join_options o;
    o.tuples = 3000;
    o.repeats = 3;
    o.heap.device = device;
    o.heap.capacity = 64 << 20;
    o.heap.emulated_workers = 2;
    return o;
}

TEST(host_join, is_that_of_a_nested_loop) {
    const auto first = make_table(500, 1, 1);
    const auto second = make_table(500, 1, 2);
    join_totals right;
    std::uint64_t right_pages = 0;
    for (const join_tuple& s : second) {
        std::uint64_t mine = 0;
        for (const join_tuple& r : first) {
            if (r.key == s.key) {
                ++mine;
                right.sum += mix_result(r.payload, s.payload);
            }
        }
        right.matches += mine;
        right_pages += (mine + 1) / 2;
    }
    std::uint64_t pages = 0;
    EXPECT_EQ(join_on_host(first, second, 32, &pages), right);
    EXPECT_EQ(pages, right_pages);
    EXPECT_GT(right.matches, 300u);
}

class join : public test::on_each_device {};
INSTANTIATE_TEST_SUITE_P(all, join, testing::Values(device_option::emulated, device_option::cuda),
                         test::name_of_device);

TEST_P(join, has_the_same_result_wherever_its_pages_come_from) {
    command_line::progress bar(false);
    for (const std::uint64_t page_bytes : {32, 256}) {
        join_options o = small(GetParam());
        o.page_bytes = page_bytes;
        const auto first = make_table(o.tuples, 7, 1);
        const auto second = make_table(o.tuples, 7, 2);
        std::uint64_t pages = 0;
        const join_totals right = join_on_host(first, second, page_bytes, &pages);
        for (const std::string_view memory : join_memories()) {
            const auto run = run_join(memory, o, first, second, pages, bar);
            ASSERT_TRUE(run.ok()) << memory << ": " << run.status();
            EXPECT_EQ(run->totals, right) << memory;
            EXPECT_EQ(run->pages, pages) << memory;
            EXPECT_EQ(run->incomplete, 0u) << memory;
            EXPECT_TRUE(run->is_whole) << memory << ": " << run->fault;
            EXPECT_EQ(run->probe_us.size(), 3u);
        }
    }
}

TEST_P(join, says_how_many_tuples_found_no_page) {
    command_line::progress bar(false);
    const join_options o = small(GetParam());
    const auto first = make_table(o.tuples, 7, 1);
    const auto second = make_table(o.tuples, 7, 2);
    for (const std::string_view memory : {"direct", "queue"}) {
        const auto run = run_join(memory, o, first, second, 100, bar);
        ASSERT_TRUE(run.ok()) << run.status();
        EXPECT_NE(run->incomplete, 0u) << memory;
        EXPECT_EQ(run->pages, 100u) << memory;
    }
    EXPECT_TRUE(absl::IsInvalidArgument(run_join("other", o, first, second, 100, bar).status()));
}

/// Each thread takes pages, marks them as its own, and gives them back, many times.
struct take_and_give {
    page_queue queue;
    int rounds;
    simt::device_word<std::uint32_t>* owners;
    simt::device_word<std::uint32_t>* faults;
    simt::device_word<std::uint32_t>* taken;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto mine = static_cast<std::uint32_t>(at.global_thread()) + 1;
        for (int i = 0; i < rounds; ++i) {
            auto* const page = static_cast<char*>(queue.malloc(0));
            if (page == nullptr) {
                simt::pause(100);
                continue;
            }
            auto& owner = owners[static_cast<std::uint64_t>(page - queue.memory) / queue.page_bytes];
            std::uint32_t none = 0;
            faults->fetch_add<order::relaxed>(owner.compare_exchange<order::relaxed>(none, mine) ? 0 : 1);
            taken->fetch_add<order::relaxed>(1);
            owner.store<order::relaxed>(0);
            queue.free(page);
        }
    }
};

TEST_P(join, s_queue_gives_no_page_twice) {
    const auto device = choose_device(GetParam());
    simt::executor on;
    on.kind = device->kind;
    on.workers = 2;
    constexpr std::uint64_t pages = 50;
    constexpr std::uint64_t length = 64;
    auto memory = device_array<char>::create(on, pages * 64);
    auto ring = device_array<page_queue_entry>::create(on, length);
    auto counts = device_array<page_queue_counts>::create(on, 1);
    auto words = device_array<simt::device_word<std::uint32_t>>::create(on, pages + 2);
    ASSERT_TRUE(memory.ok() && ring.ok() && counts.ok() && words.ok());
    const page_queue queue{memory->data(), 64, length, ring->data(), counts->data()};
    ASSERT_TRUE(simt::launch(on, simt::grid_for(length), fill_page_queue{queue, pages}).ok);
    const auto ran =
        simt::launch(on, {4, 64}, take_and_give{queue, 50, words->data() + 2, words->data(), words->data() + 1});
    ASSERT_TRUE(ran.ok) << ran.error;
    std::uint32_t found[2];
    ASSERT_TRUE(copy_to_host(on, found, words->data(), sizeof(found)).ok());
    EXPECT_EQ(found[0], 0u);
    EXPECT_GT(found[1], 4u * 64);
}

TEST(join_command, compares_all_memories) {
    const auto [code, text] = test::run_emulated("join", {"--tuples", "2000", "--repeats", "2"});
    EXPECT_EQ(code, 0) << text;
    for (const std::string_view memory : join_memories()) {
        EXPECT_THAT(text, HasSubstr(absl::StrCat("passed  ", std::string(memory))));
    }
}

TEST(join_command, without_memory_is_one_error_with_the_tuples) {
    EXPECT_TRUE(check_join_memory(1000, simt::device_kind::cuda, 24'000).ok());
    EXPECT_TRUE(check_join_memory(1000, simt::device_kind::emulated, 60'000).ok());
    for (const auto& [device, bytes] :
         {std::pair{simt::device_kind::cuda, 23'999u}, std::pair{simt::device_kind::emulated, 59'999u}}) {
        const absl::Status s = check_join_memory(1000, device, bytes);
        EXPECT_EQ(s.code(), absl::StatusCode::kResourceExhausted);
        EXPECT_THAT(std::string(s.message()),
                    testing::AllOf(HasSubstr("--tuples 1000 needs"), HasSubstr("give fewer")));
    }
}

TEST(join_command, refuses_what_makes_no_sense) {
    test::expect_refused("join", {{"--memory", "other"},
                                  {"--page-bytes", "100"},
                                  {"--page-bytes", "16"},
                                  {"--tuples", "0"},
                                  {"--repeats", "0"}});
}

}  // namespace
}  // namespace orchard::examples
