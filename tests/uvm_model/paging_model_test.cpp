// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Runs: the order of faults, the faults that a batch takes (F1 to F4), and the cost of a batch.

#include "uvm/model/paging_model.hpp"

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

TEST(paging_model, nothing_costs_nothing) {
    paging_model model = model_of(segment_bytes);
    listed_source none(segment_bytes, {});
    listed_source ended(segment_bytes, {{}, {}, {}});
    EXPECT_EQ(run(model, none), result{});
    EXPECT_EQ(run(model, ended), result{});
}

// docs/uvm.md, section 1, consequence 2, through the whole model.
TEST(paging_model, there_is_no_cascade) {
    paging_model model = model_of(segment_bytes);
    ASSERT_TRUE(model.populate({0, segment_bytes}, processor::cpu).ok());
    listed_source source = one_lane(segment_bytes, {1 * big_page_bytes, 3 * big_page_bytes, 4 * big_page_bytes, 0,
                                                    2 * big_page_bytes, 5 * big_page_bytes});
    const result r = run(model, source);
    EXPECT_EQ(r.accesses, 6u);
    EXPECT_EQ(r.hits, 1u) << "leaf 2 alone";
    EXPECT_EQ(r.raw_faults, 5u);
    EXPECT_EQ(r.batches, 5u);
    EXPECT_EQ(r.resident_pages, 8u * 16) << "the fault on 5 fills {0..7}";
}

TEST(paging_model, a_second_run_finds_what_the_first_brought) {
    paging_model model = model_of(segment_bytes);
    ASSERT_TRUE(model.populate({0, segment_bytes}, processor::cpu).ok());
    listed_source source = one_lane(segment_bytes, {0, 4096, 8192});
    const result first = run(model, source);
    EXPECT_EQ(first.hits, 2u);
    EXPECT_EQ(first.bytes_in(), 64u << 10);
    EXPECT_EQ(first.brought_used_pages, 3u);
    EXPECT_EQ(first.tree_pages, 15u);
    EXPECT_EQ(first.tree_used_pages, 2u);
    EXPECT_DOUBLE_EQ(first.useful_pages(), 3.0 / 16);
    EXPECT_DOUBLE_EQ(first.useful_big_pages(), 1.0);
    const result second = run(model, source);
    EXPECT_EQ(second.hits, 3u);
    EXPECT_EQ(second.bytes_in(), 0u);
    EXPECT_EQ(second.raw_faults, 0u);
    EXPECT_EQ(second.touched_pages, 3u);
    EXPECT_LT(second.seconds, first.seconds);
}

TEST(paging_model, a_step_is_one_raw_fault_for_each_distinct_page) {
    paging_model model = model_of(segment_bytes);
    // Lanes 0 to 7 on page 0, 8 to 15 on page 1, and so on.
    computed_source source(segment_bytes, 1, 1,
                           [](auto, auto, std::uint32_t lane) { return lane / 8 * os_page_bytes; });
    const result r = run(model, source);
    EXPECT_EQ(r.accesses, 32u);
    EXPECT_EQ(r.hits, 0u);
    EXPECT_EQ(r.raw_faults, 4u);
    EXPECT_EQ(r.distinct_faults, 4u);
    EXPECT_EQ(r.block_services, 1u);
}

// F1: duplicates of other warps take room in the batch.
TEST(paging_model, warps_that_miss_the_same_page_are_duplicates) {
    paging_model model = model_of(segment_bytes);
    computed_source source(segment_bytes, 100, 1, [](auto, auto, std::uint32_t) { return 0; });
    const result r = run(model, source);
    EXPECT_EQ(r.raw_faults, 100u);
    EXPECT_EQ(r.distinct_faults, 1u);
    EXPECT_EQ(r.batches, 1u);
}

