// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The error for each wrong change, and that `validate` finds each kind of planted fault.

#include <string>

#include <gtest/gtest.h>

#include "host/segment_directory.hpp"
#include "tests/segment_directory/segment_directory_peer.hpp"

namespace orchard {
namespace {

segment_run run_at(std::uint32_t first, std::uint32_t count) { return {segment_index{first}, count}; }

void expect_message(const absl::Status& s, absl::StatusCode code, const std::string& text) {
    EXPECT_EQ(s.code(), code);
    EXPECT_NE(s.message().find(text), absl::string_view::npos) << s;
}

class directory_errors : public ::testing::Test {
protected:
    // [0, 100) granted, [100, 200) free, [200, 300) uncommitted.
    void SetUp() override {
        ASSERT_TRUE(directory_.commit(run_at(0, 200)).ok());
        ASSERT_TRUE(directory_.grant(run_at(0, 100)).ok());
        ASSERT_TRUE(tree_.give_back(run_at(100, 100)));
        ASSERT_TRUE(directory_.validate(tree_).ok());
    }
    void TearDown() override {
        EXPECT_EQ(directory_.count(segment_state::granted), 100u);
        EXPECT_EQ(directory_.count(segment_state::free), 100u);
        EXPECT_EQ(directory_.count(segment_state::uncommitted), 100u);
        EXPECT_TRUE(directory_.validate(tree_).ok()) << directory_.validate(tree_);
    }

    segment_directory directory_{300};
    or_tree tree_{300, false};
};

constexpr auto precondition = absl::StatusCode::kFailedPrecondition;

TEST_F(directory_errors, returned_twice) {
    expect_message(to_status(directory_.give_back(run_at(99, 5))), precondition,
                   "cannot give back segment 100: it is free: it was returned twice");
    expect_message(to_status(directory_.give_back(run_at(150, 1))), precondition, "segment 150: it is free");
}

TEST_F(directory_errors, returned_without_a_grant) {
    expect_message(to_status(directory_.give_back(run_at(200, 1))), precondition,
                   "segment 200: it is uncommitted: it was never granted");
}

TEST_F(directory_errors, granted_twice) {
    expect_message(to_status(directory_.grant(run_at(99, 2))), precondition,
                   "cannot grant segment 99: it is granted: it would have two owners");
}

TEST_F(directory_errors, granted_without_memory) {
    expect_message(to_status(directory_.grant(run_at(150, 100))), precondition,
                   "cannot grant segment 200: it is uncommitted: it has no memory");
}

TEST_F(directory_errors, committed_twice) {
    expect_message(to_status(directory_.commit(run_at(199, 10))), precondition,
                   "cannot commit segment 199: it is free");
}

TEST_F(directory_errors, outside) {
    const auto range = absl::StatusCode::kOutOfRange;
    expect_message(to_status(directory_.commit(run_at(299, 2))), range, "cannot commit segment 300");
    expect_message(to_status(directory_.give_back(run_at(300, 1))), range, "cannot give back segment 300");
    expect_message(to_status(directory_.commit(run_at(250, 0xffffffff))), range, "segment 300");
    expect_message(to_status(directory_.grant(run_at(0xfffffff0, 0xffffffff))), range, "segment 4294967280");
    EXPECT_FALSE(directory_.grant({no_segment, 1}).ok());
    EXPECT_FALSE(directory_.grant({no_segment, 5}).ok());
    EXPECT_EQ(directory_.state(segment_index{300}), segment_state::outside);
    EXPECT_EQ(directory_.count(segment_state::outside), 0u);
}

TEST_F(directory_errors, right_changes_are_ok) {
    EXPECT_TRUE(to_status(directory_.give_back(run_at(10, 80))).ok());
    EXPECT_TRUE(to_status(directory_.grant(run_at(10, 80))).ok());
}

TEST_F(directory_errors, a_tree_of_another_size_is_found) {
    expect_message(directory_.validate(or_tree(299, false)), absl::StatusCode::kInternal, "its OR-tree 299");
}

TEST_F(directory_errors, a_segment_that_is_free_in_the_tree_alone_is_found) {
    ASSERT_TRUE(tree_.give_back(run_at(77, 1)));
    expect_message(directory_.validate(tree_), absl::StatusCode::kInternal,
                   "segment 77 is granted, but free in the OR-tree");
    ASSERT_TRUE(tree_.take(run_at(77, 1)));
}

TEST_F(directory_errors, planted_faults_are_found) {
    using peer = segment_directory_peer;
    peer::granted(directory_, 3) ^= 1ull << 30;
    expect_message(directory_.validate(tree_), absl::StatusCode::kInternal, "segment 222 is granted without memory");
    peer::granted(directory_, 3) ^= 1ull << 30;
    peer::committed(directory_, 4) ^= 1ull << 63;
    expect_message(directory_.validate(tree_), absl::StatusCode::kInternal, "segment 319");
    peer::committed(directory_, 4) ^= 1ull << 63;
    ++peer::granted_count(directory_);
    expect_message(directory_.validate(tree_), absl::StatusCode::kInternal, "200 committed and 101 granted");
    --peer::granted_count(directory_);
}

}  // namespace
}  // namespace orchard
