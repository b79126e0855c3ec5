// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Ordinary memory as a backing: committed memory can be used, and an access to other memory faults.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "uvm/memory/backing.hpp"

namespace orchard {
namespace {

std::unique_ptr<backing> make(std::uint64_t capacity) {
    auto made = make_emulated_backing(capacity);
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
}

bool all_zero(const void* memory, std::size_t bytes) {
    const auto* p = static_cast<const volatile unsigned char*>(memory);
    for (std::size_t i = 0; i < bytes; ++i) {
        if (p[i] != 0) {
            return false;
        }
    }
    return true;
}

void touch(const char* p) { (void)*static_cast<const volatile char*>(p); }
void write_to(char* p) { *static_cast<volatile char*>(p) = 1; }

TEST(EmulatedBacking, ReservesWholeSegmentsAlignedToThemselves) {
    for (const std::uint64_t extra : {std::uint64_t{0}, std::uint64_t{1}, segment_bytes - 1}) {
        const auto memory = make(7 * segment_bytes + extra);
        EXPECT_EQ(memory->segments(), 7u);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory->base()) % segment_bytes, 0u);
        EXPECT_EQ(memory->committed_at_start(), 0u);
        EXPECT_EQ(memory->stream(), nullptr);
    }
}

TEST(EmulatedBacking, ReservesFarMoreThanThereIs) {
    const auto memory = make(1ull << 40);
    EXPECT_EQ(memory->segments(), 1u << 19);
    const segment_run last{segment_index{(1u << 19) - 1}, 1};
    ASSERT_TRUE(memory->commit(last).ok());
    write_to(memory->base() + (1ull << 40) - 1);
}

TEST(EmulatedBacking, CommittedMemoryIsZeroAndKeepsWhatIsWritten) {
    const auto memory = make(8 * segment_bytes);
    ASSERT_TRUE(memory->commit({segment_index{2}, 3}).ok());
    char* first = memory->base() + 2 * segment_bytes;
    EXPECT_TRUE(all_zero(first, 3 * segment_bytes));
    std::memset(first, 0x5a, 3 * segment_bytes);
    ASSERT_TRUE(memory->commit({segment_index{5}, 1}).ok());
    EXPECT_EQ(first[0], 0x5a);
    EXPECT_EQ(first[3 * segment_bytes - 1], 0x5a);
    EXPECT_EQ(first[3 * segment_bytes], 0);
}

TEST(EmulatedBacking, ARunIsCommittedOnceAndTakenBackAsItWas) {
    const auto memory = make(8 * segment_bytes);
    const segment_run run{segment_index{2}, 3};
    ASSERT_TRUE(memory->can_decommit());
    ASSERT_TRUE(memory->commit(run).ok());
    for (const segment_run other : {run, segment_run{segment_index{1}, 2}, segment_run{segment_index{4}, 4}}) {
        const commit_outcome again = memory->commit(other);
        EXPECT_EQ(again.status.code(), absl::StatusCode::kFailedPrecondition);
        EXPECT_EQ(again.why, failure_reason::commit_failed);
        EXPECT_NE(std::string(again.status.message()).find("[2, +3)"), std::string::npos) << again.status;
    }
    for (const segment_run other : {segment_run{segment_index{2}, 2}, segment_run{segment_index{3}, 2},
                                    segment_run{segment_index{0}, 1}, segment_run{no_segment, 1}}) {
        EXPECT_EQ(memory->decommit(other).code(), absl::StatusCode::kFailedPrecondition);
    }
    ASSERT_TRUE(memory->decommit(run).ok());
    EXPECT_FALSE(memory->decommit(run).ok());
    ASSERT_TRUE(memory->commit({segment_index{1}, 7}).ok());
    write_to(memory->base() + 2 * segment_bytes);
}

TEST(EmulatedBacking, SaysWhatItHasTaken) {
    const auto memory = make(8 * segment_bytes);
    EXPECT_EQ(memory->use().device_bytes, 0u);
    EXPECT_EQ(memory->use().device_budget, 8 * segment_bytes);
    EXPECT_EQ(memory->use().host_budget, 0u);
    ASSERT_TRUE(memory->commit({segment_index{2}, 3}).ok());
    ASSERT_TRUE(memory->commit({segment_index{0}, 1}).ok());
    ASSERT_TRUE(memory->allocate_metadata(100).ok());
    ASSERT_TRUE(memory->allocate_host_visible(1000).ok());
    EXPECT_EQ(memory->use().device_bytes, 4 * segment_bytes);
    EXPECT_EQ(memory->use().metadata_bytes, 1100u);
    ASSERT_TRUE(memory->decommit({segment_index{2}, 3}).ok());
    EXPECT_EQ(memory->use().device_bytes, segment_bytes);
}