TEST(paging_model, a_batch_has_at_most_256_raw_entries_and_the_rest_is_flushed_and_faults_again) {
    paging_model model = model_of(40 * segment_bytes);
    // 10 warps of 32 lanes, each lane another VA block's page: 320 entries, of 10 blocks of warps on 2 micro-TLBs.
    ASSERT_TRUE(model.populate({0, 40 * segment_bytes}, processor::cpu).ok());
    computed_source source(40 * segment_bytes, 10, 1, [](std::uint32_t warp, auto, std::uint32_t lane) {
        return lane * segment_bytes + warp * big_page_bytes * 2;
    });
    paging_model wide = model_of(40 * segment_bytes, std::nullopt, "titan_v utlb_faults=1000");
    ASSERT_TRUE(wide.populate({0, 40 * segment_bytes}, processor::cpu).ok());
    const result r = run(wide, source);
    EXPECT_EQ(r.batches, 2u);
    EXPECT_EQ(r.flushed_faults, 64u);
    EXPECT_EQ(r.raw_faults, 320u) << "256, and the 64 once more";
    EXPECT_EQ(r.distinct_faults, 320u);
    // Eight of the warps share a micro-TLB, which shows 56 of their 256 at once.
    EXPECT_EQ(run(model, source).batches, 5u);
}

TEST(paging_model, blocks_of_warps_are_spread_over_micro_tlbs) {
    computed_source source(64 * segment_bytes, 64, 1, [](std::uint32_t warp, auto, std::uint32_t lane) {
        return warp * segment_bytes + lane * big_page_bytes * 2 % segment_bytes;
    });
    paging_model one = model_of(64 * segment_bytes, std::nullopt, "titan_v utlbs=1");
    paging_model many = model_of(64 * segment_bytes);
    const result narrow = run(one, source);
    const result wide = run(many, source);
    EXPECT_EQ(narrow.batches, (64 * 16 + 55) / 56);
    EXPECT_LT(wide.batches, narrow.batches / 3);
}

