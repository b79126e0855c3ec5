// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "runtime/heap/failure.hpp"

namespace orchard {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<failure_reason> all_reasons() {
    std::vector<failure_reason> reasons;
    for (std::uint32_t i = 1; i < failure_reasons; ++i) {
        reasons.push_back(static_cast<failure_reason>(i));
    }
    return reasons;
}

TEST(failure_reason, names_are_those_of_the_enumeration) {
    EXPECT_EQ(name_of(failure_reason::none), "none");
    EXPECT_EQ(name_of(failure_reason::out_of_memory_device_budget), "out_of_memory_device_budget");
    EXPECT_EQ(name_of(failure_reason::out_of_memory_virtual_range), "out_of_memory_virtual_range");
    EXPECT_EQ(name_of(failure_reason::fragmented), "fragmented");
    EXPECT_EQ(name_of(failure_reason::too_large), "too_large");
    EXPECT_EQ(name_of(failure_reason::commit_blocked), "commit_blocked");
    EXPECT_EQ(name_of(failure_reason::service_not_responding), "service_not_responding");
    EXPECT_EQ(name_of(failure_reason::closing), "closing");
    EXPECT_EQ(name_of(failure_reason::invalid_alignment), "invalid_alignment");
    EXPECT_EQ(name_of(failure_reason::commit_failed), "commit_failed");
    EXPECT_EQ(name_of(failure_reason::out_of_memory_host_budget), "out_of_memory_host_budget");
    EXPECT_EQ(static_cast<std::uint32_t>(failure_reason::out_of_memory_host_budget) + 1, failure_reasons);
}

TEST(failure_reason, each_has_a_meaning_and_a_remedy_of_its_own) {
    std::set<std::string_view> meanings;
    std::set<std::string_view> remedies;
    for (const failure_reason reason : all_reasons()) {
        meanings.insert(explain(reason));
        remedies.insert(remedy(reason));
        EXPECT_GT(explain(reason).size(), 10u) << name_of(reason);
        EXPECT_GT(remedy(reason).size(), 10u) << name_of(reason);
    }
    EXPECT_EQ(meanings.size(), all_reasons().size());
    EXPECT_EQ(remedies.size(), all_reasons().size());
    EXPECT_EQ(remedy(failure_reason::none), "");
}

TEST(failure_reason, a_value_outside_the_enumeration_is_unknown) {
    for (const std::uint32_t value : {failure_reasons, std::numeric_limits<std::uint32_t>::max()}) {
        EXPECT_EQ(name_of(static_cast<failure_reason>(value)), "unknown");
        EXPECT_THAT(to_text(failure{.reason = static_cast<failure_reason>(value), .count = 1}),
                    HasSubstr("same version"));
    }
}

TEST(failure_text, says_size_class_place_time_reason_and_remedy) {
    const failure what{.reason = failure_reason::fragmented,
                       .bytes = 8192,
                       .size_class = 17,
                       .block = 3,
                       .thread = 12,
                       .time_ns = 1'020'000'003,
                       .count = 1};
    EXPECT_EQ(
        to_text(what),
        "a request of 8192 bytes (8 KiB, size class 17) by block 3, thread 12 failed at device time 1.020000003 s: "
        "fragmented: enough segments are free, but no run of them is long enough; ask for smaller pieces, free in "
        "larger ones, lower the option cached_segments, or raise the option capacity");
}

TEST(failure_text, every_reason_is_one_line_with_its_remedy) {
    for (const failure_reason reason : all_reasons()) {
        const std::string text = to_text({.reason = reason, .bytes = 1, .count = 1});
        EXPECT_THAT(text, HasSubstr(std::string(name_of(reason)) + ": " + std::string(explain(reason)) + "; "));
        EXPECT_TRUE(text.ends_with(remedy(reason))) << text;
        EXPECT_THAT(text, Not(HasSubstr("\n")));
        EXPECT_THAT(text, HasSubstr("a request of 1 bytes (1 B, beyond the page classes)"));
    }
}

TEST(failure_text, counts_further_failures) {
    EXPECT_THAT(to_text({.reason = failure_reason::too_large, .count = 1}), Not(HasSubstr("so far")));
    EXPECT_THAT(to_text({.reason = failure_reason::too_large, .count = 42}),
                HasSubstr("; 42 requests failed so far; "));
    EXPECT_THAT(to_text({.reason = failure_reason::too_large, .count = 42, .of_reason = 42}),
                HasSubstr("; 42 requests failed so far; "));
    EXPECT_THAT(to_text({.reason = failure_reason::too_large, .count = 42, .of_reason = 3}),
                HasSubstr("; 42 requests failed so far, 3 of them for this reason; "));
}

TEST(failure_text, says_what_the_heap_holds) {
    failure what{.reason = failure_reason::fragmented, .count = 1};
    what.now = {.in_use = 6 << 20, .committed = 10 << 20, .largest_free = 2 << 20, .device_budget = 64 << 20};
    EXPECT_THAT(to_text(what),
                HasSubstr("; now 6 MiB are in use of 10 MiB committed, the largest free piece is 2 MiB, the budget 64 "
                          "MiB; ask for"));
    what.now.host_budget = 3 << 20;
    EXPECT_THAT(to_text(what), HasSubstr("the budget 64 MiB and 3 MiB on the host; "));
    what.now.is_late = true;
    EXPECT_THAT(to_text(what),
                HasSubstr("the largest free piece was, when the service last said so, 2 MiB, the budget"));
}

TEST(failure_text, without_a_failure_says_so) { EXPECT_EQ(to_text(failure{}), "nothing failed"); }

}  // namespace
}  // namespace orchard
