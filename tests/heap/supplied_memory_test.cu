// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A heap in memory that the caller supplies.

#include "absl/strings/match.h"
#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

class supplied : public ::testing::TestWithParam<device_option> {
protected:
    void SetUp() override {
        const auto choice = choose_device(GetParam());
        if (!choice.ok()) {
            GTEST_SKIP() << "needs a GPU: " << choice.status().message();
        }
        on_.kind = choice->kind;
        values_.device = GetParam();
    }
    /// Provides room for `n` segments at any alignment.
    void have(std::uint64_t n) {
        auto made = device_array<char>::create(on_, segments(n + 1) - 1);
        ASSERT_TRUE(made.ok()) << made.status();
        memory_ = *std::move(made);
    }

    simt::executor on_;
    options values_;
    device_array<char> memory_;
};
std::string name_of_device(const ::testing::TestParamInfo<device_option>& info) {
    return info.param == device_option::cuda ? "cuda" : "emulated";
}
INSTANTIATE_TEST_SUITE_P(all, supplied, ::testing::Values(device_option::emulated, device_option::cuda),
                         name_of_device);

TEST_P(supplied, memory_that_passes_the_end_of_the_address_space_is_refused) {
    ASSERT_NO_FATAL_FAILURE(have(20));
    const auto made = heap::create_in(memory_.data(), ~std::uint64_t{0} - segments(1), values_);
    EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(absl::StrContains(made.status().message(), "pass the end of the address space")) << made.status();
}

TEST_P(supplied, memory_is_used_and_stays_the_callers) {
    ASSERT_NO_FATAL_FAILURE(have(20));
    for (int round = 0; round < 3; ++round) {
        auto h = heap::create_in(memory_.data(), memory_.size(), values_);
        ASSERT_TRUE(h.ok()) << h.status();
        EXPECT_EQ(h->configuration().backing, backing_option::fixed);
        EXPECT_EQ(h->configuration().capacity, segments(20));
        const auto heads = device_array<std::uint64_t>::create(on_, 1);
        const auto counts = device_array<std::uint64_t>::create(on_, 1);
        ASSERT_TRUE(heads.ok() && counts.ok());
        const auto result =
            simt::launch(h->executor(), {1, 1}, fill_heap{h->ref(), segments(1), 1000, heads->data(), counts->data()});
        ASSERT_TRUE(result.ok) << result.error;
        std::uint64_t head = 0;
        std::uint64_t count = 0;
        ASSERT_TRUE(heads->download({&head, 1}).ok() && counts->download({&count, 1}).ok());
        EXPECT_EQ(count, 20u);
        const auto first = reinterpret_cast<std::uint64_t>(memory_.data());
        EXPECT_GE(head, first);
        EXPECT_LE(head + segments(1), first + memory_.size());
        EXPECT_EQ(h->last_failure()->reason, failure_reason::out_of_memory_device_budget);
        EXPECT_TRUE(h->validate().ok()) << h->validate();
    }
    EXPECT_TRUE(memory_.zero().ok());
}

TEST_P(supplied, memory_without_a_whole_segment_is_refused) {
    ASSERT_NO_FATAL_FAILURE(have(2));
    const auto first = reinterpret_cast<std::uintptr_t>(memory_.data());
    char* const aligned = memory_.data() + (segment_bytes - first % segment_bytes) % segment_bytes;
    for (const auto& [at, bytes] : {std::pair{aligned, segment_bytes - 1}, std::pair{aligned + 1, segment_bytes},
                                    std::pair{aligned, std::uint64_t{0}}}) {
        const auto refused = heap::create_in(at, bytes, values_);
        EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << refused.status();
        EXPECT_NE(refused.status().message().find(std::to_string(bytes)), absl::string_view::npos);
    }
    EXPECT_TRUE(absl::IsInvalidArgument(heap::create_in(nullptr, segments(8), values_).status()));
    EXPECT_TRUE(heap::create_in(aligned, segment_bytes, values_).ok());
}

}  // namespace
}  // namespace orchard::test