TEST(paging_model, hits_go_on_while_others_wait) {
    // Warp 0 hits its page 2,000 times, 1.2 ms; warp 1 faults on a new big page each step. The hits fit into the
    // faults' time.
    const std::uint64_t bytes = 8 * segment_bytes;
    listed_source::steps hits(2'000, {{0, 0, access_kind::read}});
    listed_source::steps misses;
    for (std::uint64_t b = 0; b < 128; ++b) {
        misses.push_back({{segment_bytes + b * big_page_bytes * 7 % (7 * segment_bytes), 0, access_kind::read}});
    }
    listed_source both(bytes, {hits, misses});
    listed_source alone(bytes, {misses});
    paging_model model = model_of(bytes);
    paging_model other = model_of(bytes);
    EXPECT_LT(run(model, both).seconds, run(other, alone).seconds * 1.1);
}

TEST(paging_model, warps_go_into_slots_as_others_end) {
    // 3 warps on one slot: one after the other, so that each faults alone.
    computed_source source(3 * segment_bytes, 3, 1, [](std::uint32_t warp, auto, std::uint32_t lane) {
        return lane == 0 ? std::optional<std::uint64_t>(warp * segment_bytes) : std::nullopt;
    });
    paging_model narrow = model_of(3 * segment_bytes, std::nullopt, "titan_v sms=1 sm_warps=1");
    EXPECT_EQ(run(narrow, source).batches, 3u);
    paging_model wide = model_of(3 * segment_bytes);
    EXPECT_EQ(run(wide, source).batches, 1u);
}

TEST(paging_model, time_is_the_sum_of_what_happened) {
    const calibration c = parse_calibration(
                              "titan_v batch_ns=1000 block_ns=100 page_ns=10 copy_ns=1 wake_ns=5000 fault_ns=0 "
                              "fault_gap_ns=0 step_ns=50 refetch_ns=0 in_bytes_per_s=4096e9")
                              .value();
    paging_model model = *paging_model::create({.bytes = segment_bytes, .machine = c});
    ASSERT_TRUE(model.populate({0, segment_bytes}, processor::cpu).ok());
    listed_source source = one_lane(segment_bytes, {0, 0});
    // wake, batch, block, one page, one copy, 16 pages at 1 ns, the step itself and the hit
    EXPECT_NEAR(run(model, source).seconds, 1e-9 * (5000 + 1000 + 100 + 10 + 1 + 16 + 50 + 50), 1e-12);
}

TEST(paging_model, the_driver_looks_again_after_a_replay_before_it_sleeps) {
    // Two pages that the micro-TLB shows one after the other: the driver wakes once.
    const calibration c = parse_calibration(
                              "titan_v batch_ns=1000 block_ns=0 page_ns=0 wake_ns=5000 refetch_ns=70 fault_ns=7 "
                              "fault_gap_ns=0 step_ns=50 in_bytes_per_s=1e15 utlb_faults=1")
                              .value();
    paging_model model = *paging_model::create({.bytes = 2 * segment_bytes, .machine = c});
    computed_source source(2 * segment_bytes, 1, 1,
                           [](auto, auto, std::uint32_t lane) { return lane % 2 * segment_bytes; });
    const result r = run(model, source);
    EXPECT_EQ(r.batches, 2u);
    EXPECT_NEAR(r.seconds, 1e-9 * (7 + 5000 + 1000 + 70 + 1000 + 50), 1e-12);
}

// F4: faults that arrive during a service remain, unless more than half of the batch were duplicates.
TEST(paging_model, many_duplicates_make_the_flush_take_what_came_meanwhile) {
    for (const bool same : {true, false}) {
        paging_model model = model_of(4 * segment_bytes);
        ASSERT_TRUE(model.populate({segment_bytes, segment_bytes}, processor::gpu).ok());
        std::vector<listed_source::steps> warps;
        for (std::uint64_t w = 0; w < 8; ++w) {
            warps.push_back({{{same ? 0 : w * big_page_bytes, 0, access_kind::read}}});
        }
        // 30 us of hits, so that this warp faults while the driver serves the others.
        listed_source::steps late(50, {{segment_bytes, 0, access_kind::read}});
        late.push_back({{2 * segment_bytes, 0, access_kind::read}});
        warps.push_back(late);
        listed_source source(4 * segment_bytes, warps);
        const result r = run(model, source);
        EXPECT_EQ(r.flushed_faults, same ? 1u : 0u);
        EXPECT_EQ(r.batches, 2u);
    }
}

TEST(paging_model, prefetch_counts_its_time_towards_the_next_run) {
    paging_model model = model_of(64 * segment_bytes);
    ASSERT_TRUE(model.populate({0, 64 * segment_bytes}, processor::cpu).ok());
    ASSERT_TRUE(model.prefetch({0, 64 * segment_bytes}, processor::gpu).ok());
    listed_source source = one_lane(segment_bytes, {0});
    const result r = run(model, source);
    EXPECT_EQ(r.bytes_in(), 64 * segment_bytes);
    EXPECT_EQ(r.explicit_pages, 64u * 512);
    EXPECT_GT(r.seconds, 64.0 * segment_bytes / model.machine().in_bytes_per_s);
    EXPECT_LT(run(model, source).seconds, 1e-6);
}

TEST(paging_model, remote_accesses_share_the_way_to_the_host) {
    const auto remote = [](std::uint32_t warps) {
        paging_model model = model_of(64 * mib);
        EXPECT_TRUE(model.populate({0, 64 * mib}, processor::cpu).ok());
        EXPECT_TRUE(model.advise({0, 64 * mib}, advice::accessed_by).ok());
        computed_source source(64 * mib, warps, 100, [](std::uint32_t warp, std::uint64_t step, std::uint32_t lane) {
            return (warp * 3200 + step * 32 + lane) * 32 % (64 * mib);
        });
        return run(model, source);
    };
    const result few = remote(1);
    const result many = remote(2000);
    const calibration c = *calibration_of("titan_v");
    EXPECT_NEAR(few.seconds, 100e-9 * c.remote_ns, 30e-6) << "latency";
    EXPECT_NEAR(many.seconds, static_cast<double>(many.remote_bytes) / c.remote_bytes_per_s, many.seconds * 0.2);
}

TEST(paging_model, oversubscription_evicts_and_still_ends) {
    // Every step of a warp needs 32 VA blocks; there is one chunk.
    paging_model model = model_of(32 * segment_bytes, 1);
    computed_source source(
        32 * segment_bytes, 4, 3,
        [](std::uint32_t warp, std::uint64_t step, std::uint32_t lane) {
            return lane * segment_bytes + (warp + step) * big_page_bytes;
        },
        access_kind::write);
    const result r = run(model, source);
    EXPECT_EQ(r.accesses, 4u * 3 * 32);
    EXPECT_EQ(r.peak_active_blocks, 1u);
    EXPECT_GT(r.evictions, 31u);
    EXPECT_GT(r.bytes_out(), 0u);
}

// E2: a block that always hits is evicted before one that faults.
TEST(paging_model, hits_do_not_make_memory_young) {
    std::vector<std::uint64_t> addresses = {0};
    for (std::uint64_t i = 0; i < 20; ++i) {
        addresses.push_back(0);  // hot, and always a hit until it is evicted
        addresses.push_back(segment_bytes + i * 2 * big_page_bytes % segment_bytes);  // serviced again and again
    }
    addresses.push_back(2 * segment_bytes);
    addresses.push_back(segment_bytes);
    addresses.push_back(0);
    paging_model model = model_of(3 * segment_bytes, 2);
    listed_source source = one_lane(3 * segment_bytes, addresses);
    const result r = run(model, source);
    EXPECT_EQ(r.evictions, 2u) << "segment 0 for 2, and the next oldest when 0 comes again";
    EXPECT_FALSE(testing::on_gpu(model.space(), 0).empty());
}

TEST(paging_model, what_cannot_be_is_refused) {
    const calibration c = *calibration_of("h200");
    for (const configuration& bad :
         {configuration{.bytes = 0, .machine = c}, configuration{.bytes = 100, .machine = c},
          configuration{.bytes = std::uint64_t{1} << 60, .machine = c},
          configuration{.bytes = mib, .capacity = 0, .machine = c},
          configuration{.bytes = mib, .capacity = 3 * mib, .machine = c}, configuration{.bytes = mib, .machine = {}}}) {
        const absl::StatusOr<paging_model> model = paging_model::create(bad);
        ASSERT_FALSE(model.ok()) << bad.bytes;
        EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument) << model.status();
    }
    paging_model model = model_of(segment_bytes);
    listed_source large = one_lane(2 * segment_bytes, {0});
    EXPECT_EQ(model.run(large).status().code(), absl::StatusCode::kInvalidArgument);
    listed_source outside = one_lane(segment_bytes, {0, segment_bytes});
    const absl::Status status = model.run(outside).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(status.message()).find("2097152"), std::string::npos) << status;
    EXPECT_TRUE(model.validate().ok()) << model.validate();
}

TEST(paging_model, the_text_of_a_result_has_every_count) {
    paging_model model = model_of(segment_bytes);
    listed_source source = one_lane(segment_bytes, {0, 4096});
    const std::string text = to_text(run(model, source));
    for (const char* line : {"accesses=2\n", "hits=1\n", "raw_faults=1\n", "populated_pages=16\n", "bytes_in=0\n",
                             "useful_pages=0.125000\n", "touched_blocks=1\n", "seconds="}) {
        EXPECT_NE(text.find(line), std::string::npos) << line << text;
    }
}

}  // namespace
}  // namespace orchard::uvm_model
