// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A study is the product of its lists, and each cell equals the model's result for that cell alone.

#include "profiling/uvm/study.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "profiling/uvm/study_report.hpp"
#include "runtime/cli/output_file.hpp"
#include "uvm/model/patterns.hpp"
#include "uvm/model/trace_file.hpp"

namespace orchard::uvm_study {
namespace {

study small_study() {
    study s;
    s.patterns = {"same-index"};
    s.threads = 128;
    s.bytes_per_thread = 256 << 10;
    s.accesses = 20;
    s.machine = *uvm_model::calibration_of("h200");
    return s;
}

TEST(uvm_study, layouts_are_read_as_they_are_written) {
    for (const char* text : {"linear", "sync_malloc", "interleaved:4K", "interleaved:64K", "interleaved:16",
                             "interleaved:4K:prefetch_first"}) {
        const auto a = parse_arrangement(text);
        ASSERT_TRUE(a.ok()) << a.status();
        EXPECT_EQ(text_of(*a), text);
    }
    EXPECT_EQ(*parse_arrangement("interleaved:4KiB"), *parse_arrangement("interleaved:4K"));
    EXPECT_EQ(*parse_arrangement("interleaved:4KiB:ascending"), *parse_arrangement("interleaved:4096"));
    for (const char* text :
         {"", "linear:4K", "interleaved", "interleaved:", "interleaved:3000", "interleaved:1MiB",
          "interleaved:4K:descending", "interleaved:4K:ascending:x", "automatic", "sync_malloc:4K"}) {
        const auto s = parse_arrangement(text).status();
        EXPECT_TRUE(absl::IsInvalidArgument(s)) << text;
        EXPECT_NE(s.message().find("give linear, or interleaved:TILE"), absl::string_view::npos) << s;
    }
}

TEST(uvm_study, capacities_are_read_as_they_are_written) {
    for (const char* text : {"50%", "12.5%", "200%", "4 GiB", "unlimited"}) {
        const auto c = parse_capacity(text);
        ASSERT_TRUE(c.ok()) << c.status();
        EXPECT_EQ(text_of(*c), text);
    }
    for (const char* text : {"", "0%", "-5%", "x%", "nan%", "1MiB", "4G"}) {
        EXPECT_TRUE(absl::IsInvalidArgument(parse_capacity(text).status())) << text;
    }
}

TEST(uvm_study, is_the_product_of_all_lists) {
    study s = small_study();
    s.patterns = {"same-index", "sequential"};
    s.layouts = {*parse_arrangement("linear"), *parse_arrangement("interleaved:64K"),
                 *parse_arrangement("interleaved:4K")};
    s.placements = {portion_policy::packed, portion_policy::padded};
    s.capacities = {*parse_capacity("unlimited"), *parse_capacity("50%")};
    std::size_t told = 0;
    const auto cells = run(s, [&](std::size_t done, std::size_t all) {
        EXPECT_EQ(done, told++);
        EXPECT_EQ(all, 24u);
    });
    ASSERT_TRUE(cells.ok()) << cells.status();
    ASSERT_EQ(cells->size(), 24u);
    EXPECT_EQ(told, 24u);
    for (const outcome& o : *cells) {
        EXPECT_EQ(o.counts.accesses, s.threads * s.accesses) << o.source << o.how;
        EXPECT_EQ(o.bytes, s.threads * s.bytes_per_thread);
        EXPECT_EQ(o.capacity, o.memory == "unlimited" ? 0 : o.bytes / 2);
        EXPECT_GT(o.counts.bytes_in(), 0u) << "all of it was on the CPU";
        EXPECT_EQ(o.counts.evictions == 0, o.memory == "unlimited" || o.counts.chunks_used * segment_bytes < o.capacity)
            << o.source << " " << o.how << " " << o.memory;
    }
    // One cell alone has the same result.
    s.patterns = {"sequential"};
    s.layouts = {*parse_arrangement("interleaved:4K")};
    s.placements = {portion_policy::padded};
    s.capacities = {*parse_capacity("50%")};
    const auto one = run(s);
    ASSERT_TRUE(one.ok());
    EXPECT_EQ(one->front().counts, cells->back().counts);
}

TEST(uvm_study, runs_each_policy_and_names_it) {
    study s = small_study();
    s.patterns = {"random"};
    s.capacities = {*parse_capacity("unlimited"), *parse_capacity("25%")};
    s.policies.clear();
    for (const auto& p : uvm_model::paging_policies()) {
        s.policies.push_back(*uvm_model::paging_policy_named(p.name));
    }
    const auto cells = run(s);
    ASSERT_TRUE(cells.ok()) << cells.status();
    ASSERT_EQ(cells->size(), 8u);
    const auto count = [&](std::size_t i) { return (*cells)[i].counts; };
    for (std::size_t i = 0; i < 8; ++i) {
        EXPECT_EQ((*cells)[i].policy, uvm_model::paging_policies()[i % 4].name);
        EXPECT_EQ((*cells)[i].memory, i < 4 ? "unlimited" : "25%");
        EXPECT_EQ(count(i).accesses, s.threads * s.accesses);
    }
    // Memory that fits: the same pages move, and remote access never pays. Compression saves time, watching costs it.
    EXPECT_EQ(count(3), count(0));
    EXPECT_EQ(count(1).bytes_in(), count(0).bytes_in());
    EXPECT_LT(count(1).seconds, count(0).seconds);
    EXPECT_EQ(count(2).bytes_in(), count(0).bytes_in());
    EXPECT_GT(count(2).seconds, count(0).seconds);
    // Memory that does not: each does what it is made for.
    EXPECT_LT(count(5).seconds, count(4).seconds);
    EXPECT_LT(count(6).prefetched_pages, count(4).prefetched_pages);
    EXPECT_GT(count(7).remote_accesses, 0u);
    EXPECT_LT(count(7).evictions, count(4).evictions);
    EXPECT_EQ(uvm_model::paging_policy_named("none").status().code(), absl::StatusCode::kInvalidArgument);
}

// 68 KiB a thread: a warp's chunk is 2 MiB and a rest, which the service gives two VA blocks.
// Two warps, of whose connections each has 2 MiB and a rest: the rests share a VA block.
TEST(uvm_study, the_tails_of_an_application_may_be_pooled) {
    study s = small_study();
    s.patterns = {"alexnet"};
    s.layouts = {{layout::interleaved(tile::k64)}};
    s.threads = 64;
    s.scale = 33;  // 2 KiB of a lane each
    const auto adjacent = run(s);
    s.tails = tail_policy::pooled;
    const auto pooled = run(s);
    ASSERT_TRUE(adjacent.ok() && pooled.ok()) << adjacent.status() << pooled.status();
    EXPECT_EQ((*pooled)[0].counts.touched_blocks + 1, (*adjacent)[0].counts.touched_blocks);
}

TEST(uvm_study, sync_malloc_has_a_placement_of_its_own) {
    study s = small_study();
    s.patterns = {"sequential", "k-means"};
    s.bytes_per_thread = 68 << 10;
    s.element_bytes = 4096;
    s.accesses = 17;
    s.layouts = {*parse_arrangement("sync_malloc"), *parse_arrangement("linear")};
    s.placements = {portion_policy::padded, portion_policy::packed};
    const auto cells = run(s);
    ASSERT_TRUE(cells.ok()) << cells.status();
    ASSERT_EQ(cells->size(), 6u);
    EXPECT_EQ((*cells)[0].how, "sync_malloc");
    EXPECT_EQ((*cells)[0].placement, "first_fit");
    EXPECT_EQ((*cells)[1].placement, "padded");
    EXPECT_EQ((*cells)[0].counts.touched_blocks, 5u) << "8.5 MiB";
    EXPECT_EQ((*cells)[2].counts.touched_blocks, 8u);
    EXPECT_EQ((*cells)[3].source, "k-means");
    EXPECT_EQ((*cells)[3].counts.accesses, (*cells)[5].counts.accesses);
}

TEST(uvm_study, shows_what_layout_is_worth) {
    study s = small_study();
    s.bytes_per_thread = 4 << 20;
    s.accesses = 100;
    s.layouts = {*parse_arrangement("linear"), *parse_arrangement("interleaved:4K")};
    const auto cells = run(s);
    ASSERT_TRUE(cells.ok()) << cells.status();
    EXPECT_GT((*cells)[0].counts.bytes_in(), 5 * (*cells)[1].counts.bytes_in())
        << "lanes that share a sparse index: docs/uvm.md, section 5";
    EXPECT_GT((*cells)[1].counts.useful_pages(), 0.9);
}

TEST(uvm_study, names_the_fastest_of_each_pattern_and_capacity) {
    const auto cell = [](const char* source, const char* how, const char* memory, double seconds,
                         const char* policy = "driver") {
        outcome o;
        o.source = source;
        o.how = how;
        o.memory = memory;
        o.policy = policy;
        o.counts.seconds = seconds;
        return o;
    };
    const std::vector<outcome> best =
        fastest({cell("a", "linear", "50%", 3), cell("a", "linear", "unlimited", 2), cell("a", "tiles", "50%", 1),
                 cell("a", "tiles", "unlimited", 2), cell("b", "linear", "50%", 9),
                 cell("b", "linear", "50%", 1, "dynamic_act")});
    ASSERT_EQ(best.size(), 4u);
    EXPECT_EQ(best[0].how, "tiles");
    EXPECT_EQ(best[1].how, "linear") << "of equals the first";
    EXPECT_EQ(best[2].source, "b");
    EXPECT_EQ(best[3].policy, "dynamic_act");
}

TEST(uvm_study, runs_applications_and_traces) {
    study s = small_study();
    s.patterns = {"stencil"};
    s.threads = 64;
    const std::string file = testing::TempDir() + "/study_test.trace";
    uvm_model::pattern_parameters p;
    p.memory.threads = 64;
    p.accesses_per_thread = 10;
    const auto source = uvm_model::make_pattern(uvm_model::pattern::random, p);
    ASSERT_TRUE(source.ok()) << source.status();
    const auto recorded = uvm_model::trace::from(**source);
    ASSERT_TRUE(recorded.ok() && command_line::write_file(file, recorded->encoded()).ok());
    s.traces = {file};
    const auto cells = run(s);
    std::remove(file.c_str());
    ASSERT_TRUE(cells.ok()) << cells.status();
    ASSERT_EQ(cells->size(), 2u);
    EXPECT_EQ((*cells)[0].source, "stencil");
    EXPECT_GT((*cells)[0].counts.accesses, 0u);
    EXPECT_EQ((*cells)[1].how, "recorded");
    EXPECT_EQ((*cells)[1].counts.accesses, 640u);
}

TEST(uvm_study, says_what_it_cannot_run) {
    study s = small_study();
    s.patterns = {"backwards"};
    const auto unknown = run(s).status();
    EXPECT_TRUE(absl::IsInvalidArgument(unknown));
    EXPECT_NE(unknown.message().find("same-index"), absl::string_view::npos) << unknown;
    EXPECT_NE(unknown.message().find("gemm"), absl::string_view::npos) << unknown;
    s.patterns.clear();
    EXPECT_TRUE(absl::IsInvalidArgument(run(s).status()));
    s.traces = {"/nowhere/x.trace"};
    EXPECT_FALSE(run(s).ok());
}

TEST(uvm_study, is_reported_in_full) {
    const study s = small_study();
    const auto cells = run(s);
    ASSERT_TRUE(cells.ok());
    const std::string table = to_table(*cells);
    EXPECT_NE(table.find("same-index  linear"), std::string::npos) << table;
    const std::string json = json_of(s, *cells).dump();
    for (const char* key : {"\"policy\":\"driver\"", "\"faults\"", "\"batches\"", "\"bytes_in\"",
                            "\"useful_page_share\"", "\"useful_big_page_share\"", "\"prefetched_used_pages\"",
                            "\"peak_active_blocks\"", "\"evictions\"", "\"seconds\"", "batch_ns"}) {
        EXPECT_NE(json.find(key), std::string::npos) << key;
    }
}

}  // namespace
}  // namespace orchard::uvm_study