TEST(EmulatedBackingDeathTest, WhatWasTakenBackFaults) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto memory = make(4 * segment_bytes);
    ASSERT_TRUE(memory->commit({segment_index{1}, 2}).ok());
    write_to(memory->base() + segment_bytes);
    ASSERT_TRUE(memory->decommit({segment_index{1}, 2}).ok());
    EXPECT_DEATH(touch(memory->base() + segment_bytes), "");
}

TEST(EmulatedBackingDeathTest, WhatIsNotCommittedFaults) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto memory = make(8 * segment_bytes);
    ASSERT_TRUE(memory->commit({segment_index{2}, 3}).ok());
    char* base = memory->base();
    EXPECT_DEATH(touch(base), "");
    EXPECT_DEATH(touch(base + 2 * segment_bytes - 1), "");
    EXPECT_DEATH(write_to(base + 5 * segment_bytes), "");
    EXPECT_DEATH(write_to(base + 8 * segment_bytes - 1), "");
    touch(base + 2 * segment_bytes);
    write_to(base + 5 * segment_bytes - 1);
}

TEST(EmulatedBacking, MetadataIsZeroAlignedAndApart) {
    const auto memory = make(segment_bytes);
    std::byte* before = nullptr;
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{256}, std::size_t{100'000}}) {
        const auto metadata = memory->allocate_metadata(bytes);
        const auto shared = memory->allocate_host_visible(bytes);
        ASSERT_TRUE(metadata.ok()) << metadata.status();
        ASSERT_TRUE(shared.ok()) << shared.status();
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(*metadata) % 256, 0u);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(*shared) % 4096, 0u);
        EXPECT_TRUE(all_zero(*metadata, bytes));
        std::memset(*metadata, 0xff, bytes);
        EXPECT_TRUE(all_zero(*shared, bytes));
        std::memset(*shared, 0xff, bytes);
        EXPECT_NE(before, *metadata);
        before = static_cast<std::byte*>(*metadata);
    }
}

TEST(EmulatedBacking, ReadsAndWritesCopy) {
    const auto memory = make(segment_bytes);
    const auto metadata = memory->allocate_metadata(64);
    ASSERT_TRUE(metadata.ok());
    const char text[] = "sixteen by a word";
    ASSERT_TRUE(memory->write(*metadata, text, sizeof(text)).ok());
    char back[sizeof(text)] = {};
    ASSERT_TRUE(memory->read(back, *metadata, sizeof(text)).ok());
    EXPECT_STREQ(back, text);
}

TEST(EmulatedBacking, ACapacityBeyondTheAddressSpaceIsAnErrorThatNamesIt) {
    for (const std::uint64_t capacity : {std::uint64_t{1} << 60, ~std::uint64_t{0}}) {
        const auto made = make_emulated_backing(capacity);
        ASSERT_FALSE(made.ok());
        EXPECT_EQ(made.status().code(), absl::StatusCode::kResourceExhausted);
        const std::string message(made.status().message());
        EXPECT_NE(message.find(std::to_string(capacity / segment_bytes * segment_bytes)), std::string::npos) << message;
        EXPECT_NE(message.find("smaller capacity"), std::string::npos) << message;
    }
}

TEST(EmulatedBacking, MetadataBeyondTheAddressSpaceIsAnErrorThatNamesIt) {
    const auto memory = make(segment_bytes);
    for (const auto& made :
         {memory->allocate_metadata(std::size_t{1} << 60), memory->allocate_host_visible(std::size_t{1} << 60)}) {
        ASSERT_FALSE(made.ok());
        EXPECT_EQ(made.status().code(), absl::StatusCode::kResourceExhausted);
        EXPECT_NE(std::string(made.status().message()).find("1152921504606846976"), std::string::npos);
    }
}

// A segment index has 24 bits in the mailbox: a larger heap could not be addressed.
TEST(EmulatedBacking, AHeapHasAtMostAsManySegmentsAsTheMailboxCanName) {
    const auto made = make_emulated_backing(std::uint64_t{max_segments + 1} * segment_bytes);
    EXPECT_FALSE(made.ok());
}

TEST(EmulatedBacking, CommittingBeyondTheRangeIsAnErrorThatNamesIt) {
    const auto memory = make(4 * segment_bytes);
    for (const segment_run run :
         {segment_run{segment_index{4}, 1}, segment_run{segment_index{3}, 2}, segment_run{segment_index{0}, 5},
          segment_run{no_segment, 1}, segment_run{segment_index{0}, 0}}) {
        const commit_outcome outcome = memory->commit(run);
        EXPECT_FALSE(outcome.ok()) << to_underlying(run.first) << "+" << run.count;
    }
}

}  // namespace
}  // namespace orchard
