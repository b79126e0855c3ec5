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

/// A failure and what follows "device time 1.020000003 s: " in its text.
struct golden {
    failure_reason reason;
    std::uint64_t bytes;
    std::uint32_t size_class;
    memory_levels now;
    const char* text;
};

constexpr std::uint64_t mib = 1 << 20;

// Each reason with figures that fit it, and with figures that a reader could take for a contradiction.
const golden texts[] = {
    {failure_reason::out_of_memory_device_budget,
     3 * mib,
     chunk_class,
     {4 * mib, 4 * mib, 0, 4 * mib, 0},
     "out_of_memory_device_budget: all memory that the heap may commit was granted; at this query, 4 MiB are in use of "
     "4 "
     "MiB committed, the largest free piece is 0 B; the budget is 4 MiB; raise the option capacity (ORCHARD_CAPACITY, "
     "--capacity), give a host_budget (ORCHARD_HOST_BUDGET, --host-budget), or free memory earlier"},
    {failure_reason::out_of_memory_device_budget,
     3 * mib,
     chunk_class,
     {0, 4 * mib, 4 * mib, 4 * mib, 0},
     "out_of_memory_device_budget: all memory that the heap may commit was granted; at this query, 0 B are in use of 4 "
     "MiB committed, the largest free piece is 4 MiB; the budget is 4 MiB; memory was freed after the request failed; "
     "raise the option capacity (ORCHARD_CAPACITY, --capacity), give a host_budget (ORCHARD_HOST_BUDGET, "
     "--host-budget), or free memory earlier"},
    {failure_reason::out_of_memory_device_budget,
     64,
     3,
     {0, 0, 0, 4 * mib, 0},
     "out_of_memory_device_budget: all memory that the heap may commit was granted; at this query, 0 B are in use of 0 "
     "B "
     "committed, the largest free piece is 0 B; the budget is 4 MiB; memory was freed after the request failed; raise "
     "the option capacity (ORCHARD_CAPACITY, --capacity), give a host_budget (ORCHARD_HOST_BUDGET, --host-budget), or "
     "free memory earlier"},
    {failure_reason::out_of_memory_host_budget,
     3 * mib,
     chunk_class,
     {8 * mib, 8 * mib, 0, 4 * mib, 4 * mib},
     "out_of_memory_host_budget: all memory that the heap may commit was granted, on the host too; at this query, 8 "
     "MiB "
     "are in use of 8 MiB committed, the largest free piece is 0 B; the budget is 4 MiB and 4 MiB on the host; raise "
     "the "
     "option host_budget (ORCHARD_HOST_BUDGET, --host-budget) or capacity (ORCHARD_CAPACITY, --capacity), or free "
     "memory "
     "earlier"},
    {failure_reason::out_of_memory_host_budget,
     3 * mib,
     chunk_class,
     {4 * mib, 8 * mib, 4 * mib, 4 * mib, 4 * mib},
     "out_of_memory_host_budget: all memory that the heap may commit was granted, on the host too; at this query, 4 "
     "MiB "
     "are in use of 8 MiB committed, the largest free piece is 4 MiB; the budget is 4 MiB and 4 MiB on the host; "
     "memory "
     "was freed after the request failed; raise the option host_budget (ORCHARD_HOST_BUDGET, --host-budget) or "
     "capacity "
     "(ORCHARD_CAPACITY, --capacity), or free memory earlier"},
    {failure_reason::out_of_memory_virtual_range,
     2 * mib,
     chunk_class,
     {8 * mib, 8 * mib, 0, 64 * mib, 0},
     "out_of_memory_virtual_range: the heap's address range had no segment left; at this query, 8 MiB are in use of 8 "
     "MiB committed, the largest free piece is 0 B; the budget is 64 MiB; the budget is larger than the heap's "
     "addresses, so that it cannot be used up; raise the option range (ORCHARD_RANGE, --range), ask for smaller "
     "pieces, "
     "or free memory earlier"},
    {failure_reason::out_of_memory_virtual_range,
     2 * mib,
     chunk_class,
     {0, 8 * mib, 8 * mib, 64 * mib, 0},
     "out_of_memory_virtual_range: the heap's address range had no segment left; at this query, 0 B are in use of 8 "
     "MiB "
     "committed, the largest free piece is 8 MiB; the budget is 64 MiB; memory was freed after the request failed; "
     "raise "
     "the option range (ORCHARD_RANGE, --range), ask for smaller pieces, or free memory earlier"},
    {failure_reason::fragmented,
     8 * mib,
     chunk_class,
     {22 * mib, 32 * mib, 6 * mib, 32 * mib, 0},
     "fragmented: enough segments were free, but no run of them was long enough; at this query, 22 MiB are in use of "
     "32 "
     "MiB committed, the largest free piece is 6 MiB; the budget is 32 MiB; the free pieces have 10 MiB together; ask "
     "for smaller pieces, free in larger ones, lower the option cached_segments (ORCHARD_CACHED_SEGMENTS, "
     "--cached-segments), or raise the option capacity (ORCHARD_CAPACITY, --capacity)"},
    {failure_reason::fragmented,
     8 * mib,
     chunk_class,
     {0, 32 * mib, 32 * mib, 32 * mib, 0},
     "fragmented: enough segments were free, but no run of them was long enough; at this query, 0 B are in use of 32 "
     "MiB "
     "committed, the largest free piece is 32 MiB; the budget is 32 MiB; a piece that is long enough became free after "
     "the request failed; ask for smaller pieces, free in larger ones, lower the option cached_segments "
     "(ORCHARD_CACHED_SEGMENTS, --cached-segments), or raise the option capacity (ORCHARD_CAPACITY, --capacity)"},
    {failure_reason::too_large,
     65 * mib,
     chunk_class,
     {0, 0, 0, 64 * mib, 0},
     "too_large: the request is larger than the heap could ever grant; at this query, 0 B are in use of 0 B committed, "
     "the largest free piece is 0 B; the budget is 64 MiB; 64 MiB is the most that the heap may commit in all; ask for "
     "less at once, or raise the option capacity (ORCHARD_CAPACITY, --capacity)"},
    {failure_reason::too_large,
     3 * mib,
     chunk_class,
     {0, 64 * mib, 64 * mib, 64 * mib, 0},
     "too_large: the request is larger than the heap could ever grant; at this query, 0 B are in use of 64 MiB "
     "committed, "
     "the largest free piece is 64 MiB; the budget is 64 MiB; what its group asked for together, in whole segments, is "
     "more than the heap has; ask for less at once, or raise the option capacity (ORCHARD_CAPACITY, --capacity)"},
    {failure_reason::commit_blocked,
     3 * mib,
     chunk_class,
     {0, 7168 * mib, 7168 * mib, 65536 * mib, 0},
     "commit_blocked: the service answered, but the driver's call that commits memory did not return within the "
     "deadline; at this query, 0 B are in use of 7 GiB committed, the largest free piece is 7 GiB; the budget is 64 "
     "GiB; "
     "this memory came after the deadline: the driver's call had to wait until a kernel ended, until a kernel was "
     "loaded "
     "(lazy loading), or for another CUDA call of the program; call preload() for the kernels and reserve() before the "
     "launch, keep CUDA calls that wait for the kernel (cudaMalloc, cudaFree, pageable copies) off while it allocates, "
     "raise the option commit_ahead (ORCHARD_COMMIT_AHEAD, --commit-ahead), or raise request_timeout "
     "(ORCHARD_REQUEST_TIMEOUT, --request-timeout)"},
    {failure_reason::commit_blocked,
     64,
     3,
     {0, 0, 0, 65536 * mib, 0},
     "commit_blocked: the service answered, but the driver's call that commits memory did not return within the "
     "deadline; at this query, 0 B are in use of 0 B committed, the largest free piece is 0 B; the budget is 64 GiB; "
     "the "
     "driver's call may still wait until a kernel ends, until a kernel is loaded (lazy loading), or for another CUDA "
     "call of the program; call preload() for the kernels and reserve() before the launch, keep CUDA calls that wait "
     "for "
     "the kernel (cudaMalloc, cudaFree, pageable copies) off while it allocates, raise the option commit_ahead "
     "(ORCHARD_COMMIT_AHEAD, --commit-ahead), or raise request_timeout (ORCHARD_REQUEST_TIMEOUT, --request-timeout)"},
    {failure_reason::service_not_responding,
     64,
     3,
     {2 * mib, 4 * mib, 2 * mib, 64 * mib, 0, true},
     "service_not_responding: the service gave no sign of life within the deadline; the service does not answer this "
     "query; when it last did, 2 MiB were in use of 4 MiB committed, the largest free piece was 2 MiB; the budget is "
     "64 "
     "MiB; see that the process is not stopped and its service thread gets a core (option service_core: "
     "ORCHARD_SERVICE_CORE, --service-core), or raise the option request_timeout (ORCHARD_REQUEST_TIMEOUT, "
     "--request-timeout)"},
    {failure_reason::service_not_responding,
     64,
     3,
     {2 * mib, 4 * mib, 2 * mib, 64 * mib, 0, false},
     "service_not_responding: the service gave no sign of life within the deadline; at this query, 2 MiB are in use of "
     "4 "
     "MiB committed, the largest free piece is 2 MiB; the budget is 64 MiB; the service answers again; see that the "
     "process is not stopped and its service thread gets a core (option service_core: ORCHARD_SERVICE_CORE, "
     "--service-core), or raise the option request_timeout (ORCHARD_REQUEST_TIMEOUT, --request-timeout)"},
    {failure_reason::closing,
     64,
     3,
     {0, 4 * mib, 4 * mib, 64 * mib, 0},
     "closing: the heap was being closed; close the heap only after the kernels that use it have ended"},
    {failure_reason::invalid_alignment,
     64,
     3,
     {0, 4 * mib, 4 * mib, 64 * mib, 0},
     "invalid_alignment: the alignment is not a power of two up to 2 MiB; ask for a power of two up to 2097152"},
    {failure_reason::commit_failed,
     3 * mib,
     chunk_class,
     {8 * mib, 8 * mib, 0, 64 * mib, 0},
     "commit_failed: the driver had no physical memory left, although the heap's budget allows more; at this query, 8 "
     "MiB are in use of 8 MiB committed, the largest free piece is 0 B; the budget is 64 MiB; a budget is a limit, not "
     "memory that is set aside: the rest of it is used by others, or was never there; lower the option capacity "
     "(ORCHARD_CAPACITY, --capacity) to what the device has free (`orchard info`), or end what else uses its memory"},
    {failure_reason::commit_failed,
     3 * mib,
     chunk_class,
     {0, 8 * mib, 8 * mib, 64 * mib, 0},
     "commit_failed: the driver had no physical memory left, although the heap's budget allows more; at this query, 0 "
     "B "
     "are in use of 8 MiB committed, the largest free piece is 8 MiB; the budget is 64 MiB; memory became free after "
     "the "
     "request failed; lower the option capacity (ORCHARD_CAPACITY, --capacity) to what the device has free (`orchard "
     "info`), or end what else uses its memory"},
};

