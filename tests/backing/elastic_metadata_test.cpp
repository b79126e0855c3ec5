// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// An elastic backing's metadata: it is committed where it is needed, once, in the driver's granularity, and counted.

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/backing/elastic_fixture.hpp"

namespace orchard {
namespace {

using ElasticMetadata = ElasticBacking;

TEST_F(ElasticMetadata, MetadataIsCommittedOnce) {
    const auto memory = make(0, 0);
    const auto reserved = memory->reserve_metadata(7 * segment_bytes + 1);
    ASSERT_TRUE(reserved.ok()) << reserved.status();
    char* at = static_cast<char*>(*reserved);
    EXPECT_EQ(memory->use().metadata_bytes, 0u);
    ASSERT_TRUE(memory->commit_metadata(at, 0).ok());
    EXPECT_EQ(script->count(driver_call::create), 0u);

    ASSERT_TRUE(memory->commit_metadata(at + 3 * segment_bytes + 10, 20).ok());
    EXPECT_EQ(memory->use().metadata_bytes, segment_bytes);
    at[3 * segment_bytes] = 1;
    ASSERT_TRUE(memory->commit_metadata(at + segment_bytes - 1, 5 * segment_bytes).ok());
    EXPECT_EQ(script->count(driver_call::create), 3u) << "[0, 3) and [4, 6) in one call each";
    EXPECT_EQ(memory->use().metadata_bytes, 6 * segment_bytes);
    EXPECT_EQ(at[3 * segment_bytes], 1) << "it stays as it is";
    ASSERT_TRUE(memory->commit_metadata(at, 6 * segment_bytes).ok());
    EXPECT_EQ(script->count(driver_call::create), 3u);
    EXPECT_EQ(memory->use().device_bytes, 0u) << "metadata is outside the budget";
    ASSERT_TRUE(memory->commit_metadata(at + 7 * segment_bytes, 1).ok());
    write_to(at + 7 * segment_bytes);
}

TEST_F(ElasticMetadata, IsNotClearedWhenItIsCommitted) {
    const auto memory = make(0, 0);
    EXPECT_FALSE(memory->zeroes_all());
    const auto reserved = memory->reserve_metadata(2 * segment_bytes);
    ASSERT_TRUE(reserved.ok()) << reserved.status();
    char* at = static_cast<char*>(*reserved);
    EXPECT_FALSE(memory->has_metadata(at));
    char seen[3] = {1, 1, 1};
    ASSERT_TRUE(memory->read(seen, at + segment_bytes - 1, 3).ok());
    EXPECT_TRUE(all_zero(seen, 3)) << "metadata that is not committed reads as zero";
    const std::size_t before = script->calls().size();
    ASSERT_TRUE(memory->commit_metadata(at, 1).ok());
    EXPECT_EQ(script->calls().size() - before, 3u) << "create, map, set_access";
    EXPECT_TRUE(memory->has_metadata(at));
    EXPECT_FALSE(memory->has_metadata(at + segment_bytes));
    EXPECT_FALSE(all_zero(at, 1));
    ASSERT_TRUE(memory->read(seen, at + segment_bytes - 1, 3).ok());
    EXPECT_NE(seen[0], 0);
    EXPECT_EQ(seen[1], 0);
}

TEST_F(ElasticMetadata, MetadataThatWasNotReservedIsNotCommitted) {
    const auto memory = make(0, 0);
    const auto reserved = memory->reserve_metadata(100);
    ASSERT_TRUE(reserved.ok());
    char* at = static_cast<char*>(*reserved);
    for (const auto& [first, bytes] : {std::pair{at + segment_bytes, std::size_t{1}}, std::pair{at, segment_bytes + 1},
                                       std::pair{at - 1, std::size_t{2}}, std::pair{at, ~std::size_t{0}}}) {
        const absl::Status status = memory->commit_metadata(first, bytes);
        EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
        expect_text(status, {std::to_string(bytes)});
    }
}

TEST_F(ElasticMetadata, AFailedMetadataCommitLeavesNothing) {
    const auto memory = make(0, 0);
    const auto reserved = memory->reserve_metadata(4 * segment_bytes);
    ASSERT_TRUE(reserved.ok());
    for (const driver_call call : {driver_call::create, driver_call::map, driver_call::set_access}) {
        script->fail(call, absl::InternalError("the driver's own words"));
        EXPECT_EQ(memory->commit_metadata(*reserved, 3 * segment_bytes), absl::InternalError("the driver's own words"));
        EXPECT_EQ(script->live(), (driver_live{2, 0, 0, 0, 0})) << static_cast<int>(call);
        EXPECT_EQ(memory->use().metadata_bytes, 0u);
    }
    ASSERT_TRUE(memory->commit_metadata(*reserved, 3 * segment_bytes).ok());
    write_to(static_cast<char*>(*reserved) + 3 * segment_bytes - 1);
}

TEST_F(ElasticMetadata, OtherMetadataIsZeroAndCounted) {
    const auto memory = make(0, 0);
    const auto metadata = memory->allocate_metadata(1000);
    const auto shared = memory->allocate_host_visible(5000);
    ASSERT_TRUE(metadata.ok() && shared.ok());
    EXPECT_TRUE(all_zero(*metadata, 1000));
    EXPECT_TRUE(all_zero(*shared, 5000));
    EXPECT_EQ(memory->use().metadata_bytes, 6000u);
    script->fail(driver_call::allocate, absl::ResourceExhaustedError("no more"));
    EXPECT_EQ(memory->allocate_metadata(1).status(), absl::ResourceExhaustedError("no more"));
    EXPECT_EQ(memory->use().metadata_bytes, 6000u);

    const char text[] = "sixteen by a word";
    char back[sizeof(text)] = {};
    ASSERT_TRUE(memory->write(*metadata, text, sizeof(text)).ok());
    ASSERT_TRUE(memory->read(back, *metadata, sizeof(text)).ok());
    EXPECT_STREQ(back, text);
}

}  // namespace
}  // namespace orchard
