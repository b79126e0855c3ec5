// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A range that is given memory piece by piece: within budgets, device first, and taken back without a trace.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/backing/elastic_fixture.hpp"

namespace orchard {
namespace {

using ElasticBackingDeathTest = ElasticBacking;

TEST_F(ElasticBacking, ReservesWholeSegmentsAndCommitsNothing) {
    auto made = make_elastic_backing(std::make_unique<fake_driver>(script), {5 * segment_bytes + 4097, 0, 0});
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ((*made)->segments(), 5u);
    EXPECT_EQ((*made)->committed_at_start(), 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>((*made)->base()) % segment_bytes, 0u);
    EXPECT_EQ((*made)->stream(), nullptr);
    EXPECT_TRUE((*made)->can_decommit());
    EXPECT_EQ(script->live(), (driver_live{1, 0, 0, 0, 0}));
}

TEST_F(ElasticBacking, ARangeThatNoHeapCanHaveIsRefused) {
    for (const std::uint64_t range :
         {std::uint64_t{0}, segment_bytes - 1, (std::uint64_t{max_segments} + 1) * segment_bytes}) {
        const auto made = make_elastic_backing(std::make_unique<fake_driver>(script), {range, 0, 0});
        ASSERT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument) << range;
        expect_text(made.status(), {std::to_string(range), std::to_string(max_segments * segment_bytes)});
    }
    script->fail(driver_call::reserve, absl::ResourceExhaustedError("no 2097152 bytes of addresses"));
    const auto made = make_elastic_backing(std::make_unique<fake_driver>(script), {segment_bytes, 0, 0});
    EXPECT_EQ(made.status(), absl::ResourceExhaustedError("no 2097152 bytes of addresses"));
    EXPECT_EQ(script->live(), driver_live{});
}

TEST_F(ElasticBacking, TakesTheDevicesMemoryFirstAndThenTheHosts) {
    const auto memory = make(4, 3);
    EXPECT_EQ(memory->commit(run_at(0, 3)).tier, memory_tier::device);
    const commit_outcome beyond = memory->commit(run_at(3, 2));
    ASSERT_TRUE(beyond.ok()) << beyond.status;
    EXPECT_EQ(beyond.tier, memory_tier::host) << "the device's budget has one segment left";
    EXPECT_EQ(memory->commit(run_at(5, 1)).tier, memory_tier::device) << "which is not lost";
    EXPECT_EQ(memory->commit(run_at(6, 1)).tier, memory_tier::host);
    const memory_use now = memory->use();
    EXPECT_EQ(now.device_bytes, 4 * segment_bytes);
    EXPECT_EQ(now.host_bytes, 3 * segment_bytes);
    EXPECT_EQ(now.device_budget, 4 * segment_bytes);
    EXPECT_EQ(now.host_budget, 3 * segment_bytes);
    EXPECT_EQ(script->live(), (driver_live{1, 4, 4, 4 * segment_bytes, 3 * segment_bytes}));
    std::memset(memory->base(), 0x5a, 7 * segment_bytes);
}

TEST_F(ElasticBacking, ASpentDeviceBudgetIsNamedWithItsNumbers) {
    const auto memory = make(2, 0);
    script->limit(memory_tier::device, 9 * segment_bytes);
    ASSERT_TRUE(memory->commit(run_at(0, 2)).ok());
    const commit_outcome refused = memory->commit(run_at(2, 3));
    EXPECT_EQ(refused.status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(refused.why, failure_reason::out_of_memory_device_budget);
    expect_text(refused.status, {"cannot commit 6291456 bytes", "device budget 4194304 of 4194304",
                                 "host budget 0 of 0", "larger device or host budget"});
    EXPECT_EQ(script->count(driver_call::create), 1u) << "nothing was tried";
    EXPECT_EQ(memory->use().device_bytes, 2 * segment_bytes);
}

TEST_F(ElasticBacking, ASpentHostBudgetIsNamedWithItsNumbers) {
    const auto memory = make(2, 1);
    ASSERT_TRUE(memory->commit(run_at(0, 2)).ok());
    ASSERT_TRUE(memory->commit(run_at(2, 1)).ok());
    const commit_outcome refused = memory->commit(run_at(3, 1));
    EXPECT_EQ(refused.status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(refused.why, failure_reason::out_of_memory_host_budget);
    expect_text(refused.status,
                {"2097152 bytes", "device budget 4194304 of 4194304", "host budget 2097152 of 2097152"});
}

TEST_F(ElasticBacking, ADeviceWithoutMemorySpillsWithinItsBudget) {
    const auto memory = make(8, 2);
    script->limit(memory_tier::device, 3 * segment_bytes);
    script->limit(memory_tier::host, segment_bytes);
    EXPECT_EQ(memory->commit(run_at(0, 3)).tier, memory_tier::device);
    EXPECT_EQ(memory->commit(run_at(3, 1)).tier, memory_tier::host);
    const commit_outcome refused = memory->commit(run_at(4, 1));
    EXPECT_EQ(refused.status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(refused.why, failure_reason::commit_failed);
    expect_text(refused.status, {"6291456 of 16777216", "the fake driver has no 2097152 bytes", "has 0 of 6291456"});
}

TEST_F(ElasticBacking, WhatTheDeviceHasInSmallerPiecesIsTakenBeforeTheHosts) {
    const auto memory = make(16, 8);
    script->limit(memory_tier::device, 3 * segment_bytes);
    const commit_outcome large = memory->commit(run_at(0, 4));
    EXPECT_EQ(large.why, failure_reason::commit_failed) << "the caller then tries a smaller one";
    EXPECT_EQ(large.status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(memory->commit(run_at(0, 2)).tier, memory_tier::device);
    EXPECT_EQ(memory->commit(run_at(2, 1)).tier, memory_tier::device);
    EXPECT_EQ(memory->commit(run_at(3, 1)).tier, memory_tier::host) << "not even one";
    const std::size_t before = script->count(driver_call::create);
    EXPECT_EQ(memory->commit(run_at(4, 4)).tier, memory_tier::host);
    EXPECT_EQ(script->count(driver_call::create), before + 1) << "the device was asked in vain again";
    ASSERT_TRUE(memory->decommit(run_at(0, 2)).ok());
    EXPECT_EQ(memory->commit(run_at(0, 2)).tier, memory_tier::device) << "there is some again";
}

TEST_F(ElasticBacking, WithoutAHostTierItsBudgetIsNone) {
    script->host_tier = false;
    const auto memory = make(1, 4);
    ASSERT_TRUE(memory->commit(run_at(0, 1)).ok());
    const commit_outcome refused = memory->commit(run_at(1, 1));
    EXPECT_EQ(refused.why, failure_reason::out_of_memory_device_budget);
    expect_text(refused.status, {"no host tier"});
}

TEST_F(ElasticBacking, WhatIsTakenBackCanBeCommittedAgain) {
    const auto memory = make(3, 2);
    ASSERT_TRUE(memory->commit(run_at(0, 3)).ok());
    ASSERT_TRUE(memory->commit(run_at(3, 2)).ok());
    ASSERT_TRUE(memory->decommit(run_at(0, 3)).ok());
    EXPECT_EQ(memory->use().device_bytes, 0u);
    EXPECT_EQ(memory->use().host_bytes, 2 * segment_bytes);
    EXPECT_EQ(script->live(), (driver_live{1, 1, 1, 0, 2 * segment_bytes}));
    ASSERT_TRUE(memory->decommit(run_at(3, 2)).ok());
    EXPECT_EQ(memory->use().host_bytes, 0u);
    const commit_outcome again = memory->commit(run_at(2, 3));
    ASSERT_TRUE(again.ok()) << again.status;
    EXPECT_EQ(again.tier, memory_tier::device);
    std::memset(memory->base() + 2 * segment_bytes, 1, 3 * segment_bytes);
}

TEST_F(ElasticBacking, OnlyWhatOneCommitGaveIsTakenBack) {
    const auto memory = make(8, 0);
    ASSERT_TRUE(memory->commit(run_at(2, 3)).ok());
    ASSERT_TRUE(memory->commit(run_at(5, 1)).ok());
    for (const segment_run run :
         {run_at(2, 2), run_at(3, 2), run_at(2, 4), run_at(0, 1), run_at(5, 0), segment_run{no_segment, 1}}) {
        const absl::Status status = memory->decommit(run);
        EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
        expect_text(status, {std::to_string(to_underlying(run.first)), std::to_string(run.count)});
    }
    EXPECT_EQ(memory->use().device_bytes, 4 * segment_bytes);
    script->fail(driver_call::unmap, absl::InternalError("busy"));
    EXPECT_EQ(memory->decommit(run_at(2, 3)), absl::InternalError("busy"));
    EXPECT_EQ(memory->use().device_bytes, 4 * segment_bytes) << "it is committed still";
    write_to(memory->base() + 2 * segment_bytes);
    EXPECT_TRUE(memory->decommit(run_at(2, 3)).ok());
}

TEST_F(ElasticBacking, WhatIsCommittedOrOutsideIsNotCommitted) {
    const auto memory = make(16, 0);
    ASSERT_TRUE(memory->commit(run_at(4, 4)).ok());
    const driver_live before = script->live();
    for (const segment_run run : {run_at(4, 4), run_at(0, 5), run_at(7, 1), run_at(5, 1), run_at(0, 16)}) {
        const commit_outcome outcome = memory->commit(run);
        EXPECT_EQ(outcome.status.code(), absl::StatusCode::kFailedPrecondition);
        EXPECT_EQ(outcome.why, failure_reason::commit_failed);
        expect_text(outcome.status, {"[4, +4)"});
    }
    for (const segment_run run : {run_at(16, 1), run_at(15, 2), run_at(0, 17), segment_run{no_segment, 1}, run_at(0, 0),
                                  run_at(1, 0xffffffffu)}) {
        const commit_outcome outcome = memory->commit(run);
        EXPECT_EQ(outcome.status.code(), absl::StatusCode::kOutOfRange);
        EXPECT_EQ(outcome.why, failure_reason::commit_failed);
        expect_text(outcome.status, {"there are 16"});
    }
    EXPECT_EQ(script->live(), before);
    EXPECT_TRUE(memory->commit(run_at(0, 4)).ok());
    EXPECT_TRUE(memory->commit(run_at(8, 8)).ok());
}

TEST_F(ElasticBacking, AFailedCommitLeavesNothing) {
    const auto memory = make(4, 4);
    for (const driver_call call : {driver_call::create, driver_call::map, driver_call::set_access}) {
        script->fail(call, absl::InternalError("the driver's own words"));
        const commit_outcome outcome = memory->commit(run_at(1, 2));
        EXPECT_EQ(outcome.status, absl::InternalError("the driver's own words"));
        EXPECT_EQ(outcome.why, failure_reason::commit_failed);
        EXPECT_EQ(script->live(), (driver_live{1, 0, 0, 0, 0})) << static_cast<int>(call);
        EXPECT_EQ(memory->use().device_bytes, 0u);
        EXPECT_EQ(memory->use().host_bytes, 0u);
    }
    EXPECT_TRUE(memory->commit(run_at(1, 2)).ok());
}

TEST_F(ElasticBackingDeathTest, WhatIsNotCommittedFaults) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto memory = make(2, 2);
    ASSERT_TRUE(memory->commit(run_at(1, 2)).ok());
    ASSERT_TRUE(memory->commit(run_at(4, 2)).ok());
    char* base = memory->base();
    EXPECT_DEATH(touch(base), "");
    EXPECT_DEATH(write_to(base + 3 * segment_bytes), "");
    write_to(base + 3 * segment_bytes - 1);
    write_to(base + 4 * segment_bytes);
    ASSERT_TRUE(memory->decommit(run_at(1, 2)).ok());
    EXPECT_DEATH(touch(base + segment_bytes), "");
}

TEST_F(ElasticBacking, ItsEndLeavesNothing) {
    {
        const auto memory = make(2, 2);
        ASSERT_TRUE(memory->commit(run_at(0, 2)).ok());
        ASSERT_TRUE(memory->commit(run_at(3, 1)).ok());
        for (int i = 0; i < 2; ++i) {
            const auto reserved = memory->reserve_metadata(3 * segment_bytes);
            ASSERT_TRUE(reserved.ok());
            ASSERT_TRUE(memory->commit_metadata(*reserved, segment_bytes + 1).ok());
        }
        EXPECT_EQ(script->live(), (driver_live{3, 4, 4, 6 * segment_bytes, segment_bytes}));
    }
    EXPECT_EQ(script->live(), driver_live{});
}

TEST_F(ElasticBacking, SaysWhatItHasTakenMeanwhile) {
    const auto memory = make(8, 8);
    script->delay(std::chrono::microseconds(100));
    std::atomic<bool> done{false};
    std::vector<std::thread> askers(2);
    for (std::thread& asker : askers) {
        asker = std::thread([&] {
            while (!done.load()) {
                const memory_use now = memory->use();
                EXPECT_LE(now.device_bytes, now.device_budget);
                EXPECT_LE(now.host_bytes, now.host_budget);
            }
        });
    }
    for (int round = 0; round < 10; ++round) {
        for (std::uint32_t i = 0; i < 8; ++i) {
            EXPECT_TRUE(memory->commit(run_at(2 * i, 2)).ok());
        }
        for (std::uint32_t i = 0; i < 8; ++i) {
            EXPECT_TRUE(memory->decommit(run_at(2 * i, 2)).ok());
        }
    }
    done.store(true);
    for (std::thread& t : askers) {
        t.join();
    }
    EXPECT_EQ(memory->use().device_bytes + memory->use().host_bytes, 0u);
}

TEST_F(ElasticBacking, ASlowCommitDelaysNobodyElse) {
    const auto memory = make(4, 0);
    const std::size_t held = script->hold(driver_call::create, 2);
    ASSERT_TRUE(memory->commit(run_at(0, 1)).ok());
    commit_outcome outcome;
    std::thread grower([&] { outcome = memory->commit(run_at(1, 1)); });
    script->wait_until_reached(held);
    EXPECT_EQ(memory->use().device_bytes, segment_bytes) << "counted when it is there";
    EXPECT_TRUE(memory->reserve_metadata(1).ok());
    EXPECT_TRUE(memory->allocate_host_visible(1).ok());
    write_to(memory->base());
    script->let_go(held);
    grower.join();
    EXPECT_TRUE(outcome.ok()) << outcome.status;
    EXPECT_EQ(memory->use().device_bytes, 2 * segment_bytes);
}

}  // namespace
}  // namespace orchard
