// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The end of a backing whose memory a call may still access: no memory is unmapped until that call has ended.

#include "uvm/memory/ended_drivers.hpp"

#include <gtest/gtest.h>

#include "tests/backing/elastic_fixture.hpp"

namespace orchard {
namespace {

class EndedDrivers : public ElasticBacking {
protected:
    /// A backing that holds user memory, metadata and a piece, and ends.
    void make_and_end() {
        script->maps_pieces = true;
        const auto memory = make(2, 2);
        ASSERT_TRUE(memory->commit(run_at(0, 2)).ok());
        const auto reserved = memory->reserve_metadata(1);
        ASSERT_TRUE(reserved.ok() && memory->commit_metadata(*reserved, 1).ok());
        const auto allocated = memory->allocate_metadata(1);
        ASSERT_TRUE(allocated.ok());
        metadata = static_cast<char*>(*allocated);
    }

    char* metadata = nullptr;
    const driver_live all{3, 3, 3, 4 * segment_bytes, 0};
};

TEST_F(EndedDrivers, OneThatIsIdleGoesAtOnce) {
    ASSERT_NO_FATAL_FAILURE(make_and_end());
    EXPECT_EQ(script->live(), driver_live{});
}

TEST_F(EndedDrivers, OneThatIsBusyKeepsItsMemoryUntilItIsIdle) {
    script->busy = true;
    ASSERT_NO_FATAL_FAILURE(make_and_end());
    EXPECT_EQ(script->live(), all);
    write_to(metadata);  // as the running call does
    EXPECT_EQ(detail::release_ended_drivers(), 1u);
    EXPECT_EQ(script->live(), all) << "it is busy still";
    script->busy = false;
    EXPECT_EQ(detail::release_ended_drivers(), 0u);
    EXPECT_EQ(script->live(), driver_live{});
}

TEST_F(EndedDrivers, TheEndOfAnotherTakesThoseThatHaveBecomeIdle) {
    script->busy = true;
    ASSERT_NO_FATAL_FAILURE(make_and_end());
    const auto first = std::exchange(script, std::make_shared<driver_script>());
    first->busy = false;
    ASSERT_NO_FATAL_FAILURE(make_and_end());
    EXPECT_EQ(first->live(), driver_live{});
    EXPECT_EQ(script->live(), driver_live{});
}

TEST_F(EndedDrivers, NoDriverIsNothing) {
    detail::end_driver(nullptr, [](memory_driver&) { FAIL(); });
}

}  // namespace
}  // namespace orchard