TEST(failure_text, of_each_reason_does_not_contradict_the_figures_beside_it) {
    std::set<failure_reason> seen;
    for (const golden& g : texts) {
        seen.insert(g.reason);
        const failure what{.reason = g.reason,
                           .bytes = g.bytes,
                           .size_class = g.size_class,
                           .block = 3,
                           .thread = 12,
                           .time_ns = 1'020'000'003,
                           .count = 1,
                           .now = g.now};
        const std::string request = g.size_class < chunk_class
                                        ? "64 bytes (64 B, size class 3)"
                                        : std::to_string(g.bytes) + " bytes (" + std::to_string(g.bytes / mib) +
                                              " MiB, beyond the page classes)";
        EXPECT_EQ(to_text(what),
                  "a request of " + request + " by block 3, thread 12 failed at device time 1.020000003 s: " + g.text);
    }
    EXPECT_EQ(seen.size(), all_reasons().size());
}

TEST(failure_text, of_a_product_that_overflowed_has_no_number) {
    EXPECT_THAT(
        to_text({.reason = failure_reason::too_large, .bytes = ~std::uint64_t{0}, .count = 1}),
        testing::StartsWith("a request of more bytes than 64 bits can count (a product that overflowed) by block "
                            "0, thread 0 failed at"));
}

TEST(failure_text, every_reason_is_one_line_with_its_remedy) {
    for (const failure_reason reason : all_reasons()) {
        const std::string text = to_text({.reason = reason, .bytes = 1, .count = 1});
        EXPECT_THAT(text, HasSubstr(std::string(name_of(reason)) + ": " + std::string(explain(reason)) + "; "));
        EXPECT_TRUE(text.ends_with(remedy(reason))) << text;
        EXPECT_THAT(text, Not(HasSubstr("\n")));
        EXPECT_THAT(text, HasSubstr("a request of 1 byte (1 B, beyond the page classes)"));
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

TEST(failure_text, without_a_failure_says_so) { EXPECT_EQ(to_text(failure{}), "nothing failed"); }

}  // namespace
}  // namespace orchard
