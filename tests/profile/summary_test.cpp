// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "profiling/profile/summary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profiling/profile/report.hpp"
#include "runtime/heap/profiled_heap.hpp"
#include "tests/profile/records.hpp"

namespace orchard::profiling {
namespace {

using testing::HasSubstr;
using testing::Not;

recorded_process a_process() {
    recorded_process p;
    p.pid = 7;
    p.names = {"_Z4walkPi", "_ZN7orchard6device5drainEv"};
    p.end.emplace();
    return p;
}

TEST(profile_kernels, are_summed_by_name) {
    recorded_process p = a_process();
    p.kernels = {test::kernel(0, 100, 110), test::kernel(1, 0, 1000),    test::kernel(0, 200, 230),
                 test::kernel(0, 300, 320), test::kernel(1, 50, 150, 2), test::kernel(0, 400, 440)};
    const summary all = summarise(std::vector{p});
    ASSERT_EQ(all.kernels.size(), 2u);
    for (const kernel_row& row : all.kernels) {
        EXPECT_EQ(row.total_ns, 100u);
        if (row.name == "walk(int*)") {
            EXPECT_EQ(row.launches, 4u);
            EXPECT_EQ(row.least_ns, 10u);
            EXPECT_EQ(row.median_ns, 20u);
            EXPECT_EQ(row.most_ns, 40u);
            EXPECT_TRUE(row.same_shape);
        } else {
            EXPECT_EQ(row.without_time, 1u);
            EXPECT_EQ(row.median_ns, 100u);
            EXPECT_FALSE(row.same_shape);
        }
    }
}

TEST(profile_kernels, of_several_processes_are_one) {
    recorded_process p = a_process();
    p.kernels = {test::kernel(0, 100, 110)};
    recorded_process q = a_process();
    q.names = {"other", "_Z4walkPi"};
    q.kernels = {test::kernel(1, 100, 130)};
    const summary all = summarise(std::vector{p, q});
    ASSERT_EQ(all.kernels.size(), 1u);
    EXPECT_EQ(all.kernels[0].launches, 2u);
    EXPECT_EQ(all.kernels[0].total_ns, 40u);
}

TEST(profile_unified, is_summed_by_kind_and_cause) {
    recorded_process p = a_process();
    p.unified = {test::unified(unified_kind::to_device, 1, 0, 4096, 2),
                 test::unified(unified_kind::to_device, 2, 8192, 8192, 2),
                 test::unified(unified_kind::to_device, 3, 65536, 16384, 3),
                 test::unified(unified_kind::to_host, 4, 0, 4096, 4),
                 test::unified(unified_kind::device_fault, 5, 0, 3, 2),
                 test::unified(unified_kind::device_fault, 6, 0, 4, 2),
                 test::unified(unified_kind::host_fault, 7, 0, 0xdeadbeef, 0),
                 test::unified(unified_kind::thrashing, 8, 0, 2048, 0),
                 test::unified(unified_kind::to_device, 9, 1u << 20, 4096, 77)};
    const summary all = summarise(std::vector{p});
    const auto row = [&](unified_kind kind, const std::string& cause) {
        for (const unified_row& r : all.unified) {
            if (r.kind == kind && r.cause == cause) {
                return r;
            }
        }
        return unified_row{};
    };
    EXPECT_EQ(row(unified_kind::to_device, "demand").bytes, 12288u);
    EXPECT_EQ(row(unified_kind::to_device, "demand").records, 2u);
    EXPECT_EQ(row(unified_kind::to_device, "demand").time_ns, 10u);
    EXPECT_EQ(row(unified_kind::to_device, "prefetch").bytes, 16384u);
    EXPECT_EQ(row(unified_kind::to_device, "cause 77").bytes, 4096u);
    EXPECT_EQ(row(unified_kind::to_host, "eviction").bytes, 4096u);
    EXPECT_EQ(row(unified_kind::device_fault, "write").groups, 7u);
    EXPECT_EQ(row(unified_kind::device_fault, "write").bytes, 0u);
    EXPECT_EQ(row(unified_kind::host_fault, "").records, 1u);
    EXPECT_EQ(row(unified_kind::host_fault, "").bytes, 0u);  // the value is where the program was
    EXPECT_EQ(row(unified_kind::thrashing, "").bytes, 2048u);
    EXPECT_EQ(all.bytes(unified_kind::to_device), 32768u);
}

TEST(profile_owners, join_records_with_segments) {
    constexpr std::uint64_t segment = 2u << 20;
    constexpr std::uint64_t base = 64 * segment;
    recorded_process p = a_process();
    recorded_heap heap;
    heap.about = {base, 4 * segment, 10, 0, segment};
    heap.closed_ns = 1000;
    heap.owners = {segment_owner::first_slab + 3, segment_owner::chunk, segment_owner::freed, segment_owner::unused};
    p.heaps = {heap};
    p.unified = {test::unified(unified_kind::to_device, 20, base + 4096, 4096),
                 test::unified(unified_kind::to_host, 30, base + 4096, 4096, 4),
                 test::unified(unified_kind::to_device, 40, base + segment, 65536),
                 test::unified(unified_kind::device_fault, 40, base + segment, 2),
                 test::unified(unified_kind::to_device, 50, base + 2 * segment, 8192),
                 test::unified(unified_kind::to_device, 60, base - 4096, 4096),
                 test::unified(unified_kind::to_device, 60, base + 4 * segment, 4096)};
    const summary all = summarise(std::vector{p});
    const auto row = [&](const std::string& owner) {
        for (const owner_row& r : all.owners) {
            if (r.owner == owner) {
                return r;
            }
        }
        ADD_FAILURE() << owner;
        return owner_row{};
    };
    EXPECT_EQ(row("heap 0: pages of 64 B").to_device_bytes, 4096u);
    EXPECT_EQ(row("heap 0: pages of 64 B").evicted_bytes, 4096u);
    EXPECT_EQ(row("heap 0: chunks").to_device_bytes, 65536u);
    EXPECT_EQ(row("heap 0: chunks").device_fault_groups, 2u);
    EXPECT_EQ(row("heap 0: segments free at the end").to_device_bytes, 8192u);
    EXPECT_EQ(row("no heap of Orchard").to_device_bytes, 8192u);
    EXPECT_EQ(all.owners.size(), 4u);
    EXPECT_EQ(all.owners[0].owner, "heap 0: chunks");  // the most bytes first
}

TEST(profile_owners, take_the_heap_of_that_time) {
    recorded_process p = a_process();
    recorded_heap first;
    first.about = {0x200000, 0x200000, 10, 0, 0x200000};
    first.closed_ns = 100;
    first.owners = {segment_owner::chunk};
    recorded_heap second;
    second.about = {0x200000, 0x200000, 200, 1, 0x200000};
    p.heaps = {first, second};
    p.unified = {test::unified(unified_kind::to_device, 50, 0x200000, 4096),
                 test::unified(unified_kind::to_device, 250, 0x210000, 8192),
                 test::unified(unified_kind::to_device, 150, 0x220000, 16384)};
    const summary all = summarise(std::vector{p});
    ASSERT_EQ(all.owners.size(), 2u);
    EXPECT_EQ(all.owners[0].owner, "heap 1: use not known");
    EXPECT_EQ(all.owners[0].to_device_bytes, 8192u + 16384u);  // between the heaps: the later one
    EXPECT_EQ(all.owners[1].owner, "heap 0: chunks");
}

TEST(page_ledger, finds_missing_ways) {
    using enum unified_kind;
    const auto check = [](const std::vector<unified_record>& records) { return check_pages(records); };
    EXPECT_EQ(check({test::unified(to_device, 1, 0, 8192), test::unified(to_host, 2, 0, 8192),
                     test::unified(to_device, 3, 0, 8192)})
                  .missing_to_host,
              0u);
    const ledger_findings back =
        check({test::unified(to_device, 1, 0x1ff000, 8192), test::unified(to_host, 2, 0x1ff000, 4096),
               test::unified(to_device, 3, 0x1ff000, 8192)});
    EXPECT_EQ(back.missing_to_host, 4096u);  // of the second page, in the next VA block
    EXPECT_EQ(back.missing_to_device, 0u);
    EXPECT_EQ(back.on_device_at_end, 8192u);
    EXPECT_EQ(check({test::unified(to_host, 1, 0, 4096), test::unified(to_host, 2, 0, 4096)}).missing_to_device, 4096u);
    // By time, whatever the order of records.
    EXPECT_EQ(check({test::unified(to_device, 1, 0, 4096), test::unified(to_device, 3, 0, 4096),
                     test::unified(to_host, 2, 0, 4096)})
                  .missing_to_host,
              0u);
    EXPECT_EQ(check({test::unified(to_device, 1, 0, ~0ull), test::unified(to_device, 1, ~0ull, 4096)}).not_checked, 2u);
}

TEST(is_allocator, looks_at_the_function_and_not_at_its_parameters) {
    EXPECT_TRUE(is_allocator("orchard::device::small_alloc(orchard::device::heap_view const&)"));
    EXPECT_TRUE(is_allocator("unsigned int orchard::device::search<orchard::device::heap_view>(int)"));
    EXPECT_TRUE(is_allocator("orchard_malloc"));
    EXPECT_TRUE(is_allocator("malloc"));
    EXPECT_TRUE(is_allocator("operator new(unsigned long)"));
    EXPECT_FALSE(is_allocator("make_lists(orchard::heap_ref)"));
    EXPECT_FALSE(is_allocator("void run<orchard::device::heap_view>(orchard::device::heap_view)"));
    EXPECT_FALSE(is_allocator("orchard::bench::kernel(int)"));
    EXPECT_FALSE(is_allocator("(anonymous namespace)::walk(orchard::device::heap_view)"));
    EXPECT_TRUE(is_allocator("orchard::device::(anonymous namespace)::step(int)"));
    EXPECT_FALSE(is_allocator(""));
}

TEST(readable_name, shows_nothing_that_a_terminal_obeys) {
    EXPECT_EQ(readable_name("_Z4walkPi"), "walk(int*)");
    EXPECT_EQ(readable_name("a\x1b[2J\n"), "a?[2J?");
    EXPECT_EQ(readable_name("_Zno"), "_Zno");
}

TEST(profile_report, says_what_is_missing) {
    recorded_process p = a_process();
    p.end->dropped = 7;
    p.end->left_out = 8;
    p.end->unread_bytes = 9;
    p.unified = {test::unified(unified_kind::to_device, 1, 0, 1u << 20),
                 test::unified(unified_kind::to_device, 2, 0, 1u << 20)};
    recorded_process killed = a_process();
    killed.end.reset();
    const summary all = summarise(std::vector{p, killed});
    EXPECT_TRUE(all.has_loss());
    const std::string text = to_text(all, {"a program", 3, false, 20});
    EXPECT_THAT(text, HasSubstr("a program: exit code 3; 2 processes with CUDA"));
    EXPECT_THAT(text, HasSubstr("CUPTI has dropped 7 records"));
    EXPECT_THAT(text, HasSubstr("8 records are beyond --limit"));
    EXPECT_THAT(text, HasSubstr("9 bytes of CUPTI's buffers"));
    EXPECT_THAT(text, HasSubstr("1 of 2 processes did not end by exit"));
    EXPECT_THAT(text, HasSubstr("1.000 MiB came to the device twice"));
    EXPECT_THAT(text, HasSubstr("lower bound"));
    const auto json = to_json(all, {});
    EXPECT_EQ(json["loss"]["missing_to_host_bytes"], 1u << 20);
    EXPECT_EQ(json["loss"]["text"].size(), 5u);
    EXPECT_TRUE(json["loss"]["known"].get<bool>());
}

TEST(profile_report, without_loss_says_nothing_of_it) {
    recorded_process p = a_process();
    p.kernels = {test::kernel(0, 100, 110)};
    const summary all = summarise(std::vector{p});
    EXPECT_FALSE(all.has_loss());
    const std::string text = to_text(all, {});
    EXPECT_THAT(text, Not(HasSubstr("lost")));
    EXPECT_THAT(text, Not(HasSubstr("unified")));
    EXPECT_THAT(text, HasSubstr("walk(int*)"));
}

TEST(profile_report, sums_the_rows_that_it_does_not_show) {
    recorded_process p = a_process();
    p.names = {"a", "b", "c"};
    p.kernels = {test::kernel(0, 1, 1001), test::kernel(1, 1, 501), test::kernel(2, 1, 101)};
    const std::string text = to_text(summarise(std::vector{p}), {"", 0, false, 1});
    EXPECT_THAT(text, HasSubstr("2 other kernels"));
    EXPECT_THAT(text, Not(HasSubstr("  b\n")));
}

TEST(profile_report, leaves_out_what_says_nothing_of_a_kernel) {
    recorded_process p = a_process();
    p.names = {"void orchard::simt::detail::plain_entry<my::walk>(my::walk)", "void f(int*)",
               "void orchard::simt::detail::bounded_entry<a::insert<b::ref> >(a::insert<b::ref>)"};
    p.kernels = {test::kernel(0, 1, 1001), test::kernel(1, 1, 501), test::kernel(2, 1, 201)};
    const std::string text = to_text(summarise(std::vector{p}), {"", 0, false, 20});
    EXPECT_THAT(text, HasSubstr("  my::walk\n"));
    EXPECT_THAT(text, HasSubstr("  a::insert<b::ref>\n"));
    EXPECT_THAT(text, HasSubstr("  f(int*)\n"));
}

TEST(profile_report, shows_time_in_the_allocator) {
    recorded_process p = a_process();
    p.samples = {{70, 0, 0}, {30, 1, 0}};
    const summary all = summarise(std::vector{p});
    EXPECT_EQ(all.allocator_samples(), 30u);
    EXPECT_THAT(to_text(all, {"", 0, true, 20}), HasSubstr("functions of the allocator: 30.0 % of 100 samples"));
    EXPECT_THAT(to_text(summarise({}), {"", 0, true, 20}), HasSubstr("not available here; use ncu"));
}

}  // namespace
}  // namespace orchard::profiling
